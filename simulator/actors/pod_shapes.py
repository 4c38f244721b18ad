"""Draw allocatable resources of Nodes below those in Slurm, and Pods that request resources unknown to Slurm."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.slurm.records import SimNode

TIGHT = 0.5
"""The share of sites with reduced allocatable resources."""


def allocatable(rng: random.Random, nodes: Sequence[SimNode]) -> dict[str, Mapping[str, str]]:
    """Return allocatable resources by node; empty for a site without reductions."""
    if rng.random() >= TIGHT:
        return {}
    return {node.name: _of(rng, node) for node in nodes}


def _of(rng: random.Random, node: SimNode) -> Mapping[str, str]:
    """Draw the resources of one Node; each has room for any one Pod of the simulation."""
    return {
        "cpu": rng.choice([str(node.cpus), f"{node.cpus * 1000 - 500}m", str(node.cpus - 1)]),
        "memory": rng.choice(["62Gi", "20Gi", "12000000k"]),
        "pods": rng.choice(["3", "6", "110"]),
        "ephemeral-storage": "40G",
        "hugepages-2Mi": rng.choice(["256Mi", "1Gi"]),
    }


def demands(rng: random.Random) -> dict[str, Any]:
    """Draw further requests of a Pod, as arguments of `objects.a_pod`, which Slurm does not count."""
    requested: dict[str, str] = {}
    if rng.random() < 0.4:
        requested["ephemeral-storage"] = rng.choice(["500M", "10Gi", "30G"])
    if rng.random() < 0.3:
        requested["hugepages-2Mi"] = rng.choice(["64Mi", "200Mi"])
    more: dict[str, Any] = {}
    if rng.random() < 0.2:
        init = {"requests": {"cpu": rng.choice(["100m", "3"]), "memory": "2Gi"}}
        more["initContainers"] = [{"name": "init", "image": "busybox", "resources": init}]
    if rng.random() < 0.2:
        beside = {"requests": {"cpu": rng.choice(["50m", "1500m"]), "memory": "100Mi"}}
        sidecar = {"name": "beside", "image": "busybox", "restartPolicy": "Always", "resources": beside}
        more["initContainers"] = [sidecar, *more.get("initContainers", [])]
    if rng.random() < 0.1:
        more["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    return {"more": requested, "spec_more": more}
