"""The life of a placeholder as the extender sees it, on a simulated and on a real Slurm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.events import EndKind, ShrinkAnswered, SubmitRefused, Unshrinkable
from extender.domain.job_outcomes.slurm_states import (
    Ended,
    Ending,
    PolledState,
    Running,
    Waiting,
    observe,
    polled_state,
)
from extender.domain.jobs.changes import FOLLOWED
from extender.domain.jobs.identity import decode_mark
from extender.domain.jobs.job import JobOrder, Mark, Mode
from extender.domain.ports import PortError, Updated
from extender.slurm.nodes import SlurmrestdNodes
from slurmclient import JobDescription, NodeUpdate
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import EXTERNAL, GRACE_S, NODES, until
from tests.builders.submitted_jobs import ALICE, accepted, jobs_of, observed, read, refused, seen
from tests.contract.slurm.conftest import OpenSite


async def test_an_allocation_is_granted_at_once_and_ends_when_it_is_cancelled(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        order = an_allocation(gres={"gpu:h100": 2}, cpus=2)
        job_id = await accepted(jobs, order)
        job = await read(jobs, job_id)
        assert observe(job) == Running()
        assert len(job.nodes) == 1
        assert (job.cpus, job.memory_mb, job.gres, job.name) == (2, 100, {"gpu:h100": 2}, order.name)
        assert decode_mark(job.extra) == decode_mark(job.admin_comment) == order.mark
        assert job.comment == "Kubernetes Pod team/workload-1"
        assert polled_state((await jobs.states())[job_id]) is PolledState.RUNNING
        assert not (await jobs.cancel(job_id)).job_ended
        ended = await observed(jobs, job_id, Ended)
        assert (ended.kind, ended.alive) == (EndKind.CANCELLED, False)
        assert (await jobs.cancel(job_id)).job_ended


async def test_a_whole_node_is_shared_with_no_job_however_small(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        whole = await accepted(jobs, an_allocation("whole", cpus=1, memory_mb=0, whole_node=True))
        [node] = (await read(jobs, whole)).nodes
        others = [await accepted(jobs, an_allocation(f"small-{number}", cpus=1)) for number in range(2)]
        assert node not in {name for other in others for name in (await read(jobs, other)).nodes}
        await jobs.cancel(whole)


async def test_a_submitted_placeholder_waits_its_turn_and_then_runs(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        full = [await accepted(jobs, an_allocation(f"full-{node}", cpus=8)) for node in NODES]
        waiting = await accepted(jobs, an_order(time_limit_minutes=30))
        why = await until(
            lambda: seen(jobs, waiting), lambda one: isinstance(one, Waiting) and one.reason == "Resources", "Resources"
        )
        assert isinstance(why, Waiting)
        assert (why.impossible, why.held) == (False, False)
        await jobs.cancel(full[1])
        await observed(jobs, waiting, Running)
        job = await read(jobs, waiting)
        assert job.end_time == job.start_time + 1800
        assert observe(job) == Running(job.end_time - job.as_of)
        assert 0 <= job.as_of - job.start_time < 300  # slurmctld's own clock
        assert job.time_limit_minutes == 30


async def test_a_full_cluster_sends_an_immediate_order_to_the_queue(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for node in NODES:
            await accepted(jobs, an_allocation(f"full-{node}", cpus=8))
        event = await refused(jobs, an_allocation())
        assert (event.permanent, event.queue, event.number) == (False, True, 2016)


@pytest.mark.parametrize(
    ("wishes", "number"),
    [
        ({"partition": "nowhere"}, 2000),
        ({"memory_mb": 10**6}, 2014),
        ({"constraints": "nothing"}, 2029),
        ({"gres": {"nothing": 1}}, 2072),
    ],
)
async def test_what_can_never_run_is_refused_for_good(
    open_site: OpenSite, wishes: dict[str, object], number: int
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        at_once = await refused(jobs, an_allocation(**wishes))  # type: ignore[arg-type]  # fields of the request
        assert (at_once.permanent, at_once.queue) == (False, True)
        queued = await refused(jobs, an_order(**wishes))  # type: ignore[arg-type]  # fields of the request
        assert (queued.permanent, queued.queue, queued.number) == (True, False, number)


async def test_a_time_limit_above_the_partitions_is_seen_as_impossible(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for order in (an_allocation("a", partition="short", time_limit_minutes=99),
                      an_order("b", partition="short", time_limit_minutes=99)):  # fmt: skip
            job_id = await accepted(jobs, order)
            found = await until(
                lambda job_id=job_id: seen(jobs, job_id),  # type: ignore[misc]  # bound for each turn of the loop
                lambda one: isinstance(one, Waiting) and one.impossible,
                "impossible",
            )
            assert isinstance(found, Waiting)
            assert found.reason == "PartitionTimeLimit"


async def test_drained_nodes_never_make_a_placeholder_impossible(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for node in NODES:
            site.drain(node, "maintenance")
        for order in (an_order("a"), an_order("b", excluded=("node-1",))):
            job_id = await accepted(jobs, order)
            found = await until(
                lambda job_id=job_id: seen(jobs, job_id),  # type: ignore[misc]  # bound for each turn of the loop
                lambda one: isinstance(one, Waiting) and one.reason not in {"None", "Priority"},
                "a reason",
            )
            assert isinstance(found, Waiting)
            assert (found.impossible, found.held) == (False, False), found


async def test_the_probe_finds_a_workloads_jobs_of_every_attempt_and_no_others(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        first = an_allocation("workload-1")
        one = await accepted(jobs, first)
        second = an_order("workload-1", attempt=2, priority=0)
        two = await accepted(jobs, second)
        foreign = JobOrder(
            first.request, first.name, Mark("cluster-1", "slurm", "workload-9", 1), first.mode, first.immediate
        )
        await accepted(jobs, foreign)
        found = await jobs.probe(first.name, "workload-1", None)
        assert [job.job_id for job in found] == [one, two]
        assert observe(found[0]) == Running()
        await jobs.cancel(one)
        await observed(jobs, one, Ended)
        # The recorded job is told, ended or not; one that never was is left out.
        assert [job.job_id for job in await jobs.probe(first.name, "workload-1", one)] == [one, two]
        assert [job.job_id for job in await jobs.probe(first.name, "workload-1", 999_999)] == [two]
        assert await jobs.probe("nobody", "workload-1", None) == []


async def test_a_job_that_slurm_does_not_know_reads_as_none_and_has_ended_when_cancelled(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        assert await jobs.read(999_999) is None
        assert (await jobs.cancel(999_999)).job_ended


async def test_a_waiting_placeholder_that_may_use_no_node_any_more_is_set_aside_until_it_may(
    open_site: OpenSite,
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for node in NODES:
            site.drain(node, "maintenance")
        waiting = await accepted(jobs, an_order())
        assert (await jobs.follow(waiting, tuple(NODES))).excluded == tuple(NODES)
        for node in NODES:
            site.resume(node)
        found = await until(
            lambda: seen(jobs, waiting), lambda one: isinstance(one, Waiting) and one.impossible, "it is set aside"
        )
        assert isinstance(found, Waiting)
        assert (found.reason, found.held) == ("BadConstraints", False)
        assert (await jobs.follow(waiting, tuple(NODES[1:]))).excluded == tuple(NODES[1:])
        await observed(jobs, waiting, Running)
        assert (await read(jobs, waiting)).nodes == (NODES[0],)


async def test_exclusions_follow_a_waiting_placeholder_and_no_other(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        waiting = await accepted(jobs, an_order(priority=0, excluded=("node-1",)))
        assert (await read(jobs, waiting)).excluded == ("node-1",)
        assert (await jobs.follow(waiting, ("node-2", "node-3"))).excluded == ("node-2", "node-3")
        assert (await read(jobs, waiting)).excluded == ("node-2", "node-3")
        assert (await jobs.follow(waiting, ())).excluded == ()
        assert (await read(jobs, waiting)).excluded == ()
        assert (await jobs.follow(waiting, ("nowhere",))).excluded is None
        running = await accepted(jobs, an_allocation("workload-2"))
        assert (await jobs.follow(running, ("node-1",))).excluded is None
        assert (await jobs.follow(999_999, ("node-1",))).excluded is None


@pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.BATCH])
async def test_a_running_job_releases_the_nodes_that_are_not_kept_and_another_job_gets_them(
    open_site: OpenSite, mode: Mode
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        order = an_order(mode=mode, immediate=mode is Mode.ALLOCATION, members=len(NODES), cpus=8)
        job_id = await accepted(jobs, order)
        await observed(jobs, job_id, Running)
        had = (await read(jobs, job_id)).nodes
        assert len(had) == len(NODES)
        kept = (*had[:1], *had[2:])
        assert await jobs.shrink(job_id, kept) == ShrinkAnswered(job_id, True)
        assert (await read(jobs, job_id)).nodes == kept
        assert isinstance(await seen(jobs, job_id), Running)
        other = await accepted(jobs, an_order("workload-2", cpus=8))
        await observed(jobs, other, Running)
        assert (await read(jobs, other)).nodes == had[1:2]
        again = await jobs.shrink(job_id, had)
        assert (again.done, again.refused_for) == (False, Unshrinkable.JOB)
        if mode is Mode.BATCH:
            first = await jobs.shrink(job_id, kept[1:])
            assert (first.done, first.refused_for) == (False, Unshrinkable.JOB)
        assert (await read(jobs, job_id)).nodes == kept


async def test_nodes_are_taken_back_from_no_job_that_is_not_there(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        assert (await jobs_of(client).shrink(999_999, NODES[:1])).done is False


async def test_a_preemption_with_grace_is_announced_before_it_happens(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        low = [await accepted(jobs, an_allocation(f"low-{n}", cpus=8, partition="low")) for n in NODES]
        high = await accepted(jobs, an_order("high", cpus=8, partition="high"))

        async def doomed() -> list[tuple[int, Ending]]:
            views = [(job_id, await seen(jobs, job_id)) for job_id in low]
            return [(job_id, one) for job_id, one in views if isinstance(one, Ending)]

        victims = await until(doomed, lambda found: len(found) > 0, "a victim is warned")
        assert len(victims) == 1
        job_id, ending = victims[0]
        assert ending.kind is EndKind.PREEMPTED
        warned = await read(jobs, job_id)
        assert abs(warned.end_time - warned.preempt_time - GRACE_S) <= 1
        assert ending.ends_in is not None
        assert 0 < ending.ends_in <= GRACE_S + 1
        # The state words alone do not show it.
        assert polled_state((await jobs.states())[job_id]) in {PolledState.RUNNING, PolledState.UNKNOWN}
        await jobs.cancel(job_id)
        await observed(jobs, high, Running)
        assert len(await doomed()) == 0


async def test_a_preemption_without_grace_is_seen_as_one(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        low = [await accepted(jobs, an_allocation(f"low-{n}", cpus=8)) for n in NODES]
        await observed(jobs, await accepted(jobs, an_order("high", cpus=8, partition="high")), Running)
        ends = [one for job_id in low if isinstance(one := await seen(jobs, job_id), Ended)]
        assert [(one.kind, one.alive) for one in ends] == [(EndKind.PREEMPTED, False)]


async def test_suspended_requeued_and_held_jobs_are_seen_for_what_they_are(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        suspended = await accepted(jobs, an_allocation("suspended"))
        site.suspend(suspended)
        one = await observed(jobs, suspended, Ended)
        assert (one.kind, one.alive) == (EndKind.SUSPENDED, True)
        requeued = await accepted(jobs, an_order("requeued"))
        await observed(jobs, requeued, Running)
        site.requeue(requeued)
        one = await observed(jobs, requeued, Ended)
        assert (one.kind, one.alive) == (EndKind.REQUEUED, True)
        held = await accepted(jobs, an_order("held", begin="now+1hour"))
        site.hold(held)
        found = await until(lambda: seen(jobs, held), lambda one: isinstance(one, Waiting) and one.held, "held")
        assert isinstance(found, Waiting)
        assert found.reason == "JobHeldAdmin"


async def test_a_job_on_a_lost_node_ends_as_a_node_failure(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id = await accepted(jobs, an_allocation())
        site.set_down((await read(jobs, job_id)).nodes[0])
        ended = await observed(jobs, job_id, Ended)
        assert (ended.kind, ended.alive) == (EndKind.NODE_FAILURE, False)


async def test_an_external_placeholder_needs_no_slurmd(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        partition = "outside" if site.release >= (26, 5) else "batch"
        at_once = an_order("a", mode=Mode.EXTERNAL, immediate=True, partition=partition)
        queued = an_order("b", mode=Mode.EXTERNAL, partition=partition)
        if site.release < (25, 5):
            for order in (at_once, queued):
                event = await refused(jobs, order)
                assert (event.permanent, event.queue) == (False, False)
            return
        for order in (at_once, queued):
            job_id = await accepted(jobs, order)
            await observed(jobs, job_id, Running)
            assert set((await read(jobs, job_id)).nodes) <= set(EXTERNAL)
            await jobs.cancel(job_id)
            assert (await observed(jobs, job_id, Ended)).kind is EndKind.CANCELLED


async def test_a_placeholder_runs_as_whom_its_pod_was_allowed_to_name(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job = await read(jobs, await accepted(jobs, an_order("a", run_as=ALICE)))
        assert job.user_id == 2001
        assert decode_mark(job.admin_comment) == decode_mark(job.extra)
        at_once = await refused(jobs, an_allocation("b", run_as=ALICE))
        assert (at_once.permanent, at_once.queue) == (False, True)


async def test_a_placeholder_without_a_script_is_cancelled_instead(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        allocation = await accepted(jobs, an_allocation(cpus=8, excluded=NODES[1:]))
        waiting = await accepted(jobs, an_order("waiting", cpus=8, excluded=NODES[1:]))
        external = []
        if site.release >= (25, 5):
            external = [await accepted(jobs, an_order("ext", mode=Mode.EXTERNAL, immediate=True, partition="outside"))]
        for job_id in (waiting, allocation, *external):
            assert not (await jobs.finish(job_id, 0)).job_ended
            await observed(jobs, job_id, Ended)
            assert (await read(jobs, job_id)).state == "CANCELLED"
        assert (await jobs.finish(999_999, 0)).job_ended


async def test_a_waiting_placeholder_is_changed_in_place_and_keeps_its_age(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for node in NODES:
            await accepted(jobs, an_allocation(f"full-{node}", cpus=8))
        job_id = await accepted(jobs, an_order(cpus=8))
        before = await client.job(job_id)
        request = an_order(
            partition="batch,low", time_limit_minutes=7, constraints="h100", prefer="h100", nice=5, comment="mine",
            account="physics", wckey="w", qos="normal", dependency="afterany:999",
        ).request  # fmt: skip

        async def update_names(names: frozenset[str]) -> Updated:
            return await jobs.update(job_id, request, names, ("node-2",), {"extra": "anew", "admin_comment": "anew"})

        # A change of partition or account is answered with "not now" (11) now and then.
        wanted = FOLLOWED - {"licenses", "dependency"}
        await until(lambda: update_names(wanted), lambda answer: answer.done is True, "the change")
        job = await client.job(job_id)
        assert (job.partition, job.time_limit_minutes, job.constraints, job.prefer) == ("batch,low", 7, "h100", "h100")
        assert (job.nice, job.comment, job.excluded_nodes) == (5, "mine", ("node-2",))
        assert (job.extra, job.admin_comment) == ("anew", "anew")
        assert (job.submit_time, job.eligible_time) == (before.submit_time, before.eligible_time)
        request = an_order().request
        assert (await jobs.update(job_id, request, {"constraints", "prefer", "nice", "licenses"}, None)).done
        job = await client.job(job_id)
        assert (job.constraints, job.prefer, job.nice, job.excluded_nodes) == ("", "", 0, ("node-2",))


@pytest.mark.parametrize("wishes", [{"partition": "nowhere"}, {"constraints": "nothing"}])
async def test_a_change_that_slurm_refuses_leaves_the_placeholder_as_it_is(
    open_site: OpenSite, wishes: dict[str, str]
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        for node in NODES:
            await accepted(jobs, an_allocation(f"full-{node}", cpus=8))
        job_id = await accepted(jobs, an_order(cpus=8, time_limit_minutes=3))
        request = replace(an_order(time_limit_minutes=9).request, **wishes)  # type: ignore[arg-type]  # fields by name
        answer = await jobs.update(job_id, request, {*wishes, "time_limit_minutes"}, None)
        assert answer.done is False
        assert "Invalid" in answer.text
        assert (await read(jobs, job_id)).partition == "batch"


async def test_the_time_limit_of_a_running_placeholder_moves_its_end(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id = await accepted(jobs, an_allocation(time_limit_minutes=5))
        start = (await read(jobs, job_id)).start_time
        for minutes in (60, 3):
            await client.update_job(job_id, JobDescription(time_limit_minutes=minutes))
            assert (await read(jobs, job_id)).end_time == start + minutes * 60
        refused = await jobs.update(job_id, an_order(partition="low").request, {"partition"}, None)
        assert refused.done is False


async def test_the_picture_shows_nodes_partitions_and_what_this_slurm_can_do(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock(), default_partition="batch", send_user_signal=True)
        await client.negotiate()
        snapshot = await nodes.snapshot()
        late = site.release >= (26, 5)
        assert snapshot.known
        assert {name for name, node in snapshot.nodes.items() if node.external} == (set(EXTERNAL) if late else set())
        assert snapshot.partition_names("") == ("batch",)
        assert snapshot.partitions["low"].grace_time_s == GRACE_S
        assert snapshot.partitions["high"].priority_tier == 10
        assert snapshot.partitions["batch"].nodes == frozenset(NODES)
        features = snapshot.features
        assert (features.release[:2], features.allocate, features.external) == (site.release, True, late)
        assert features.send_user_signal


async def test_drains_of_the_extender_are_lifted_and_those_of_others_are_not(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock())
        await nodes.drain("node-1", "the Pod team/a is still there")
        drained = (await nodes.snapshot()).nodes["node-1"]
        assert "DRAIN" in drained.flags
        assert drained.reason == "slurm-extender: the Pod team/a is still there"
        await nodes.resume("node-1")
        assert "DRAIN" not in (await nodes.snapshot()).nodes["node-1"].flags
        await nodes.resume("node-1")
        site.drain("node-2", "broken fan")
        with pytest.raises(PortError, match="broken fan"):
            await nodes.resume("node-2")
        assert "DRAIN" in (await nodes.snapshot()).nodes["node-2"].flags
        with pytest.raises(PortError, match="nowhere"):
            await nodes.drain("nowhere", "x")


async def test_the_extenders_drain_of_a_node_that_is_down_restores_what_stood_there(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client:
        nodes = SlurmrestdNodes(client, LoopClock())
        await client.update_node("node-1", NodeUpdate(state=("DOWN",), reason="bad DIMM"))
        await nodes.drain("node-1", "the Pod team/a is still there")
        await nodes.drain("node-1", "the Pods team/a and team/b are still there")
        reason = (await client.node("node-1")).reason
        assert reason.startswith("slurm-extender: the Pods team/a and team/b are still there ")
        assert "bad DIMM" in reason
        await nodes.resume("node-1")
        node = await client.node("node-1")
        assert (node.drained, node.reason) == (False, "bad DIMM")


async def test_a_refused_token_is_said_plainly(open_site: OpenSite) -> None:
    async with open_site() as site, site.client(token="eyJhbGciOiJIUzI1NiJ9.e30.x") as client:
        jobs = jobs_of(client)
        (event,) = await jobs.submit(an_order())
        assert isinstance(event, SubmitRefused)
        assert (event.permanent, event.queue) == (False, False)
        assert not (await jobs.cancel(1)).job_ended
        for call in (
            jobs.read(1),
            jobs.states(),
            jobs.probe("x", "y", None),
            SlurmrestdNodes(client, LoopClock()).snapshot(),
        ):
            with pytest.raises(PortError, match="token"):
                await call
