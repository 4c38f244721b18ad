"""A gang that keeps its allocation: the next incarnation of its owner takes over the job that runs."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG, GANG_RANK, GANG_SIZE
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import owner_reference
from tests.builders.gang_pods import KEEP, a_job_set, an_owner, pods_of_job_set
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def removed(site: Site, names: list[str]) -> None:
    for name in names:
        site.kube.delete_pod(name, grace_s=1)
    for name in names:
        await site.gone(name)


async def test_a_restarted_job_set_takes_over_the_job_with_its_nodes_and_ranks(site: Site) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        nodes = [await site.bound(name) for name in old]
        (before,) = site.live_jobs()
        await removed(site, old)
        await asyncio.sleep(20)
        assert [job.job_id for job in site.live_jobs()] == [before.job_id]
        new = pods_of_job_set(site, job_set, 1)
        assert [await site.bound(name) for name in new] == nodes
        assert [site.pod(name)["metadata"]["annotations"][GANG_RANK] for name in new] == ["0", "1", "2"]
        assert [job.job_id for job in site.jobs()] == [before.job_id]


async def test_no_pod_of_the_next_incarnation_is_bound_before_all_of_them_exist(site: Site) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        for name in old:
            await site.bound(name)
        await removed(site, old)
        job = an_owner(site, "Job", "train-w-1", {"parallelism": 3, "completions": 3}, job_set)
        marks = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
        marks |= {"jobset.sigs.k8s.io/restart-attempt": "1"}
        for number in range(3):
            await asyncio.sleep(3)
            placed = [one for one in range(number) if site.pod(f"new-{one}")["spec"].get("nodeName")]
            assert placed == []
            index = marks | {labels.JOB_INDEX: str(number)}
            owner = owner_reference(job)
            site.kube.add_pod(f"new-{number}", owner=owner, labels=index, annotations=KEEP, cpu="8")
        for number in range(3):
            await site.bound(f"new-{number}")
        assert len(site.jobs()) == 1


async def test_a_job_that_waits_behind_others_does_not_get_the_nodes_in_between(site: Site) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        for name in old:
            await site.bound(name)
        site.kube.add_pod("other", cpu="8")
        await removed(site, old)
        await asyncio.sleep(20)
        for name in pods_of_job_set(site, job_set, 1):
            await site.bound(name)
        assert not site.pod("other")["spec"].get("nodeName")


async def test_without_another_incarnation_the_job_ends_after_the_time_for_successors(site: Site) -> None:
    async with site.running():
        old = pods_of_job_set(site, a_job_set(site), 0)
        for name in old:
            await site.bound(name)
        await removed(site, old)
        await asyncio.sleep(50)
        assert len(site.live_jobs()) == 1
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)


async def test_a_gang_whose_members_all_succeed_ends_its_job_at_once(site: Site) -> None:
    async with site.running():
        for number in range(2):
            said = {GANG: "ring", GANG_SIZE: "2", RUN_FOR: "20", **KEEP}
            site.kube.add_pod(f"ring-{number}", annotations=said)
        for number in range(2):
            await site.bound(f"ring-{number}")
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=30)


async def test_slurm_may_end_the_kept_job_and_the_next_incarnation_gets_another(site: Site) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        for name in old:
            await site.bound(name)
        (before,) = site.live_jobs()
        await removed(site, old)
        await asyncio.sleep(5)
        site.slurm.controller.end(before.job_id, "CANCELLED")
        await asyncio.sleep(5)
        for name in pods_of_job_set(site, job_set, 1):
            await site.bound(name)
        assert before.job_id not in {job.job_id for job in site.live_jobs()}


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
async def test_an_allocation_that_is_kept_over_a_start_is_free_for_the_next_pods(site: Site, seen: bool) -> None:
    async with site.dying():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        for name in old:
            await site.bound(name)
        await asyncio.sleep(5)
        await removed(site, old)
        await asyncio.sleep(10)
        new = pods_of_job_set(site, job_set, 1) if seen else []
        await asyncio.sleep(0)
    new = new or pods_of_job_set(site, job_set, 1)
    async with site.running():
        await asyncio.sleep(20)
        for name in new:
            await site.bound(name, within=20)
        assert site.drained() == []
