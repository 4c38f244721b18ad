"""Edge cases of gangs in which Kubernetes, its scheduler or an administrator acts; docs/proof/gangs.md lists all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.verdict import WAITING_TEXT
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from extender.kube.owners import TTL_S
from simulator.kube.objects import Json, owner_reference
from simulator.kube.resources import JOBS
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

TAINT = {"key": "x", "value": "y", "effect": "NoSchedule"}


def gang(site: Site, numbers: range, size: int, **fields: Any) -> list[str]:
    names = [f"ring-{number}" for number in numbers]
    for one in names:
        site.kube.add_pod(one, annotations={GANG: "ring", GANG_SIZE: str(size)}, gates=(GATE,), **fields)
    return names


def bound(site: Site, names: list[str]) -> int:
    return sum(bool(site.pod(name)["spec"].get("nodeName")) for name in names)


def a_job(site: Site, pods: int) -> Json:
    meta: Json = {"name": "train", "namespace": "default", "annotations": {GANG: "true"}}
    spec = {"parallelism": pods, "completions": pods}
    return site.kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def job_pods(site: Site, job: Json, numbers: range, cpu: str = "1") -> list[str]:
    names = [f"train-{number}" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        site.kube.add_pod(name, cpu=cpu, owner=owner_reference(job), labels={JOB_INDEX: str(number)}, gates=(GATE,))
    return names


def scale(site: Site, pods: int) -> None:
    spec = {"parallelism": pods, "completions": pods}
    site.kube.change(ObjectKey(JOBS, "default", "train"), lambda job: job.update(spec=spec))


async def waiting_job(site: Site) -> int:
    """Return the id of the one job that waits, as soon as there is one."""
    await site.until(lambda: any(one.state == "PENDING" for one in site.live_jobs()), "its job")
    (job,) = (one for one in site.live_jobs() if one.state == "PENDING")
    return job.job_id


async def is_resized(site: Site, job_id: int, nodes: int) -> None:
    def has_size() -> bool:
        waiting = [one for one in site.live_jobs() if one.state == "PENDING"]
        return [(one.job_id, one.node_count, one.tasks) for one in waiting] == [(job_id, nodes, nodes)]

    await site.until(has_size, "the new size of the same job")


async def held_at_the_barrier(site: Site) -> list[str]:
    """A gang of three of which two members have voted: the node of the third is tainted."""
    names = gang(site, range(3), 3)
    site.edit_node("n3", lambda node: node["spec"].update(taints=[TAINT]))
    await site.until(lambda: len(site.live_jobs()) == 1, "its job")
    await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
    return names


async def test_edge_case_10_calls_that_kube_scheduler_cuts_leave_each_member_bound_once(site: Site) -> None:
    async with site.running():
        site.scheduler.set_timeout(0.5)
        names = await held_at_the_barrier(site)
        await asyncio.sleep(5)
        assert bound(site, names) == 0
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == len(site.jobs()) == 1


async def test_edge_case_11_a_kube_scheduler_that_restarts_during_the_barrier_offers_all_members_again(
    site: Site,
) -> None:
    async with site.running():
        names = await held_at_the_barrier(site)
        site.scheduler.restart()
        await asyncio.sleep(3)
        assert bound(site, names) == 0
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.jobs()) == 1


async def test_edge_case_12_an_extender_that_starts_during_the_barrier_binds_all_members(site: Site) -> None:
    async with site.running():
        names = await held_at_the_barrier(site)
    assert bound(site, names) == 0
    async with site.running():
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == 1


async def test_a_node_that_the_extender_itself_holds_back_for_a_while_costs_a_gang_neither_its_job_nor_a_node(
    site: Site,
) -> None:
    async with site.running():
        names = await held_at_the_barrier(site)
        jobs = [job.job_id for job in site.live_jobs()]
        said = site.kube.node("n1")
        assert said is not None
        gives = dict(said["status"]["allocatable"])
        site.edit_node("n1", lambda node: node["status"]["allocatable"].clear())
        await site.until(lambda: not site.placeholder(names[0]).cleared, "the Node says no sizes")
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        await asyncio.sleep(50)  # longer than gangs.bindWithin
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert not any("did not accept" in text for name in names for text in site.notes(name))
        site.edit_node("n1", lambda node: node["status"]["allocatable"].update(gives))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.job_id for job in site.jobs()] == jobs


async def test_edge_case_17_a_drained_node_keeps_its_member(site: Site) -> None:
    async with site.running():
        names = gang(site, range(3), 3)
        for name in names:
            await site.bound(name)
        before = site.live_jobs()
        await site.slurm_request("POST", "node/n2", {"state": ["DRAIN"], "reason": "disk"})
        await asyncio.sleep(60)
        assert bound(site, names) == 3
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in names)
        assert site.live_jobs() == before


@pytest.mark.parametrize("after_s", [0.0, TTL_S])
async def test_edge_case_21_a_job_that_is_scaled_up_while_its_gang_waits_gets_nodes_for_all(
    site: Site, after_s: float
) -> None:
    async with site.running():
        await site.fill()
        job = a_job(site, 2)
        names = job_pods(site, job, range(2), cpu="8")
        before = await waiting_job(site)
        await asyncio.sleep(after_s)  # until then the owner is cached
        scale(site, 3)
        names += job_pods(site, job, range(2, 3), cpu="8")
        await asyncio.sleep(120 - after_s)
        await is_resized(site, before, 3)
        for name in ("first-0", "first-1", "first-2"):
            site.kube.delete_pod(name, grace_s=1)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [one.job_id for one in site.live_jobs()] == [before]


async def test_edge_case_21_a_pod_beyond_the_slots_of_a_gang_that_runs_waits_for_a_slot(site: Site) -> None:
    async with site.running():
        job = a_job(site, 2)
        names = job_pods(site, job, range(2))
        for name in names:
            await site.bound(name)
        scale(site, 3)
        job_pods(site, job, range(2, 3))
        await asyncio.sleep(60)
        assert not site.pod("train-2")["spec"].get("nodeName")
        assert any("this Pod waits until a slot of its job is free" in note for note in site.notes("train-2"))
        site.kube.delete_pod(names[1], grace_s=1)
        await site.bound("train-2")
        assert len(site.jobs()) == 1


async def test_edge_case_22_a_job_that_is_scaled_down_while_its_gang_waits_needs_fewer_nodes(site: Site) -> None:
    async with site.running():
        await site.fill()
        job = a_job(site, 3)
        names = job_pods(site, job, range(3), cpu="8")
        before = await waiting_job(site)
        scale(site, 2)
        site.kube.delete_pod(names[2], grace_s=0)
        await is_resized(site, before, 2)
        for name in ("first-0", "first-1"):
            site.kube.delete_pod(name, grace_s=1)
        for name in names[:2]:
            await site.bound(name, within=900)
        assert before in [one.job_id for one in site.live_jobs()]


async def test_edge_case_22_a_job_that_is_scaled_down_while_it_runs_continues_with_the_others(site: Site) -> None:
    async with site.running():
        job = a_job(site, 3)
        names = job_pods(site, job, range(3))
        for name in names:
            await site.bound(name)
        (before,) = site.live_jobs()
        scale(site, 2)
        site.kube.delete_pod(names[2], grace_s=1)
        await site.gone(names[2])
        await asyncio.sleep(60)
        assert bound(site, names[:2]) == 2
        assert [one.job_id for one in site.live_jobs()] == [before.job_id]


@pytest.mark.parametrize("waits", [True, False])
async def test_edge_case_23_a_suspended_job_ends_the_job_of_its_gang(site: Site, waits: bool) -> None:
    async with site.running():
        if waits:
            await site.fill()
        others = site.live_jobs()
        job = a_job(site, 3)
        names = job_pods(site, job, range(3), cpu="8")
        await site.until(lambda: len(site.live_jobs()) == len(others) + 1, "its job")
        if not waits:
            for name in names:
                await site.bound(name)
        for name in names:
            site.kube.delete_pod(name, grace_s=0 if waits else 1)
        await site.until(lambda: site.live_jobs() == others, "the end of its job")


async def test_edge_case_28_members_that_exclude_each_other_are_on_nodes_of_their_own(site: Site) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    async with site.running():
        names = gang(site, range(3), 3)
        for name in names:
            site.edit_pod(name, lambda pod: pod["spec"]["containers"][0].update(ports=ports))
        assert sorted([await site.bound(name) for name in names]) == ["n1", "n2", "n3"]


async def test_edge_case_29_a_rule_between_members_that_no_nodes_meet_releases_the_job_and_counts_the_nodes(
    site: Site,
) -> None:
    def together(pod: Json, node: str) -> str:
        """`ring-1` has to be on the node of `ring-0`."""
        return "node(s) didn't match pod affinity rules" if pod["metadata"]["name"] == "ring-1" and node != "n1" else ""

    async with site.running():
        site.scheduler.judge = together
        names = gang(site, range(2), 2)
        said = "1 node is suitable, 2 are needed. Other nodes: 2 excluded by kube-scheduler or by rules of a Pod."
        await site.until(lambda: any(said in note for name in names for note in site.notes(name)), "the count", 120)
        assert bound(site, names) == 0
        assert site.live_jobs() == []
        rule = "didn't match pod affinity rules"
        await site.until(lambda: any(rule in note for note in site.notes("ring-1")), "the rule in an Event", 120)
        site.scheduler.judge = None
        for name in names:
            await site.bound(name)


async def test_edge_case_34_another_size_on_all_pods_while_the_job_waits_changes_the_job(site: Site) -> None:
    async with site.running():
        await site.fill()
        names = gang(site, range(2), 2, cpu="8")
        before = await waiting_job(site)
        names += gang(site, range(2, 3), 3, cpu="8")
        for name in names[:2]:
            site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].update({GANG_SIZE: "3"}))
        await is_resized(site, before, 3)
        for name in ("first-0", "first-1", "first-2"):
            site.kube.delete_pod(name, grace_s=1)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [one.job_id for one in site.live_jobs()] == [before]


async def test_edge_case_34_another_size_while_the_gang_runs_changes_nothing(site: Site) -> None:
    async with site.running():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
        before = site.live_jobs()
        for name in names:
            site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].update({GANG_SIZE: "3"}))
        await asyncio.sleep(60)
        assert (bound(site, names), site.live_jobs()) == (2, before)


async def behind_others(site: Site, seconds: int) -> list[str]:
    """A gang whose nodes are allocated; for so long kube-scheduler tries another Pod again and again."""
    names = gang(site, range(3), 3)
    await site.until(lambda: len(site.live_jobs()) == 1, "its job")
    await others_are_tried(site, seconds)
    assert bound(site, names) == 0
    return names


async def others_are_tried(site: Site, seconds: int) -> None:
    """For so long kube-scheduler tries a Pod again and again that waits for the second one of its gang."""
    site.kube.add_pod("other", annotations={GANG: "other", GANG_SIZE: "2"})
    for number in range(seconds // 2):
        await asyncio.sleep(2)
        turn = {"turn": str(number)}
        site.edit_node("n3", lambda node, turn=turn: node["metadata"]["labels"].update(turn))  # type: ignore[misc]


def no_server_is_reached(site: Site) -> None:
    site.scheduler.unreached = frozenset(f"ring-{number}" for number in range(3))


async def test_a_gang_that_kube_scheduler_has_not_reached_keeps_its_job_while_other_pods_are_tried(site: Site) -> None:
    async with site.running():
        no_server_is_reached(site)
        names = await behind_others(site, 60)
        site.scheduler.unreached = frozenset()
        site.edit_node("n3", lambda node: node["metadata"]["labels"].pop("turn"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.jobs()) == 1


async def test_a_gang_that_kube_scheduler_never_reaches_gives_its_nodes_back_in_the_end(site: Site) -> None:
    async with site.running():
        no_server_is_reached(site)
        await behind_others(site, 240)
        assert len(site.jobs()) > 1


async def test_a_member_that_the_filters_of_kube_scheduler_reject_is_reached_and_its_job_is_released(
    site: Site,
) -> None:
    async with site.running():
        site.scheduler.judge = lambda pod, _node: "volume" if pod["metadata"]["name"] == "ring-2" else ""
        await behind_others(site, 140)
        assert len(site.jobs()) > 3, "each job is released after gangs.bindWithin"


async def test_a_gang_that_was_tried_before_the_grant_keeps_its_job_until_kube_scheduler_reaches_it_again(
    site: Site,
) -> None:
    async with site.running():
        await site.fill()
        names = [f"ring-{number}" for number in range(3)]
        for name in names:
            site.kube.add_pod(name, cpu="8", annotations={GANG: "ring", GANG_SIZE: "3"})
        await site.until(lambda: all(WAITING_TEXT in str(site.pod(name)["status"]) for name in names), "their turn")
        no_server_is_reached(site)
        site.free_all()
        jobs = len(site.jobs())
        await others_are_tried(site, 90)
        assert bound(site, names) == 0
        site.scheduler.unreached = frozenset()
        site.edit_node("n3", lambda node: node["metadata"]["labels"].pop("turn"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.jobs()) == jobs
