"""Nodes that are cordoned: how soon Slurm starts nothing new there, beside the same requests in a bare loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from bench.figures import summary
from bench.real.fleet import EXTERNAL_NODES
from bench.real.jobs import LATE_S
from bench.real.load import Load
from extender.kube.connection import MERGE_PATCH
from lab.clock import now
from slurmclient import NodeUpdate, SlurmClient

Json = dict[str, Any]
LOOK_S = 0.002
"""Between two reads of a node in Slurm."""


async def measure_cordoned(load: Load, slurm: SlurmClient, rounds: int, count: int) -> Json:
    """Seconds from the request that cordons a Node to slurmctld's word that its node is drained; one at a time."""
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    lifted: list[list[float]] = []
    for _ in range(rounds):
        mine, back, floor = [], [], []
        for number in range(count):
            name = f"ext-{number % EXTERNAL_NODES:02d}"
            await asyncio.sleep(random.uniform(0, 0.2))
            mine.append(await _until(slurm, name, True, lambda n=name: _cordon(load, n, True)))  # type: ignore[misc]
            back.append(await _until(slurm, name, False, lambda n=name: _cordon(load, n, None)))  # type: ignore[misc]
            floor.append(await _until(slurm, name, True, lambda n=name: _drain(load, slurm, n)))  # type: ignore[misc]
            await slurm.update_node(name, NodeUpdate(state=("UNDRAIN",)))
        ours.append(mine)
        lifted.append(back)
        bare.append(floor)
    return {
        "what": "a cordon until slurmctld says DRAIN",
        "ours_s": summary(ours),
        "lifted_s": summary(lifted),
        "bare_s": summary(bare),
    }


async def _cordon(load: Load, node: str, cordoned: bool | None) -> None:
    body = {"spec": {"unschedulable": cordoned}}
    await load.kube.request("PATCH", f"/api/v1/nodes/{node}", body=body, content_type=MERGE_PATCH)


async def _drain(load: Load, slurm: SlurmClient, node: str) -> None:
    """A change of the Node that means nothing, a look at Slurm's node, a drain in the words of another extender."""
    body = {"metadata": {"annotations": {"bench.slurm-extender.io/round": str(now())}}}
    await load.kube.request("PATCH", f"/api/v1/nodes/{node}", body=body, content_type=MERGE_PATCH)
    await slurm.node(node)
    await slurm.update_node(node, NodeUpdate(state=("DRAIN",), reason="slurm-extender: [00000000] bench"))


async def _until(slurm: SlurmClient, node: str, drained: bool, act: Callable[[], Awaitable[None]]) -> float:
    began = now()
    await act()
    while (await slurm.node(node)).drained is not drained:
        if now() - began > LATE_S:
            raise RuntimeError(f"node {node} is {'not ' if drained else ''}drained after {LATE_S:g} s")
        await asyncio.sleep(LOOK_S)
    return now() - began
