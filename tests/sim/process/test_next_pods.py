"""The next Pod is bound to a node when Slurm has said that no Pod outlives its job there, however soon its job ran."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from extender.domain.wellknown import GATE
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

ENDS: dict[str, Callable[[Site, int], object]] = {
    "cancelled": lambda site, job_id: site.slurm.controller.cancel(job_id),
    "time limit": lambda site, job_id: site.slurm.controller.end(job_id, "TIMEOUT"),
    "forgotten": lambda site, job_id: site.slurm.controller.forget(job_id),
}


async def fill_and_wait(site: Site) -> str:
    """Each node has a Pod that takes 25 s to end, and the job of `next` waits for any of them; that of `first-0`."""
    site.kubelets.stop_s = 25.0
    await site.fill()
    site.kube.add_pod("next", cpu="8")
    await site.until(lambda: bool(site.jobs_of("next")), "a job that waits")
    await asyncio.sleep(5)
    return site.node_of("first-0")


async def comes_after(site: Site, node: str) -> None:
    """`next` is bound to this node, and not while `first-0` is there."""
    while site.kube.pod("first-0") is not None:
        await asyncio.sleep(0.05)
        assert site.node_of("next") != node or site.kube.pod("first-0") is None
    assert await site.bound("next", within=200) == node


@pytest.mark.parametrize("how", ENDS)
async def test_the_next_pod_comes_after_one_whose_job_ended(site: Site, how: str) -> None:
    async with site.running():
        node = await fill_and_wait(site)
        ENDS[how](site, site.jobs_of("first-0")[0].job_id)
        site.slurm.controller.changed(0.0)
        await comes_after(site, node)
        await site.until(lambda: not site.drained(), "no drain", within=100)


@pytest.mark.parametrize("how", ["time limit", "forgotten"])
async def test_the_next_pod_comes_after_one_whose_job_ended_while_unwatched(site: Site, how: str) -> None:
    async with site.dying():
        node = await fill_and_wait(site)
    ENDS[how](site, site.jobs_of("first-0")[0].job_id)
    site.slurm.controller.changed(0.0)
    await asyncio.sleep(5)
    async with site.running():
        await comes_after(site, node)


async def test_a_pod_beside_others_is_bound_while_the_states_of_jobs_cannot_be_queried(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("one", node_selector={"kubernetes.io/hostname": "n1"})
        await site.bound("one")
        site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "GET", "/jobs/state")
        await asyncio.sleep(30)
        site.kube.add_pod("another", node_selector={"kubernetes.io/hostname": "n1"})
        await site.bound("another", within=100)


async def test_a_pod_beside_others_does_not_wait_for_the_next_poll(site: Site) -> None:
    site.config = site.config.replace(
        "{refreshRate: 2}", "{refreshRate: 0.1}\npolling: {minInterval: 5s, maxInterval: 5s}"
    )
    async with site.running():
        for name in ("one", "another"):
            site.kube.add_pod(name, gates=(GATE,), node_selector={"kubernetes.io/hostname": "n1"})
            await site.bound(name, within=1)
            await asyncio.sleep(6)
