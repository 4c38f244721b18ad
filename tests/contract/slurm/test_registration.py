"""Many Nodes at once, registered by the whole extender: on a simulated Slurm, and on a real one over its sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.config.load import parse
from extender.server.active_role import living
from lab.slurm import Slurm, SlurmNode
from simulator.cluster import CLUSTER
from slurmclient import SlurmClient, StaticToken
from tests.builders.process_site import REGISTERED, REGISTERING, Site, a_site
from tests.builders.slurm_sites import until

MANY = 500
TOPOLOGY = "topology: [{topology: tree, labels: [zone, rack]}]"


def add_nodes(site: Site) -> None:
    for number in range(MANY):
        address = f"10.0.{number // 250}.{number % 250}"
        site.kube.add_node(f"many-{number}", cpu="64", memory="500Gi", gpus=8, labels=REGISTERED, address=address)


async def seconds_to_register(site: Site, slurm: SlurmClient) -> float:
    """From the start of the extender until Slurm has all of them, each made once."""
    began = asyncio.get_running_loop().time()
    io_context = replace(site.io_context(site.network), slurm=slurm)
    async with living(parse(site.config + REGISTERING.replace(TOPOLOGY, ""), "test"), io_context, CLUSTER):

        async def registered() -> int:
            return sum(node.name.startswith("many-") for node in await slurm.nodes())

        await until(registered, lambda found: found == MANY, f"{MANY} nodes")
        return asyncio.get_running_loop().time() - began


@pytest.mark.lab
async def test_a_real_slurm_has_five_hundred_nodes_soon(measured: Callable[[str], None]) -> None:
    with Slurm(release="26.05", nodes=[SlurmNode("node-1", cpus=8, memory_mb=16_000)]) as real:
        async with a_site(nodes=()) as site, SlurmClient([real.rest_url], StaticToken(real.token())) as slurm:
            add_nodes(site)
            took = await seconds_to_register(site, slurm)
            states = {frozenset(node.flags) & {"DRAIN", "NOT_RESPONDING"} for node in await slurm.nodes()}
            measured(f"{real.version}: {MANY} Nodes registered {took:.1f} s after the start of the extender")
        assert states == {frozenset()}
