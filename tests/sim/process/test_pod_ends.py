"""How a Pod is ended when its job ends: budgets, its own grace, and Slurm's deadlines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.sim.kube.objects import Json
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


def a_budget(site: Site, allowed: int) -> None:
    site.kube.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": allowed},
        }
    )


async def test_a_budget_holds_a_cancelled_jobs_pod_until_the_deadline(site: Site) -> None:
    limit(site, "evictionDeadline: 40s")
    async with site.running():
        job = await run_a_pod(site, labels={"app": "x"}, grace_s=5)
        a_budget(site, allowed=0)
        site.slurm.controller.cancel(job)
        cancelled = asyncio.get_running_loop().time()
        await site.until(lambda: "HeldByDisruptionBudget" in site.events("web"), "an Event")
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
        a_budget(site, allowed=1)
        site.slurm.controller.cancel(job)
        await site.gone("web", within=20)


async def test_a_preempted_pod_has_no_more_than_kill_wait(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=300)
        site.slurm.controller.end(job, "PREEMPTED")
        await site.until(lambda: "GraceShortened" in site.events("web"), "an Event")
        assert 27 <= site.pod("web")["metadata"]["deletionGracePeriodSeconds"] <= 30
        assert "from 300 s to" in disruption(site)["message"]
        await site.gone("web", within=35)


async def test_a_pod_that_somebody_ends_slowly_is_hurried_when_its_job_is_taken(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 3600.0
        job = await run_a_pod(site, grace_s=300)
        site.kube.delete_pod("web")
        await asyncio.sleep(60)
        site.slurm.controller.end(job, "PREEMPTED")
        await site.gone("web", within=35)


async def test_a_pod_whose_node_nobody_waits_for_has_its_own_grace(site: Site) -> None:
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
