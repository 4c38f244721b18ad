"""Recorded answers of the console of a simulated cluster, for a browser that reads them in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import looptime

from extender.http.inspection import Inspection
from extender.http.service import Check, ConsoleQuery
from simulator.cluster import SimCluster, simulated_cluster
from simulator.slurm.records import SimNode, SimPartition
from tests.builders.services import FakeDebug

NODES = [
    *(SimNode(f"gpu-{n:02}", cpus=64, memory_mb=512_000, gres={"gpu:h100": 8}) for n in range(1, 5)),
    *(SimNode(f"cpu-{n:02}", cpus=64, memory_mb=384_000) for n in range(1, 5)),
]
PARTITIONS = [
    SimPartition("batch", nodes=tuple(node.name for node in NODES[4:]), default=True, grace_time_s=60),
    SimPartition("gpu", nodes=tuple(node.name for node in NODES[:4]), priority_tier=5, grace_time_s=60),
]
PARTITION = "slurm-extender.io/partition"
GRES = "slurm-extender.io/gres"


class Recorded(FakeDebug):
    """Answer as the extender of the recording did; `state` may be changed by a test."""

    def __init__(self, state: Mapping[str, Any], pods: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(health=(Check("pods", True, "24 Pods known"), Check("slurm", True, "polled 0.4 s ago")))
        self.state, self.pods = dict(deepcopy(state)), dict(pods)
        self.later_s = _wall() - self.state["at"]

    async def console(self, query: ConsoleQuery) -> Mapping[str, Any]:
        self.searches.append(query.search)
        rows = [row for row in self.state["workloads"] if query.search in str(row)]
        rows = [{**row, "createdAt": row["createdAt"] and row["createdAt"] + self.later_s} for row in rows]
        return {**self.state, "error": "", "at": _wall(), "workloads": rows, "workloadsFound": len(rows)}

    def console_pod(self, uid: str) -> Mapping[str, Any] | None:
        return self.pods.get(uid)


def _wall() -> float:
    return datetime.now(UTC).timestamp()  # noqa: TID251 - the browser's page compares with its own clock


def record() -> Recorded:
    """Run a busy cluster for some minutes of virtual time and record its console."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(_record())


async def _record() -> Recorded:
    async with (
        simulated_cluster(SimCluster, nodes=NODES, partitions=PARTITIONS) as cluster,
        cluster.running() as extender,
    ):
        inspection = Inspection(extender)
        for name in ("research", "data", "team-a"):
            cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        gpu = {PARTITION: "gpu", GRES: "gpu:h100:8"}
        for number in range(4):
            cluster.kube.add_pod(f"llama-train-{number}", "research", cpu="64", memory="400Gi", annotations=gpu)
            await asyncio.sleep(7)
        for number in range(8):
            cluster.kube.add_pod(f"etl-2026-{number:02}", "data", cpu="32", memory="64Gi")
            await asyncio.sleep(5)
        for number in range(3):
            cluster.kube.add_pod(f"notebook-{number}", "team-a", cpu="24", memory="16Gi")
            await asyncio.sleep(11)
        for number in range(3):
            cluster.kube.add_pod(f"eval-{number}", "research", cpu="32", memory="64Gi", annotations=gpu)
            await asyncio.sleep(4)
        cluster.kube.add_pod("fine-tune", "research", cpu="64", annotations={PARTITION: "nowhere"})
        cluster.kube.delete_pod("etl-2026-02", "data", grace_s=60)
        cluster.cordon("cpu-04")
        await asyncio.sleep(25)
        state = await inspection.console(ConsoleQuery())
        pods = {row["uid"]: found for row in state["workloads"] if (found := inspection.console_pod(row["uid"]))}
        return Recorded(state, pods)
