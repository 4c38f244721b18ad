"""How a Pod is ended when its job ends: budgets, its own grace, and Slurm's deadlines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def run_a_pod(site: Site, **fields: Any) -> int:
    """Pod `web` runs on its job; its number."""
    site.kube.add_pod("web", **fields)
    await site.bound("web")
    await site.until(lambda: site.pod("web")["status"]["phase"] == "Running", "a running Pod")
    (job,) = site.jobs_of("web")
    return job.job_id


def limit(site: Site, setting: str) -> None:
    site.config = site.config.replace("limits: {", f"limits: {{{setting}, ")


def disruption(site: Site) -> Json:
    conditions = site.pod("web")["status"]["conditions"]
    found: Json = next(one for one in conditions if one["type"] == "DisruptionTarget")
    return found


async def test_a_budget_holds_a_cancelled_jobs_pod_until_the_deadline(site: Site) -> None:
    limit(site, "evictionDeadline: 40s")
    async with site.running():
        job = await run_a_pod(site, labels={"app": "x"}, grace_s=5)
        site.add_budget(allowed=0)
        site.slurm.controller.cancel(job)
        cancelled = asyncio.get_running_loop().time()
        await site.until(lambda: "EvictionBlockedByPDB" in site.events("web"), "an Event")
        assert site.drained()
        await site.until(lambda: "deletionTimestamp" in site.pod("web")["metadata"], "the deletion")
        assert 40 <= asyncio.get_running_loop().time() - cancelled <= 43
        assert disruption(site)["reason"] == "SlurmJobCancelled"
        await site.gone("web")
        await site.until(lambda: not site.drained(), "the end of the hold")


async def test_a_budget_that_gives_way_ends_the_pod_before_the_deadline(site: Site) -> None:
    limit(site, "evictionDeadline: 600s")
    async with site.running():
        job = await run_a_pod(site, labels={"app": "x"})
        site.add_budget(allowed=1)
        site.slurm.controller.cancel(job)
        await site.gone("web", within=20)


async def test_a_preempted_pod_has_no_more_than_kill_wait(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=300)
        site.slurm.controller.end(job, "PREEMPTED")
        await site.until(lambda: "GracePeriodShortened" in site.events("web"), "an Event")
        assert 27 <= site.pod("web")["metadata"]["deletionGracePeriodSeconds"] <= 30
        assert "from 300 s to" in disruption(site)["message"]
        await site.gone("web", within=35)


async def test_the_node_of_a_pod_that_ends_slowly_is_held_when_its_job_is_taken(site: Site) -> None:
    """Its grace is shortened, and a kubelet that stops its containers already does not hurry."""
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=300)
        node = site.node_of("web")
        site.kube.delete_pod("web")
        await asyncio.sleep(60)
        site.slurm.controller.end(job, "PREEMPTED")
        await site.until(lambda: site.pod("web")["metadata"]["deletionGracePeriodSeconds"] < 100, "its shorter grace")
        while site.kube.pod("web") is not None:
            assert node in site.drained()
            await asyncio.sleep(1)
        await site.until(lambda: not site.drained(), "the release of its node", within=30)


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_whose_node_no_job_waits_for_has_its_own_grace(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=300)
        site.slurm.controller.end(job, "NODE_FAIL")
        await asyncio.sleep(280)
        assert site.pod("web")["metadata"]["deletionGracePeriodSeconds"] == 300
        await site.gone("web", within=30)


async def test_no_grace_is_longer_than_the_site_allows(site: Site) -> None:
    limit(site, "maxGrace: 100s")
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=3600)
        site.slurm.controller.end(job, "NODE_FAIL")
        await site.gone("web", within=110)
        assert any("limits.maxGrace" in note for note in site.notes("web"))


async def test_a_pod_deleted_in_the_instant_of_its_binding_keeps_its_job_until_it_is_gone(site: Site) -> None:
    site.kubelets.stop_s = 20.0
    site.kube.faults.add(KubeFault("POST", "/binding", code=0, after=True))  # carried out, and never answered
    async with site.running():
        site.kube.add_pod("web", grace_s=20)
        await site.bound("web")
        (job,) = site.jobs_of("web")
        site.kube.delete_pod("web")
        while site.kube.pod("web") is not None:
            assert job.running
            assert not site.drained()
            await asyncio.sleep(0.5)
        await site.until(lambda: job.ended, "the end of its job", within=20)


async def test_a_user_who_cancels_the_job_of_a_granted_pod_refuses_it(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.until(lambda: bool(site.jobs_of("web")) and site.placeholder("web").cleared, "the grant")
        (job,) = site.jobs_of("web")
        site.network.refuse("extender", 8080)  # kube-scheduler cannot ask for it
        site.network.cut("extender", 8080)
        site.slurm.controller.cancel(job.job_id)
        await site.until(lambda: "SlurmJobCancelled" in site.events("web"), "an Event", within=30)
        site.network.refuse("extender", 8080, refused=False)
        await asyncio.sleep(60)
        assert not site.node_of("web")
        assert not site.live_jobs()


async def test_an_announced_preemption_shortens_a_grace_and_costs_one_victim(site: Site) -> None:
    site.kubelets.stop_s = 3600.0
    site.slurm.controller.partitions["batch"].grace_time_s = 40
    async with site.running():
        await site.fill()
        for number in range(3):
            site.edit_pod(f"first-{number}", lambda pod: pod["spec"].update(terminationGracePeriodSeconds=300))
        await asyncio.sleep(5)
        victims = {job.job_id: job for job in site.live_jobs()}
        script = {"script": "#!/bin/sh\nsleep 1000\n", "environment": ["A=b"], "current_working_directory": "/"}
        urgent = {"name": "urgent", "partition": "urgent", "tasks": 1, "cpus_per_task": 8} | script
        preemptor = int((await site.slurm_request("POST", "job/submit", {"job": urgent}))["job_id"])
        ending = [f"first-{number}" for number in range(3)]
        await site.until(
            lambda: any("GracePeriodShortened" in site.events(name) for name in ending), "an Event", within=60
        )
        (victim,) = [name for name in ending if "deletionTimestamp" in site.pod(name)["metadata"]]
        assert 20 <= site.pod(victim)["metadata"]["deletionGracePeriodSeconds"] <= 40
        await site.until(lambda: site.slurm.controller.jobs[preemptor].running, "the preemptor runs", within=60)
        assert site.kube.pod(victim) is None
        await asyncio.sleep(30)
        assert sum(not job.ended for job in victims.values()) == 2


@pytest.mark.usefixtures("unhurried")
async def test_a_node_that_is_not_ready_ends_neither_its_pod_nor_the_job(site: Site) -> None:
    async with site.running():
        job = await run_a_pod(site)
        site.kubelets.take_down(site.node_of("web"))
        site.report_ready(site.node_of("web"), ready=False)
        await asyncio.sleep(900)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert [one.job_id for one in site.jobs_of("web")] == [job]


async def test_a_pod_that_a_budget_holds_and_a_user_deletes_is_gone_before_the_deadline(site: Site) -> None:
    limit(site, "evictionDeadline: 600s")
    async with site.running():
        job = await run_a_pod(site, labels={"app": "x"}, grace_s=5)
        site.add_budget(allowed=0)
        site.slurm.controller.cancel(job)
        await site.until(lambda: "EvictionBlockedByPDB" in site.events("web"), "an Event")
        site.kube.delete_pod("web")
        await site.gone("web", within=10)
        await site.until(lambda: not site.drained() and not site.live_jobs(), "the end of the hold", within=20)
        assert asyncio.get_running_loop().time() < 300
