"""A Pod is not placed by way of a partition that is not for everybody, also where Slurm says so late."""

from __future__ import annotations

import asyncio

import pytest

from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
PARTITION = "slurm-extender.io/partition"


@pytest.fixture
def closed(site: Site) -> Site:
    """The lists of the configuration are empty, as by default."""
    site.lists_everything = False
    return site


async def test_a_pod_that_names_a_partition_of_a_higher_tier_is_refused_and_nothing_is_requested(closed: Site) -> None:
    async with closed.running():
        closed.kube.add_pod("web", annotations={PARTITION: "urgent"})
        await closed.until(lambda: "InvalidSlurmSettings" in closed.events("web"), "the refusal")
        assert any("PriorityTier=10 above 1" in text for text in closed.notes("web"))
        closed.kube.add_pod("other", annotations={PARTITION: "batch"})
        await closed.bound("other")
        assert len(closed.live_jobs()) == 1


async def test_before_slurm_was_read_such_a_pod_is_neither_refused_nor_requested(closed: Site) -> None:
    closed.slurm.restd.slurmctld_up = False
    async with closed.running():
        closed.kube.add_pod("web", annotations={PARTITION: "urgent"})
        closed.kube.add_pod("other", annotations={PARTITION: "batch"})
        await asyncio.sleep(20)
        assert "InvalidSlurmSettings" not in closed.events("web")
        closed.slurm.restd.slurmctld_up = True
        await closed.until(lambda: "InvalidSlurmSettings" in closed.events("web"), "the refusal")
        await closed.bound("other")
        assert len(closed.live_jobs()) == 1


async def test_a_partition_that_is_opened_lets_the_waiting_pod_in(closed: Site) -> None:
    async with closed.running():
        closed.kube.add_pod("web", annotations={PARTITION: "urgent"})
        await closed.until(lambda: "InvalidSlurmSettings" in closed.events("web"), "the refusal")
        closed.slurm.controller.partitions["urgent"].priority_tier = 1
        await closed.bound("web")


async def test_a_pod_that_runs_keeps_its_job_when_its_partition_is_closed(closed: Site) -> None:
    closed.slurm.controller.partitions["urgent"].priority_tier = 1
    async with closed.running():
        closed.kube.add_pod("web", annotations={PARTITION: "urgent"})
        await closed.bound("web")
        closed.slurm.controller.partitions["urgent"].priority_tier = 10
        await asyncio.sleep(30)
        assert "deletionTimestamp" not in closed.pod("web")["metadata"]
        assert len(closed.live_jobs()) == 1


async def test_a_slurm_that_cannot_list_its_partitions_for_a_while_ends_nothing(closed: Site) -> None:
    async with closed.running():
        await closed.fill()
        closed.kube.add_pod("web", annotations={PARTITION: "batch"}, cpu="8")
        await closed.until(lambda: bool(closed.jobs_of("web")), "its job")
        [job] = closed.jobs_of("web")
        closed.slurm.restd.faults.add(SlurmFault.REFUSE, "GET", "/partitions", times=100, number=-1)
        await asyncio.sleep(60)
        assert closed.jobs_of("web") == [job]
