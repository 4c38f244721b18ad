"""Several extenders on one Slurm: another cluster's, or of another scheduler name. Each sees all nodes and all jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from extender.assembly import Assembly
from extender.config.load import parse
from extender.domain.nodes.drain_reasons import reason
from extender.server.active_role import living
from tests.builders.process_site import CLUSTER, CONFIG, NAMES, Site

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def a_second(site: Site, cluster: str, scheduler: str) -> AsyncIterator[Assembly]:
    """Another extender, ready, on the same Slurm."""
    config = CONFIG.replace("extender:", "second:") + f"scheduler: {{name: {scheduler}}}\n"
    io_context = replace(site.io_context(site.network), host="second")
    try:
        async with living(parse(config, "test"), io_context, cluster, validate=True) as second:
            await site.until(lambda: second.ready, "the second is ready")
            yield second
    finally:
        await io_context.close()


@pytest.mark.parametrize("cluster", [CLUSTER, "another"])
async def test_the_drain_of_another_extender_stays_while_its_pod_does(site: Site, cluster: str) -> None:
    async with site.running(), a_second(site, cluster, "other") as second:
        site.kubelets.stop_s = 40.0
        site.kube.add_pod("web", grace_s=40)
        node = await site.bound("web")
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "a drain", within=5)
        while site.kube.pod("web") is not None:
            await asyncio.sleep(0.05)
            assert site.drained() == [node] or site.kube.pod("web") is None
        await site.until(lambda: not site.drained(), "the end of the drain", within=10)
        assert second.ready


async def test_words_that_name_no_extender_are_taken_for_its_own_on_nodes_of_this_cluster_alone(site: Site) -> None:
    site.delete_node("n3")
    async with site.running():
        for node in NAMES:
            site.slurm.controller.drain(node, reason("", ["a Pod is there still"]))
        await site.until(lambda: site.drained() == ["n3"], "the end of the others", within=20)
        await asyncio.sleep(30)
        assert site.drained() == ["n3"]


async def test_a_node_that_another_client_drained_is_held_at_once_when_that_ends(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 60.0
        site.kube.add_pod("web", grace_s=60)
        node = await site.bound("web")
        site.slurm.controller.drain(node, "bad DIMM")
        await asyncio.sleep(10)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await asyncio.sleep(10)
        site.slurm.controller.undrain(node)
        await asyncio.sleep(0.3)
        assert site.drained() == [node]
