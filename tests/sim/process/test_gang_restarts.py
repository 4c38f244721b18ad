"""A bound member stays a member of its gang after a restart, whatever anyone wrote on it meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GANG, GANG_KEY, GATE
from simulator.kube.faults import KubeFault
from tests.builders.gang_pods import a_leader, bound, gang, workers_of
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def test_a_bound_gang_keeps_its_job_after_a_restart_although_its_annotation_names_another_gang(
    site: Site,
) -> None:
    async with site.dying():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
    jobs = [job.job_id for job in site.live_jobs()]
    for name in names:
        site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].update({GANG: "other"}))
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert bound(site, names) == 2


async def test_a_pod_that_copies_the_key_of_a_gang_does_not_join_it(site: Site) -> None:
    async with site.dying():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
        key = site.pod(names[0])["metadata"]["annotations"][GANG_KEY]
        site.kube.add_pod("thief", annotations={GANG_KEY: key})
        await site.bound("thief")
    async with site.running():
        await asyncio.sleep(60)
        assert site.placeholder("thief").key == site.uid("thief")
        assert not site.pod("thief")["metadata"]["annotations"][GANG_KEY]
        assert len(site.live_jobs()) == 2


PARTITION = "slurm-extender.io/partition"


async def test_workers_of_another_partition_than_their_bound_leader_wait_after_a_restart_and_the_leader_stays(
    site: Site,
) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site, partition="batch"))
        workers = workers_of(site, leader, partition="debug")
        await asyncio.sleep(10)
        jobs = [job.job_id for job in site.live_jobs()]
    async with site.running():
        await asyncio.sleep(90)
        assert ([job.job_id for job in site.live_jobs()], bound(site, workers)) == (jobs, 0)
        assert site.placeholder(leader).state is State.BOUND
        assert any("partition" in text and "debug" in text for text in site.notes(workers[0]))


async def test_workers_that_come_while_the_extender_is_down_get_the_slots_of_their_gang(site: Site) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site))
        jobs = [job.job_id for job in site.live_jobs()]
    workers = workers_of(site, leader)
    async with site.running():
        assert [await site.bound(name) for name in workers] == ["n2", "n3"]
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_a_gang_that_is_bound_in_part_is_completed_also_where_its_pods_name_a_partition(site: Site) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site, partition="batch"))
        workers = workers_of(site, leader, partition="batch")
    async with site.running(changed="jobs: {partitions: []}\n"):
        assert [await site.bound(name) for name in workers] == ["n2", "n3"]


async def test_a_worker_whose_other_gate_goes_after_a_restart_gets_the_slot_that_was_left(site: Site) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site))
        first, second = workers_of(site, leader, gates=(GATE, "example.org/quota"))
        await site.bound(first)
    async with site.running():
        await asyncio.sleep(30)
        assert bound(site, [second]) == 0
        site.edit_pod(second, lambda pod: pod["spec"].update(schedulingGates=[{"name": GATE}]))
        assert await site.bound(second) == "n3"
        assert len(site.live_jobs()) == 1


async def test_a_gang_whose_pods_disagree_after_a_restart_gives_its_unused_nodes_back(site: Site) -> None:
    async with site.dying():
        site.kube.faults.add(KubeFault("POST", "/binding", code=503, reason="ServiceUnavailable", times=None))
        names = gang(site, range(3), 3, gates=(GATE,))
        await site.until(lambda: any(job.running for job in site.live_jobs()), "the grant")
    site.kube.faults.clear()
    site.edit_pod(names[1], lambda pod: pod["metadata"]["annotations"].update({PARTITION: "debug"}))
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "the end of the job", 120)
        await site.until(lambda: any("must agree" in text for text in site.notes(names[0])), "the cause")
        assert bound(site, names) == 0
        site.edit_pod(names[1], lambda pod: pod["metadata"]["annotations"].pop(PARTITION))
        for name in names:
            await site.bound(name)
