"""What slurmclient asks of slurmrestd, and what slurmrestd answers, simulated or real."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from slurmclient import (
    AuthenticationError,
    CapacityError,
    JobDescription,
    JobState,
    NodeState,
    NodeUpdate,
    NotFoundError,
    RefusedError,
    Shared,
    SlurmError,
    UnsupportedError,
)
from tests.builders.job_descriptions import one_cpu
from tests.builders.slurm_sites import EXTERNAL, GRACE_S, NODES, Site, until
from tests.contract.slurm.conftest import OpenSite

_names = (f"contract-{number}" for number in itertools.count())


def an_allocation(**wishes: object) -> JobDescription:
    return one_cpu(next(_names), **wishes)


def a_batch_job(**wishes: object) -> JobDescription:
    script = JobDescription(
        script="#!/bin/bash\nsleep 600\n",
        environment=("PATH=/usr/bin:/bin",),
        standard_output="/dev/null",
        standard_error="/dev/null",
    )
    return replace(
        an_allocation(**wishes),
        script=script.script,
        environment=script.environment,
        standard_output=script.standard_output,
        standard_error=script.standard_error,
    )


# What is wrong, and the error numbers of an allocation and of a submission on 24.11 and on 26.05; 0: it is taken.
REFUSALS: dict[str, tuple[dict[str, object], tuple[int, int], tuple[int, int]]] = {
    "a partition that does not exist": ({"partition": "nowhere"}, (2000, 2000), (2000, 2000)),
    "a node that does not exist": ({"excluded_nodes": ("nowhere",)}, (2018, 2018), (2018, 2018)),
    "every node excluded": ({"excluded_nodes": NODES}, (2014, 2014), (2014, 2014)),
    "more CPUs than any node has": ({"cpus_per_task": 99}, (2014, 2014), (2015, 0)),
    "more memory than any node has": ({"memory_per_node_mb": 10**6}, (2014, 2014), (2014, 2014)),
    "more GPUs than any node has": ({"tres_per_node": "gres/gpu:9"}, (2014, 2014), (2014, 2014)),
    "a GRES that no node has": ({"tres_per_node": "gres/nothing:1"}, (2072, 2072), (2072, 2072)),
    "a count of GPUs of 20 digits": ({"tres_per_node": f"gres/gpu:{'9' * 20}"}, (2014, 2014), (2014, 2014)),
    "a feature that no node has": ({"constraints": "nothing"}, (2029, 2029), (2029, 2029)),
    "a start in an hour": ({"begin_time": "now+1hour"}, (2038, 0), (2038, 0)),
    "a hold": ({"priority": 0}, (2038, 0), (2038, 0)),
    "a time limit above the partition's": ({"partition": "short", "time_limit_minutes": 99}, (0, 0), (0, 0)),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_what_slurm_refuses_and_by_which_number(open_site: OpenSite, what: str) -> None:
    wishes, on_24_11, on_26_05 = REFUSALS[what]
    async with open_site() as site, site.client() as slurm:
        allocation, submission = on_26_05 if site.release >= (26, 5) else on_24_11
        for create, description, number in (
            (slurm.allocate, an_allocation(**wishes), allocation),
            (slurm.submit, a_batch_job(**wishes), submission),
        ):
            if number:
                with pytest.raises(SlurmError) as raised:
                    await create(description)
                assert raised.value.slurm_errno == number
                assert raised.value.http_status == (422 if site.release >= (26, 5) else 500)
            else:
                assert (await slurm.job((await create(description)).job_id)).state is JobState.PENDING


async def test_the_highest_common_version_is_spoken(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        capabilities = await slurm.negotiate()
        assert capabilities.api_version == (45 if site.release >= (26, 5) else 42)
        assert (capabilities.release.year, capabilities.release.month) == site.release
        assert capabilities.allocate
        assert (await slurm.ping()).responding


async def test_a_token_that_slurmctld_does_not_know_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site, site.client(token="eyJhbGciOiJIUzI1NiJ9.e30.x") as slurm:
        with pytest.raises(AuthenticationError) as raised:
            await slurm.nodes()
        assert (raised.value.http_status, raised.value.slurm_errno) == (511, 1007)


async def test_an_allocation_runs_when_it_is_answered(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        made = await slurm.allocate(an_allocation(tres_per_node="gres/gpu:h100:2", cpus_per_task=2))
        job = await slurm.job(made.job_id)
        assert (job.state, job.flags, job.batch) == (JobState.RUNNING, frozenset(), False)
        assert len(job.nodes) == 1
        assert set(job.nodes) <= set(NODES)
        assert job.cpus == 2
        assert [(gres.name, gres.type, gres.count) for gres in job.gres_detail[0]] == [("gpu", "h100", 2)]
        assert [(one.node, one.cpus, one.memory_mb) for one in job.allocations] == [(job.nodes[0], 2, 100)]


async def test_what_a_job_was_sent_can_be_read_back(open_site: OpenSite) -> None:
    wishes = an_allocation(
        comment="a comment",
        admin_comment='{"mark":1}',
        extra='{"mark":1}',
        partition="low",
        constraints="h100",
        excluded_nodes=("node-1",),
        time_limit_minutes=30,
        tres_per_node="gres/gpu:1",
        cpus_per_task=3,
        memory_per_node_mb=512,
        shared=Shared.NONE,
        nice=5,
    )
    async with open_site() as site, site.client() as slurm:
        job = await slurm.job((await slurm.submit(replace(a_batch_job(), **_said(wishes)))).job_id)
        assert job.name == wishes.name
        assert (job.comment, job.admin_comment, job.extra) == ("a comment", '{"mark":1}', '{"mark":1}')
        assert (job.partition, job.constraints, job.excluded_nodes) == ("low", "h100", ("node-1",))
        assert (job.time_limit_minutes, job.memory_per_node_mb, job.requeue) == (30, 512, False)
        assert (job.tres_per_node, job.current_working_directory) == ("gres/gpu:1", "/")
        assert (job.user_id, job.group_id, job.restart_count) == (0, 0, 0)


async def test_a_submitted_job_runs_as_whom_it_names(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        job = await slurm.job((await slurm.submit(a_batch_job(user_id=2001, group_id=2001))).job_id)
        assert (job.user_id, job.group_id) == (2001, 2001)


@pytest.mark.parametrize("waits", [True, False])
async def test_each_place_of_the_mark_is_changed_by_itself_as_long_as_the_job_lives(
    open_site: OpenSite, waits: bool
) -> None:
    async with open_site() as site, site.client() as slurm:
        held = {"priority": 0} if waits else {}
        wanted = a_batch_job(extra="extra", admin_comment="admin", comment="comment", **held)
        job_id = (await slurm.submit(wanted)).job_id
        state = JobState.PENDING if waits else JobState.RUNNING
        await until(lambda: slurm.job(job_id), lambda job: job.state is state, "it waits or runs")

        async def updated(changes: JobDescription) -> tuple[str, str, str]:
            await slurm.update_job(job_id, changes)
            job = await slurm.job(job_id)
            return job.extra, job.admin_comment, job.comment

        assert await updated(JobDescription(extra="x")) == ("x", "admin", "comment")
        assert await updated(JobDescription(admin_comment="y")) == ("x", "y", "comment")
        assert await updated(JobDescription(comment="z")) == ("x", "y", "z")
        assert await updated(JobDescription(extra="e" * 1024, admin_comment="ü" * 512)) == ("e" * 1024, "ü" * 512, "z")
        await slurm.cancel([job_id])
        await until(lambda: slurm.job(job_id), lambda job: job.state is JobState.CANCELLED, "its end")
        for late in (JobDescription(extra="late"), JobDescription(admin_comment="late")):
            with pytest.raises(SlurmError):
                await updated(late)
        job = await slurm.job(job_id)
        assert (job.extra, job.admin_comment) == ("e" * 1024, "ü" * 512)


async def test_an_allocation_runs_as_its_caller_and_cannot_bring_an_admin_comment(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        made = await slurm.allocate(an_allocation(extra="x"), as_user="alice")
        assert (await slurm.job(made.job_id)).user_id == 2001
        await slurm.update_job(made.job_id, JobDescription(admin_comment="set by root"))
        assert (await slurm.job(made.job_id)).admin_comment == "set by root"
        with pytest.raises(RefusedError) as raised:
            await slurm.allocate(an_allocation(admin_comment="x"), as_user="alice")
        assert raised.value.slurm_errno == 2002


@pytest.mark.parametrize("kind", ["batch", "allocation"])
async def test_the_owner_of_a_job_can_change_its_extra_and_not_its_admin_comment(
    open_site: OpenSite, kind: str
) -> None:
    """The mark in `admin_comment` proves that the extender made the job."""
    mark = "made by root"
    async with open_site() as site, site.client() as slurm, site.client("alice") as alice, site.client("bob") as bob:
        if kind == "batch":
            made = await slurm.submit(a_batch_job(user_id=2001, group_id=2001, admin_comment=mark, extra="root's"))
        else:
            made = await slurm.allocate(an_allocation(extra="root's"), as_user="alice")
            await slurm.update_job(made.job_id, JobDescription(admin_comment=mark))
        for changes in (JobDescription(admin_comment="forged"), JobDescription(extra="x", admin_comment="forged")):
            for user, number in ((alice, 2002), (bob, 2010)):
                with pytest.raises(RefusedError) as raised:
                    await user.update_job(made.job_id, changes)
                assert raised.value.slurm_errno == number
        job = await slurm.job(made.job_id)
        assert (job.user_id, job.admin_comment, job.extra) == (2001, mark, "root's")
        await alice.update_job(made.job_id, JobDescription(extra="alice's"))
        with pytest.raises(RefusedError):
            await bob.update_job(made.job_id, JobDescription(extra="bob's"))
        job = await slurm.job(made.job_id)
        assert (job.admin_comment, job.extra) == (mark, "alice's")


async def test_a_full_cluster_refuses_an_allocation_and_queues_a_submission(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        for _ in NODES:
            await slurm.allocate(an_allocation(cpus_per_task=8))
        with pytest.raises(CapacityError) as raised:
            await slurm.allocate(an_allocation())
        assert raised.value.slurm_errno == 2016
        waiting = await slurm.submit(a_batch_job())
        job = await until(
            lambda: slurm.job(waiting.job_id), lambda job: job.state_reason == "Resources", "it waits for resources"
        )
        assert job.state is JobState.PENDING
        with pytest.raises(CapacityError) as raised:
            await slurm.allocate(an_allocation())
        assert raised.value.slurm_errno == 2013


async def test_an_allocation_overtakes_no_job_that_waits_for_its_nodes_whatever_its_partition(
    open_site: OpenSite,
) -> None:
    async with open_site() as site, site.client() as slurm:
        for node in NODES:
            await slurm.allocate(an_allocation(cpus_per_task=1, required_nodes=(node,)))
        large = await slurm.submit(a_batch_job(cpus_per_task=8))
        await until(lambda: slurm.job(large.job_id), lambda job: job.state_reason == "Resources", "it waits")
        for partition in ("batch", "short"):  # both have all nodes
            with pytest.raises(CapacityError) as raised:
                await slurm.allocate(an_allocation(cpus_per_task=1, partition=partition, time_limit_minutes=1))
            assert raised.value.slurm_errno == 2013
        await slurm.cancel([large.job_id])
        await slurm.allocate(an_allocation(cpus_per_task=1, partition="short", time_limit_minutes=1))


async def test_drained_nodes_let_a_job_wait_and_refuse_an_allocation_for_now(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        for node in NODES:
            await slurm.update_node(node, NodeUpdate(state=("DRAIN",), reason="test"))
        with pytest.raises(CapacityError) as raised:
            await slurm.allocate(an_allocation())
        assert raised.value.slurm_errno == 2068
        made = await slurm.submit(a_batch_job())
        assert made.warnings
        await slurm.update_node("node-2", NodeUpdate(state=("UNDRAIN",)))
        job = await until(lambda: slurm.job(made.job_id), lambda job: job.state is JobState.RUNNING, "it runs")
        assert job.nodes == ("node-2",)


async def test_every_way_to_cancel_has_its_number(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        made = await slurm.allocate(an_allocation())
        assert [(one.job_id, one.code) for one in await slurm.cancel([made.job_id])] == [(made.job_id, 0)]
        assert [one.code for one in await slurm.cancel([made.job_id])] == [2021]
        assert [(one.job_id, one.code) for one in await slurm.cancel([999_999])] == [(999_999, 2017)]
        assert (await slurm.job(made.job_id)).state is JobState.CANCELLED


async def test_an_unknown_job_is_not_found(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        for call in (slurm.job(999_999), slurm.update_job(999_999, JobDescription(comment="x"))):
            with pytest.raises(NotFoundError) as raised:
                await call
            assert (raised.value.http_status, raised.value.slurm_errno) == (404, 2017)
        assert 999_999 not in await slurm.job_states()


async def test_the_probe_finds_live_jobs_of_exactly_one_name_and_kills_none(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        running = await slurm.allocate(an_allocation(name="team/pod-abc"))
        waiting = await slurm.submit(a_batch_job(name="team/pod-abc", hold=True))
        ended = await slurm.allocate(an_allocation(name="team/pod-abc"))
        await slurm.cancel([ended.job_id])
        await slurm.allocate(an_allocation(name="team/pod-abcd"))
        await until(lambda: slurm.job(ended.job_id), lambda job: not job.flags, "its end is complete")
        found = {one.job_id: one.running for one in await slurm.find_jobs_by_name("team/pod-abc")}
        assert found == {running.job_id: True, waiting.job_id: False}
        assert (await slurm.job(running.job_id)).state is JobState.RUNNING
        assert await slurm.find_jobs_by_name("team/nothing") == ()


async def test_the_probe_sends_no_node_a_message_about_jobs_without_a_script(open_site: OpenSite) -> None:
    """Nodes without slurmd cannot answer, and are lost to Slurm for it."""
    async with open_site() as site, site.client() as slurm:
        late = site.release >= (26, 5)
        where: dict[str, object] = {"external": True, "partition": "outside"} if late else {}
        made = await slurm.allocate(an_allocation(name="scriptless", **where))
        found = await slurm.find_jobs_by_name("scriptless")
        assert [(one.job_id, one.running, one.code) for one in found] == [(made.job_id, True, 2009)]


async def test_the_states_of_all_jobs_come_in_one_answer(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        running = await slurm.allocate(an_allocation())
        held = await slurm.submit(a_batch_job(hold=True))
        states = await slurm.job_states()
        assert states[running.job_id] == {"RUNNING"}
        assert states[held.job_id] == {"PENDING"}
        assert set(await slurm.job_states([running.job_id, 999_999])) == {running.job_id}


async def test_excluded_nodes_of_a_waiting_job_can_be_replaced_and_taken_away(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        made = await slurm.submit(a_batch_job(hold=True, excluded_nodes=("node-1",)))
        await slurm.update_job(made.job_id, JobDescription(excluded_nodes=("node-2", "node-3")))
        assert (await slurm.job(made.job_id)).excluded_nodes == ("node-2", "node-3")
        await slurm.update_job(made.job_id, JobDescription(excluded_nodes=()))
        assert (await slurm.job(made.job_id)).excluded_nodes == ()


async def test_what_cannot_be_changed_any_more_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        made = await slurm.allocate(an_allocation())
        with pytest.raises(RefusedError) as raised:
            await slurm.update_job(made.job_id, JobDescription(excluded_nodes=("node-1",)))
        assert raised.value.slurm_errno == 2073
        await slurm.cancel([made.job_id])
        with pytest.raises(RefusedError) as raised:
            await slurm.update_job(made.job_id, JobDescription(excluded_nodes=("node-1",)))
        assert raised.value.slurm_errno == 2084


async def test_a_running_job_ends_when_its_limit_says_and_never_without_one(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        job = await slurm.job((await slurm.allocate(an_allocation())).job_id)
        assert job.end_time is None
        job = await slurm.job((await slurm.allocate(an_allocation(time_limit_minutes=5))).job_id)
        assert job.start_time is not None
        assert job.end_time == job.start_time + 300


async def test_nodes_are_drained_and_undrained(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        await slurm.update_node("node-1", NodeUpdate(state=("DRAIN",), reason="slurm-extender: test"))
        node = await slurm.node("node-1")
        assert (node.state, node.drained, node.reason) == (NodeState.IDLE, True, "slurm-extender: test")
        await slurm.update_node("node-1", NodeUpdate(state=("UNDRAIN",)))
        back = await until(lambda: slurm.node("node-1"), lambda node: node.responding, "it responds")
        assert (back.state, back.drained, back.reason) == (NodeState.IDLE, False, "")
        with pytest.raises(NotFoundError):
            await slurm.node("nowhere")
        with pytest.raises(NotFoundError):
            await slurm.update_node("nowhere", NodeUpdate(state=("DRAIN",), reason="test"))


async def test_a_node_that_is_down_stays_down_when_it_is_undrained(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        site.set_down("node-1")
        await slurm.update_node("node-1", NodeUpdate(state=("DRAIN",), reason="slurm-extender: test"))
        node = await slurm.node("node-1")
        assert (node.state, node.drained) == (NodeState.DOWN, True)
        await slurm.update_node("node-1", NodeUpdate(state=("UNDRAIN",)))
        node = await slurm.node("node-1")
        assert (node.state, node.drained) == (NodeState.DOWN, False)


async def test_a_node_that_is_down_takes_the_reason_of_its_drain_and_that_which_comes_with_its_end(
    open_site: OpenSite,
) -> None:
    async with open_site() as site, site.client() as slurm:
        await slurm.update_node("node-1", NodeUpdate(state=("DOWN",), reason="bad DIMM"))
        await slurm.update_node("node-1", NodeUpdate(state=("DRAIN",), reason="slurm-extender: test"))
        assert (await slurm.node("node-1")).reason == "slurm-extender: test"
        await slurm.update_node("node-1", NodeUpdate(state=("UNDRAIN",), reason="bad DIMM"))
        node = await slurm.node("node-1")
        assert (node.drained, node.reason) == (False, "bad DIMM")


async def test_nodes_and_partitions_are_listed_with_what_the_rules_need(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        nodes = {node.name: node for node in await slurm.nodes()}
        external = set(EXTERNAL) if site.release >= (26, 5) else set()
        assert set(nodes) == set(NODES) | external
        assert {name for name, node in nodes.items() if "EXTERNAL" in node.flags} == external
        assert {"batch", "high", "low", "short"} <= set(nodes["node-1"].partitions)
        assert (nodes["node-1"].cpus, nodes["node-1"].real_memory_mb) == (8, 16_000)
        parts = {part.name: part for part in await slurm.partitions()}
        assert (parts["high"].priority_tier, parts["low"].grace_time_s, parts["batch"].nodes) == (10, GRACE_S, NODES)
        updated = {name: part.default for name, part in parts.items() if part.default is not None}
        assert {name for name, default in updated.items() if default} == (
            {"batch"} if site.release >= (26, 5) else set()
        )


async def test_external_jobs_need_no_slurmd_and_a_late_slurm(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        wanted = an_allocation(external=True, partition="outside" if site.release >= (26, 5) else "batch")
        if site.release < (25, 5):
            with pytest.raises(UnsupportedError):
                await slurm.allocate(wanted)
            return
        job = await slurm.job((await slurm.allocate(wanted)).job_id)
        assert (job.state, job.external, set(job.nodes) <= set(EXTERNAL)) == (JobState.RUNNING, True, True)
        queued = await slurm.submit(replace(wanted, name=next(_names)))
        await until(lambda: slurm.job(queued.job_id), lambda job: job.state is JobState.RUNNING, "it runs")
        await slurm.cancel([job.job_id, queued.job_id])
        completed = await until(lambda: slurm.job(job.job_id), lambda job: not job.flags, "its end is complete")
        assert completed.state is JobState.CANCELLED


async def test_a_refused_allocation_of_a_high_tier_has_killed_for_nothing(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as slurm:
        low = [(await slurm.allocate(an_allocation(cpus_per_task=8))).job_id for _ in NODES]
        with pytest.raises(CapacityError):
            await slurm.allocate(an_allocation(cpus_per_task=8, partition="high"))
        states = await until(
            lambda: _base_states(site, low), lambda states: "PREEMPTED" in states, "somebody was preempted"
        )
        assert sorted(states) == ["PREEMPTED", "RUNNING", "RUNNING"]


async def _base_states(site: Site, job_ids: list[int]) -> list[str]:
    async with site.client() as slurm:
        return [(await slurm.job(job_id)).state.value for job_id in job_ids]


def _said(description: JobDescription) -> dict[str, Any]:
    fields = JobDescription.__dataclass_fields__
    return {name: value for name in fields if (value := getattr(description, name)) is not None}
