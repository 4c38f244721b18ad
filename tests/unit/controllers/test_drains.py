"""Drains are asked for once, and none of the process before is lost."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from extender.controllers.nodes.drains import Drains
from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.nodes import machine as n
from extender.domain.ports import PortError, ReasonAfter, SlurmNodes
from extender.domain.wellknown import DRAIN_PREFIX
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import DrainFound
from extender.slurm.nodes import SlurmrestdNodes
from tests.builders.fake_api import running
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import sim_site

pytestmark = pytest.mark.looptime
SLOW_S = 7.0


class Slow:
    """Takes drains in the end, after it refused some."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.requested_at: list[float] = []

    async def drain(self, _node: str, _reason: str, _found: ReasonAfter) -> None:
        self.requested_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(SLOW_S)
        if len(self.requested_at) <= self.refusals:
            raise PortError("not now")

    async def node(self, name: str) -> SlurmNode:
        return SlurmNode(name, flags=frozenset({"DRAIN"}), reason=f"{DRAIN_PREFIX} a Pod outlives its job")


@pytest.mark.parametrize("refusals", [0, 2])
async def test_what_is_under_way_is_not_requested_again_and_what_was_refused_is_soon(refusals: int) -> None:
    slurm = Slow(refusals)
    drains = Drains(cast(SlurmNodes, slurm), LoopClock(), "", EventBus())
    async with running(drains.run()):
        drains.notify("n1", n.HoldRequested("uid", "a Pod outlives its job"))
        for _ in range(60):
            await asyncio.sleep(1)
            drains.nodes_read(SlurmSnapshot())
        assert drains.holds["n1"].state is n.DrainState.DRAINED
        pauses = [after - before for before, after in zip(slurm.requested_at, slurm.requested_at[1:], strict=False)]
        assert len(pauses) == refusals
        assert all(SLOW_S + n.RETRY <= pause <= SLOW_S + n.RETRY + 1 for pause in pauses)


@pytest.mark.parametrize("lifted", [False, True])
async def test_what_the_process_before_wrote_is_read_before_its_drain_is_changed(lifted: bool) -> None:
    before, events = f"{DRAIN_PREFIX} a removed Pod may run", EventBus()
    async with sim_site("26.05.5") as site, site.client() as client:
        site.drain("node-1", before)
        drains = Drains(SlurmrestdNodes(client, LoopClock()), LoopClock(), "", events)

        def adopt(event: DrainFound) -> None:
            if event.reason == before:
                drains.notify(event.slurm_node, n.HoldRequested("removed", "a removed Pod may run"))

        events.subscribe(DrainFound, adopt)
        drains.notify("node-1", n.HoldRequested("node", "is cordoned"))
        if lifted:
            drains.notify("node-1", n.HoldReleased("node"))
        async with running(drains.run()):
            for _ in range(30):
                await asyncio.sleep(1)
                assert "a removed Pod may run" in site.sim.controller.nodes["node-1"].reason
            assert ("is cordoned" in site.sim.controller.nodes["node-1"].reason) is not lifted
            assert drains.keeps("node-1")
