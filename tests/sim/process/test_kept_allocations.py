"""A gang that keeps its allocation: the next incarnation of its owner takes over the job that runs."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import GANG, GANG_RANK, GANG_SIZE
from simulator.kube.kubelet import RUN_FOR
from tests.builders.gang_pods import KEEP, a_job_of, a_job_set, a_running_job_set, bound, pods_of_job, pods_of_job_set
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def removed(site: Site, names: list[str]) -> None:
    for name in names:
        site.kube.delete_pod(name, grace_s=1)
    for name in names:
        await site.gone(name)


async def test_a_restarted_job_set_adopts_the_job_with_its_nodes_and_ranks(site: Site) -> None:
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
        job_set, old = await a_running_job_set(site)
        await removed(site, old)
        job, new = a_job_of(site, job_set, 1), list[str]()
        for number in range(3):
            await asyncio.sleep(3)
            assert bound(site, new) == 0
            new += pods_of_job(site, job, 1, range(number, number + 1))
        for name in new:
            await site.bound(name)
        assert len(site.jobs()) == 1


async def test_the_next_incarnation_gets_another_job_as_a_whole_where_one_of_its_pods_needs_more(site: Site) -> None:
    async with site.running():
        job_set, old = await a_running_job_set(site)
        (before,) = site.live_jobs()
        await removed(site, old)
        job = a_job_of(site, job_set, 1)
        new = pods_of_job(site, job, 1, range(2)) + pods_of_job(site, job, 1, range(2, 3), memory="4Gi")
        await asyncio.sleep(20)
        assert bound(site, new) == 0
        for name in new:
            await site.bound(name, within=120)
        assert before.job_id not in {one.job_id for one in site.live_jobs()}


async def test_the_pods_of_the_next_incarnation_have_the_whole_time_for_bindings_to_come(site: Site) -> None:
    async with site.running():
        job_set, old = await a_running_job_set(site)
        await asyncio.sleep(15)
        await removed(site, old)
        job = a_job_of(site, job_set, 1)
        new = pods_of_job(site, job, 1, range(1))
        await asyncio.sleep(20)
        assert bound(site, new) == 0
        new += pods_of_job(site, job, 1, range(1, 3))
        for name in new:
            await site.bound(name)
        assert len(site.jobs()) == 1


async def test_a_job_that_waits_behind_others_does_not_get_the_nodes_in_between(site: Site) -> None:
    async with site.running():
        job_set, old = await a_running_job_set(site)
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
        job_set, old = await a_running_job_set(site)
        (before,) = site.live_jobs()
        await removed(site, old)
        await asyncio.sleep(5)
        site.slurm.controller.end(before.job_id, "CANCELLED")
        await asyncio.sleep(5)
        for name in pods_of_job_set(site, job_set, 1):
            await site.bound(name)
        assert before.job_id not in {job.job_id for job in site.live_jobs()}


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
async def test_an_allocation_that_is_kept_across_a_start_is_free_for_the_next_pods(site: Site, seen: bool) -> None:
    async with site.dying():
        job_set, old = await a_running_job_set(site)
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


async def test_a_gang_whose_job_released_a_node_gets_another_job_for_all_pods_of_the_next_incarnation(
    site: Site,
) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        site.edit_pod(old[1], lambda pod: pod["metadata"]["annotations"].update({RUN_FOR: "5"}))
        for name in old:
            await site.bound(name)
        (before,) = site.live_jobs()
        await site.until(lambda: len(before.nodes) == 2, "the return of a node")
        await removed(site, [old[0], old[2]])
        new = pods_of_job_set(site, job_set, 1)
        for name in new:
            await site.bound(name)
        assert before.job_id not in {job.job_id for job in site.live_jobs()}


async def test_the_node_of_a_last_member_that_succeeded_is_kept_with_the_others(site: Site) -> None:
    async with site.running():
        job_set = a_job_set(site)
        old = pods_of_job_set(site, job_set, 0)
        site.edit_pod(old[1], lambda pod: pod["metadata"]["annotations"].update({RUN_FOR: "20"}))
        for name in old:
            await site.bound(name)
        (before,) = site.live_jobs()
        await removed(site, [old[0], old[2]])
        await site.until(lambda: site.pod(old[1])["status"]["phase"] == "Succeeded", "the end of the last one")
        await asyncio.sleep(10)
        for name in pods_of_job_set(site, job_set, 1):
            await site.bound(name)
        assert [job.job_id for job in site.jobs()] == [before.job_id]


async def test_a_larger_next_incarnation_gets_another_job_and_is_not_bound_in_part(site: Site) -> None:
    async with site.running():
        for size in (2, 3):
            names = [f"ring-{size}-{number}" for number in range(size)]
            for name in names:
                site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: str(size), **KEEP})
            for _ in range(600):
                await asyncio.sleep(0.2)
                if (placed := bound(site, names)) == size:
                    break
            assert placed == size
            if size == 2:
                await removed(site, names)
