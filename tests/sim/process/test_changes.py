"""A Pod that changes its mind while it waits: the job follows, or a clear word says why not."""

from __future__ import annotations

import pytest

from extender.sim.slurm.faults import Fault
from extender.sim.slurm.records import SimJob
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
OURS = "slurm-extender.io/"


async def a_waiting_pod(site: Site) -> SimJob:
    await site.fill()
    site.kube.add_pod("second", cpu="8")
    await site.until(lambda: len(site.live_jobs()) == 4, "the second's job")
    (job,) = [job for job in site.live_jobs() if job.state == "PENDING"]
    return job


def annotate(site: Site, **settings: str) -> None:
    given = {f"{OURS}{name.replace('_', '-')}": value for name, value in settings.items()}
    site.edit_pod("second", lambda pod: pod["metadata"].setdefault("annotations", {}).update(given))


async def test_a_waiting_job_follows_its_pod_in_place(site: Site) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        annotate(site, partition="urgent", timeout="7", qos="high", comment="mine")
        await site.until(lambda: "SlurmJobChanged" in site.events("second"), "an Event")
        assert (job.partition, job.time_limit_s, job.qos, job.comment) == ("urgent", 420.0, "high", "mine")
        assert len(site.live_jobs()) <= 4
        assert job in site.jobs_of("second")


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.FAIL_AFTER, Fault.UNAVAILABLE])
async def test_a_change_whose_answer_is_lost_is_made_all_the_same(site: Site, fault: Fault) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        site.slurm.restd.faults.add(fault, "POST", f"/job/{job.job_id}", times=1)
        annotate(site, timeout="7")
        await site.until(lambda: "SlurmJobChanged" in site.events("second"), "an Event")
        assert job.time_limit_s == 420.0
        assert [job] == site.jobs_of("second")


async def test_what_slurm_refuses_leaves_the_job_as_it_is_and_is_said(site: Site) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        annotate(site, constraints="nothing")
        await site.until(lambda: "SlurmJobNotChanged" in site.events("second"), "an Event")
        assert any("Invalid feature" in note for note in site.notes("second"))
        assert [job] == site.jobs_of("second")
        annotate(site, constraints="")
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("second")
