"""Disruption budgets hold members of a gang whose job a user cancelled, until the deadline that single Pods have."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.resources import BUDGETS
from simulator.kube.storage import ObjectKey
from tests.builders.gang_pods import bound, gang
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

SIZE = 3
LABELS = {"app": "x"}
BUDGET = ObjectKey(BUDGETS, "default", "b")


async def running_gang(site: Site) -> list[str]:
    names = gang(site, range(SIZE), SIZE, labels=LABELS, grace_s=5)
    for name in names:
        await site.bound(name)
    await site.until(lambda: all(site.pod(name)["status"]["phase"] == "Running" for name in names), "running Pods")
    return names


def ending(site: Site, names: list[str]) -> list[str]:
    """Those that are gone, or whose end was requested."""
    pods = {name: site.kube.pod(name) for name in names}
    return [name for name, pod in pods.items() if pod is None or "deletionTimestamp" in pod["metadata"]]


async def test_edge_case_19_members_that_a_budget_blocks_are_deleted_at_the_deadline_and_keep_their_nodes(
    site: Site,
) -> None:
    site.config = site.config.replace("limits: {", "limits: {evictionDeadline: 40s, ")
    async with site.running():
        names = await running_gang(site)
        (job,) = site.live_jobs()
        site.add_budget(allowed=1)
        site.slurm.controller.cancel(job.job_id)
        cancelled = asyncio.get_running_loop().time()
        await site.until(lambda: len(ending(site, names)) == 1, "the end of the member that the budget allows")
        assert asyncio.get_running_loop().time() - cancelled <= 1
        (allowed,) = ending(site, names)
        blocked = [name for name in names if name != allowed]
        await site.until(lambda: all("EvictionBlockedByPDB" in site.events(name) for name in blocked), "Events")
        await site.gone(allowed)
        nodes = sorted(site.node_of(name) for name in blocked)
        await site.until(lambda: site.drained() == nodes, "the drains of the other nodes alone")
        while asyncio.get_running_loop().time() - cancelled < 38:
            await asyncio.sleep(1)
            assert (ending(site, blocked), site.drained()) == ([], nodes)
        await site.until(lambda: ending(site, blocked) == blocked, "the deletion of the others")
        assert 40 <= asyncio.get_running_loop().time() - cancelled <= 43
        for name in blocked:
            conditions = site.pod(name)["status"]["conditions"]
            assert [one["reason"] for one in conditions if one["type"] == "DisruptionTarget"] == ["SlurmJobCancelled"]
        for name in blocked:
            await site.gone(name)
        await site.until(lambda: not site.drained() and not site.live_jobs(), "the end of the holds")


async def test_edge_case_19_members_that_a_budget_blocks_are_evicted_once_it_allows_it(site: Site) -> None:
    site.config = site.config.replace("limits: {", "limits: {evictionDeadline: 600s, ")
    async with site.running():
        names = await running_gang(site)
        site.add_budget(allowed=0)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await asyncio.sleep(30)
        assert bound(site, names) == SIZE
        assert ending(site, names) == []
        site.kube.change(BUDGET, lambda budget: budget.update(status={"disruptionsAllowed": SIZE}))
        for name in names:
            await site.gone(name, within=30)
        await site.until(lambda: not site.drained() and not site.live_jobs(), "the end of the holds")


async def test_edge_case_18_a_budget_does_not_hold_the_members_of_a_gang_that_slurm_preempts(site: Site) -> None:
    async with site.running():
        names = await running_gang(site)
        site.add_budget(allowed=0)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "PREEMPTED")
        await site.until(lambda: ending(site, names) == names, "the end of all", within=1)
        for name in names:
            await site.gone(name)
