"""Answers that arrive after newer ones, and information that is missing for a while: neither ends anything."""

from __future__ import annotations

import asyncio

import pytest

from extender.sim.slurm.faults import Fault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("late_s", [0.5, 2, 6])
async def test_a_job_read_before_its_start_and_told_after_its_binding_ends_nothing(site: Site, late_s: float) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        (job,) = site.jobs_of("waits")
        await asyncio.sleep(3)
        late = site.slurm.restd.faults.add(Fault.DELAY, "GET", f"/job/{job.job_id}", seconds=late_s, times=1)
        await site.until(lambda: not late.times, "a read of the job that is answered late")
        site.kube.delete_pod("first-1", grace_s=0)
        await site.bound("waits")
        await asyncio.sleep(10)
        assert "deletionTimestamp" not in site.pod("waits")["metadata"]
        assert site.jobs_of("waits") == [job]
        assert site.placeholder("waits").state == "BOUND"
