"""Members that come when a gang runs already: kube-scheduler may not accept them, and the others continue."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import GANG, GANG_SIZE
from simulator.kube.faults import KubeFault
from tests.builders.gang_pods import (
    a_running_job_set,
    an_owner,
    bound,
    gang,
    group_member,
    pods_of_job_set,
    serve_controllers,
)
from tests.builders.kept import entries
from tests.builders.process_site import Site
from tests.sim.process.test_gang_crashes import TAINT, ends

pytestmark = pytest.mark.looptime


async def a_successor_is_refused(site: Site) -> list[int]:
    """Have a gang run whose second member left and has a successor, whose node got a taint. Return the gang's job."""
    for name in gang(site, range(3), 3):
        await site.bound(name)
    await asyncio.sleep(5)
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    site.edit_node("n2", lambda node: node["spec"].update(taints=[TAINT]))
    gang(site, range(1, 2), 3)
    await asyncio.sleep(5)
    return [job.job_id for job in site.live_jobs()]


def untouched(site: Site, *names: str) -> bool:
    """Return whether these Pods are bound, and none is being deleted."""
    return all(
        site.pod(one)["spec"].get("nodeName") and "deletionTimestamp" not in site.pod(one)["metadata"] for one in names
    )


async def test_a_successor_that_kube_scheduler_does_not_accept_ends_no_member_and_is_bound_once_it_does(
    site: Site,
) -> None:
    async with site.running():
        jobs = await a_successor_is_refused(site)
        await asyncio.sleep(300)
        assert untouched(site, "ring-0", "ring-2")
        assert bound(site, ["ring-1"]) == 0
        said = [text for text in site.notes("ring-1") if "did not accept default/ring-1" in text]
        assert len(said) == 1
        assert "other members continue" in said[0]
        assert site.extender.gang_barrier.outcomes["expired"] == 1
        site.edit_node("n2", lambda node: node["spec"].pop("taints"))
        assert await site.bound("ring-1", within=60) == "n2"
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_each_successor_of_a_member_gets_an_event_that_it_waits_for_the_node(site: Site) -> None:
    async with site.running():
        await a_successor_is_refused(site)
        await asyncio.sleep(60)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        site.kube.add_pod("again", annotations={GANG: "ring", GANG_SIZE: "3"})
        await site.until(
            lambda: any("did not accept default/again" in text for text in site.notes("again")), "its Event", 120
        )
        assert untouched(site, "ring-0", "ring-2")


async def test_members_that_came_and_went_leave_nothing_in_a_gang_that_runs_on(site: Site) -> None:
    shown = "extender.controllers.scheduling.FilterCandidates._full"
    async with site.running():
        for name in gang(site, range(3), 3):
            await site.bound(name)
        await asyncio.sleep(5)
        before = entries(site.extender, {shown})
        for _ in range(5):
            site.kube.delete_pod("ring-1", grace_s=1)
            await site.gone("ring-1")
            gang(site, range(1, 2), 3)
            await site.bound("ring-1", within=120)
        assert entries(site.extender, {shown}) == before


async def test_after_a_restart_a_successor_that_is_not_accepted_ends_no_member(site: Site) -> None:
    async with site.dying():
        jobs = await a_successor_is_refused(site)
    async with site.running():
        await asyncio.sleep(200)
        assert untouched(site, "ring-0", "ring-2")
        assert [job.job_id for job in site.live_jobs()] == jobs
        site.edit_node("n2", lambda node: node["spec"].pop("taints"))
        assert await site.bound("ring-1", within=60) == "n2"


async def test_a_successor_that_is_not_accepted_keeps_no_other_one_waiting(site: Site) -> None:
    async with site.running():
        jobs = await a_successor_is_refused(site)
        await asyncio.sleep(60)
        site.kube.delete_pod("ring-2", grace_s=1)
        await site.gone("ring-2")
        gang(site, range(2, 3), 3)
        assert await site.bound("ring-2", within=60) == "n3"
        assert untouched(site, "ring-0")
        assert bound(site, ["ring-1"]) == 0
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_a_successor_has_the_whole_time_for_bindings_whenever_its_gang_was_granted(site: Site) -> None:
    async with site.running():
        await a_successor_is_refused(site)  # it exists for 5 s now, its gang for 12 s
        outcomes = site.extender.gang_barrier.outcomes
        await asyncio.sleep(23)
        assert outcomes["expired"] == 0
        await asyncio.sleep(5)
        assert outcomes["expired"] == 1


async def test_the_job_ends_with_its_last_member_although_a_successor_is_not_accepted(site: Site) -> None:
    async with site.running():
        jobs = await a_successor_is_refused(site)
        await asyncio.sleep(60)
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not {job.job_id for job in site.live_jobs()} & {*jobs}, "the end of its job", 120)


async def test_a_first_member_whose_binding_is_refused_after_a_restart_ends_the_gang_as_a_whole(site: Site) -> None:
    fault = KubeFault("POST", "/pods/ring-1/binding", code=403, reason="Forbidden", times=None)
    site.kube.faults.add(fault)
    async with site.dying():
        names = gang(site, range(3), 3)
        await site.until(lambda: bound(site, names) == 2, "the Bindings of the others")
        await asyncio.sleep(3)
    async with site.running():
        await ends(site, ["ring-0", "ring-2"], within=90)
        for name in ("ring-0", "ring-2"):
            await site.gone(name)
            assert any("cannot start as a whole" in text for text in site.notes(name))


async def test_a_leader_does_not_run_on_without_a_worker_that_kube_scheduler_never_accepted(site: Site) -> None:
    serve_controllers(site)
    async with site.running():
        lws = an_owner(site, "LeaderWorkerSet", "vllm", {"startupPolicy": "LeaderReady"})
        group_member(site, "vllm-0", 0, an_owner(site, "StatefulSet", "vllm", {}, lws))
        await site.bound("vllm-0")
        await asyncio.sleep(5)
        site.edit_node("n2", lambda node: node["spec"].update(taints=[TAINT]))
        site.edit_node("n3", lambda node: node["spec"].update(taints=[TAINT]))
        leader = site.pod("vllm-0") | {"apiVersion": "v1", "kind": "Pod"}
        workers = an_owner(site, "StatefulSet", "vllm-0", {}, leader)
        for number in (1, 2):
            group_member(site, f"vllm-0-{number}", number, workers)
        await ends(site, ["vllm-0"], within=90)


async def test_the_next_incarnation_on_a_kept_allocation_is_ended_as_a_whole_where_one_is_not_bound(site: Site) -> None:
    async with site.running():
        job_set, old = await a_running_job_set(site)
        for name in old:
            site.kube.delete_pod(name, grace_s=1)
        for name in old:
            await site.gone(name)
        fault = KubeFault("POST", "/pods/train-w-1-1/binding", code=403, reason="Forbidden", times=None)
        site.kube.faults.add(fault)
        new = pods_of_job_set(site, job_set, 1)
        others = [new[0], new[2]]
        await site.until(lambda: bound(site, others) == 2, "the Bindings of the others")
        await ends(site, others, within=90)
