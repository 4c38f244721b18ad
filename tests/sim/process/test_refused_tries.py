"""What a refused immediate allocation leaves behind: one FAILED record each, of which there must never be many."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.rules import REFUSED_FOR
from extender.domain.wellknown import GATE
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime

AT_ONCE = 8
"""`limits.requests`: so many may be on their way before the first is refused."""


def refused(site: Site) -> int:
    return sum(job.state == "FAILED" for job in site.slurm.controller.known_jobs())


async def full_of_others(site: Site) -> None:
    """Jobs of other users hold every node."""
    for number in range(len(NAMES)):
        await site.submit_as_another_user(number, {"cpus_per_task": 8, "partition": "batch"})
    jobs = site.slurm.controller.known_jobs
    await site.until(lambda: all(job.state == "RUNNING" for job in jobs()), "they run")


async def test_a_crowd_that_finds_no_room_leaves_a_record_for_each_request_under_way_and_no_more(site: Site) -> None:
    async with site.running():
        await full_of_others(site)
        for number in range(60):
            site.kube.add_pod(f"web-{number}")
        await site.until(lambda: len(site.live_jobs()) == 60 + len(NAMES), "a job of each")
        assert 1 <= refused(site) <= AT_ONCE


async def test_pods_that_come_one_after_another_to_a_full_partition_are_tried_at_once_now_and_then(site: Site) -> None:
    async with site.running():
        await full_of_others(site)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(40):
            site.kube.add_pod(f"web-{number}", grace_s=1)
            await site.until(lambda: len(site.live_jobs()) > len(NAMES), "its job")
            site.kube.delete_pod(f"web-{number}")
            await site.until(lambda: len(site.live_jobs()) == len(NAMES), "nobody of ours waits")
            await asyncio.sleep(1)
        seconds = loop.time() - began
        assert seconds > 3 * REFUSED_FOR  # else this would show nothing
        assert 1 <= refused(site) <= seconds / REFUSED_FOR + 1


@pytest.mark.usefixtures("unhurried")
async def test_a_partition_that_refused_is_tried_again_after_a_while(site: Site) -> None:
    async with site.running():
        await full_of_others(site)
        site.kube.add_pod("web-0", grace_s=1)
        await site.until(lambda: bool(site.jobs_of("web-0")), "its job")
        for job in site.live_jobs():
            site.slurm.controller.end(job.job_id, "COMPLETED")
        await asyncio.sleep(REFUSED_FOR + 1)
        requests = site.slurm.restd.requests
        requests.clear()
        site.kube.add_pod("web-1")
        await site.bound("web-1")
        assert ("POST", "/job/allocate") in requests
        assert ("POST", "/job/submit") not in requests


async def test_a_burst_is_allocated_at_once_as_long_as_there_is_room(site: Site) -> None:
    async with site.running():
        site.slurm.restd.faults.add(SlurmFault.DELAY, seconds=0.02)
        for number in range(24):
            site.kube.add_pod(f"web-{number}", cpu="1", gates=(GATE,))
        await site.until(lambda: len(site.bound_pods()) == 24, "all are bound")
        requests = [path for method, path in site.slurm.restd.requests if method == "POST"]
        assert requests == ["/job/allocate"] * 24
