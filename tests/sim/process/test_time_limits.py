"""Time limits: a Pod is gone before Slurm ends its job, whoever set the limit and whoever changes it."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.objects import a_pod, owner_reference, parse_timestamp
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimJob
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
TIME_LIMIT = "slurm-extender.io/time-limit"
MODE = "slurm-extender.io/mode"
MODES = ["batch", "allocation"]


async def with_pod(site: Site, minutes: int, mode: str = "allocation", grace_s: int = 20) -> SimJob:
    site.kube.add_pod("work", annotations={TIME_LIMIT: str(minutes), MODE: mode}, grace_s=grace_s)
    await site.bound("work")
    (job,) = site.live_jobs()
    return job


async def set_limit(site: Site, job: SimJob, minutes: int) -> None:
    body = {"time_limit": {"set": True, "number": minutes}}
    await site.slurm_request("POST", f"job/{job.job_id}", body)


def ending(site: Site) -> bool:
    return bool(site.pod("work")["metadata"].get("deletionTimestamp"))


@pytest.mark.parametrize("mode", MODES)
async def test_a_pod_is_gone_before_the_time_limit_of_its_job(site: Site, mode: str) -> None:
    async with site.running():
        job = await with_pod(site, 2, mode)
        await site.until(lambda: ending(site), "the Pod's grace", 400)
        left = job.end_time - site.kube.wall()
        assert 20 <= left <= 30, site.histories()
        assert any("time limit of Slurm job" in note for note in site.notes("work"))
        await site.gone("work")
        await site.until(lambda: not site.live_jobs(), "the job's end")
        assert job.state == "CANCELLED"
        assert "Pod default/work deleted: exit 143 (time limit)" in job.comment
        await site.until(lambda: not site.drained(), "no drain left")


@pytest.mark.usefixtures("unhurried")
async def test_a_time_limit_that_is_raised_lets_the_pod_live_on(site: Site) -> None:
    async with site.running():
        job = await with_pod(site, 2)
        await asyncio.sleep(60)
        await set_limit(site, job, 4)
        await asyncio.sleep(130)
        assert not ending(site)
        await site.gone("work", 100)
        assert site.kube.wall() < job.start_time + 240, site.histories()


@pytest.mark.usefixtures("unhurried")
async def test_no_pod_is_ended_on_an_old_reading_of_a_time_limit(site: Site) -> None:
    async with site.running():
        job = await with_pod(site, 2)
        await asyncio.sleep(70)
        site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "/job/")
        await set_limit(site, job, 60)
        await asyncio.sleep(40)
        assert not ending(site)
        site.slurm.restd.faults.clear()
        await asyncio.sleep(60)
        assert not ending(site)


async def test_a_time_limit_that_is_cut_ends_the_pod_in_time(site: Site) -> None:
    async with site.running():
        job = await with_pod(site, 60)
        await asyncio.sleep(10)
        await set_limit(site, job, 2)
        await site.gone("work", 200)
        assert site.kube.wall() < job.start_time + 120
        assert job.state != "TIMEOUT"


async def test_a_time_limit_is_known_again_after_a_restart(site: Site) -> None:
    async with site.running():
        job = await with_pod(site, 2)
    async with site.running():
        await site.gone("work", 400)
        assert site.kube.wall() < job.start_time + 120
        assert job.state != "TIMEOUT"


async def test_the_deadline_of_a_job_is_the_time_limit_of_the_jobs_of_its_pods(site: Site) -> None:
    async with site.running():
        spec = {"parallelism": 1, "completions": 1, "activeDeadlineSeconds": 90}
        meta = {"name": "work", "namespace": "default"}
        owner = site.kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        site.kube.add_pod("work", owner=owner_reference(owner))
        await site.bound("work")
        [job] = site.live_jobs()
        assert job.time_limit_s == 120


@pytest.mark.usefixtures("unhurried")
async def test_the_deadline_of_a_pod_is_left_to_kubernetes(site: Site) -> None:
    async with site.running():
        pod = a_pod("work", grace_s=20)
        pod["spec"]["activeDeadlineSeconds"] = 60
        site.kube.create(pod)
        await site.bound("work")
        (job,) = site.live_jobs()
        assert job.time_limit_s == 180
        await asyncio.sleep(100)
        assert not ending(site)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("off", [3600.0, -3600.0])
async def test_a_time_limit_is_counted_by_slurms_clock_however_wrong_the_extenders_is(site: Site, off: float) -> None:
    site.clock_error_s = off
    async with site.running():
        job = await with_pod(site, 2)
        await asyncio.sleep(60)
        assert not ending(site)
        site.clock_error_s = -off
        await site.until(lambda: ending(site), "the Pod's grace", 60)
        assert 20 <= job.end_time - site.kube.wall() <= 30, site.histories()


@pytest.mark.parametrize("off", [3600.0, -3600.0])
async def test_the_grace_of_a_preempted_pod_is_cut_by_slurms_clock_however_wrong_the_extenders_is(
    site: Site, off: float
) -> None:
    site.clock_error_s = off
    site.slurm.controller.partitions["batch"].grace_time_s = 30
    async with site.running():
        job = await with_pod(site, 60, grace_s=60)
        for _ in range(3):
            script = {"script": "#!/bin/sh\n", "environment": ["A=b"], "current_working_directory": "/"}
            urgent = {"name": "urgent", "partition": "urgent", "tasks": 1, "cpus_per_task": 8} | script
            await site.slurm_request("POST", "job/submit", {"job": urgent})
        await site.until(lambda: ending(site), "the Pod's grace")
        assert job.preempt_time
        assert 20 <= site.pod("work")["metadata"]["deletionGracePeriodSeconds"] <= 30


def ends_at(site: Site) -> float:
    """The end of the Pod's grace; a kubelet ends containers that are ending already no sooner."""
    return parse_timestamp(site.pod("work")["metadata"]["deletionTimestamp"])


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("off", [300.0, -300.0])
async def test_the_grace_of_a_pod_that_is_ending_is_cut_by_the_api_servers_clock_however_wrong_the_extenders_is(
    site: Site, off: float
) -> None:
    site.clock_error_s = off
    site.kubelets.stop_s = 3600.0
    async with site.running():
        limit = (await with_pod(site, 3, grace_s=20)).end_time
        await asyncio.sleep(90)
        site.kube.delete_pod("work", grace_s=400)
        await site.until(lambda: abs(ends_at(site) - limit) <= 3, "the grace that is cut", 100)


@pytest.mark.parametrize("off", [300.0, -300.0])
async def test_a_passed_deadline_is_judged_by_the_api_servers_clock(site: Site, off: float) -> None:
    site.clock_error_s = off
    async with site.running():
        for name, deadline in (("late", -120), ("soon", 120)):
            at = str(int(site.kube.wall() + deadline))
            site.kube.add_pod(name, annotations={"slurm-extender.io/deadline": at})
        await site.bound("soon")
        assert not site.node_of("late")
        assert any("has passed" in note for note in site.notes("late"))
