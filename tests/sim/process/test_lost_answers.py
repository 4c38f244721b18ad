"""Requests and answers that are lost on the way: each workload has one job in the end, and none after its Pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from simulator.kube import faults as kube_faults
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"

SLURM_REQUESTS = [("POST", "/job/submit"), ("POST", "/job/allocate"), ("GET", "/job/"), ("DELETE", "/job")]
SLURM_FAULTS = [SlurmFault.LOSE_REQUEST, SlurmFault.LOSE_ANSWER, SlurmFault.FAIL_AFTER, SlurmFault.UNAVAILABLE]
KUBE_REQUESTS = [("POST", "/binding$"), ("PATCH", "/pods/"), ("DELETE", "/pods/"), ("POST", "/eviction$")]
KUBE_FAULTS = {
    "lost before the operation": kube_faults.KubeFault(code=0),
    "lost after the operation": kube_faults.KubeFault(code=0, after=True),
    "500 before the operation": kube_faults.KubeFault(code=500),
    "500 after the operation": kube_faults.KubeFault(code=500, after=True),
    "503": kube_faults.KubeFault(code=503, reason="ServiceUnavailable"),
    "429": kube_faults.KubeFault(code=429, reason="TooManyRequests", retry_after_s=1),
}


@asynccontextmanager
async def one_job_at_a_time(site: Site, name: str) -> AsyncIterator[None]:
    """Watch that the Pod never has a second running job."""
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, sum(job.state == "RUNNING" for job in site.jobs_of(name)))
            await asyncio.sleep(0.1)

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
    assert most <= 1


async def live_and_die(site: Site) -> None:
    """Two Pods come, are bound and deleted; two others are ended by their jobs."""
    names = ("soon", "web", "ended", "late")
    for name, mode in zip(names, ("allocation", "batch", "batch", "batch"), strict=True):
        site.kube.add_pod(name, annotations={MODE: mode}, grace_s=3)
        await asyncio.sleep(0.5)  # nothing is allocated at once behind a job of ours that waits
    for name in names:
        node = await site.bound(name)
        await site.until(lambda name=name: len(site.jobs_of(name)) == 1, f"one job of {name}")  # type: ignore[misc]
        assert site.jobs_of(name)[0].nodes == (node,)
    for name in ("web", "soon"):
        site.kube.delete_pod(name)
    site.slurm.controller.cancel(site.jobs_of("ended")[0].job_id)
    site.slurm.controller.end(site.jobs_of("late")[0].job_id, "TIMEOUT")
    for name in names:
        await site.gone(name)
    await site.until(lambda: not site.live_jobs(), "every job's end")
    await site.until(lambda: not site.drained(), "no drain left")


async def test_a_late_answer_does_not_prove_that_there_is_no_job_by_now(site: Site) -> None:
    """The submission is held up for longer than anybody waits for it, and arrives while its job is looked for."""
    async with site.running():
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/job/submit", times=1, seconds=85)
        slow = site.slurm.restd.faults.add(SlurmFault.DELAY, "DELETE", "/jobs", seconds=20)
        site.kube.add_pod("web", annotations={MODE: "batch"})
        await site.until(lambda: slow.times <= 1_000_000 - 3, "three looks", within=100)
        await site.bound("web")
        await asyncio.sleep(90)
        assert [job.job_id for job in site.slurm.controller.known_jobs()] == [1]


@pytest.mark.parametrize("fault", SLURM_FAULTS)
@pytest.mark.parametrize(("method", "path"), SLURM_REQUESTS)
async def test_requests_to_slurm_may_be_lost(site: Site, method: str, path: str, fault: SlurmFault) -> None:
    async with site.running(), one_job_at_a_time(site, "web"), one_job_at_a_time(site, "soon"):
        rule = site.slurm.restd.faults.add(fault, method, path, times=2)
        await live_and_die(site)
        assert rule.times < 2, "no such request was sent"


@pytest.mark.parametrize("name", KUBE_FAULTS)
@pytest.mark.parametrize(("method", "path"), KUBE_REQUESTS)
async def test_requests_to_the_api_server_may_be_lost(site: Site, method: str, path: str, name: str) -> None:
    fault = KUBE_FAULTS[name]
    async with site.running(), one_job_at_a_time(site, "web"):
        site.kube.faults.add(
            kube_faults.KubeFault(
                method, path, None, fault.code, fault.reason, "injected", fault.retry_after_s, fault.after
            )
        )
        await live_and_die(site)
        assert not site.kube.faults.rules, "no such request was sent"


async def test_new_exclusions_that_were_lost_are_sent_again(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8", annotations={MODE: "batch"})
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        (job,) = site.jobs_of("waits")
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "POST", f"/job/{job.job_id}", times=1)
        site.cordon("n1")
        await site.until(lambda: job.excluded == ("n1",), "its new exclusions")


async def test_a_job_id_that_another_job_got_is_not_the_workloads_any_more(site: Site) -> None:
    """slurmctld was killed and forgot its last instant: another user's job has our job's number."""
    async with site.running():
        site.kube.add_pod("web", annotations={MODE: "batch"}, grace_s=2)
        await site.bound("web")
        (job,) = site.jobs_of("web")
        site.slurm.controller.forget(job.job_id)
        other = await site.submit_as_another_user()
        assert other == job.job_id
        await site.gone("web")
        await asyncio.sleep(30)
        assert [one.name for one in site.live_jobs()] == ["somebody-elses-0"]
