"""Nodes without slurmd: Slurm loses one to every question that it has to answer, so none is caused."""

from __future__ import annotations

import asyncio

import pytest

from simulator.slurm.job_lifecycle import SimConfig
from tests.builders.process_site import a_site

pytestmark = pytest.mark.looptime
PARTITION = "slurm-extender.io/partition"


async def test_a_preemption_with_grace_time_does_not_cost_the_node() -> None:
    async with a_site(slurm_config=SimConfig(send_user_signal=True)) as site:
        controller = site.slurm.controller
        controller.partitions["batch"].grace_time_s = 20
        for one in controller.nodes.values():
            one.external = True
        async with site.running():
            await site.fill()
            site.kube.add_pod("urgent", cpu="8", annotations={PARTITION: "urgent"})
            node = await site.bound("urgent")
            await asyncio.sleep(60)
            assert not any(each.silent or each.drained for each in controller.nodes.values())
            site.kube.delete_pod("urgent", grace_s=1)
            site.kube.add_pod("next", cpu="8")
            assert await site.bound("next") == node
