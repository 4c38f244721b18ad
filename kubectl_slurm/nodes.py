"""Read the state of Nodes from their marks and from `/debug/nodes`."""

from __future__ import annotations

from typing import Any

from extender.domain.wellknown import (
    DRAIN_REASON,
    NATIVE_JOBS,
    SLURM_AVAILABLE_CONDITION,
    SLURM_NODE,
    UNAVAILABLE_REASON,
)
from kubectl_slurm.api import Api
from kubectl_slurm.debug import objects

Json = dict[str, Any]


def nodes_of(api: Api, labels: str = "") -> list[Json]:
    """Return all Nodes; those that have these labels."""
    return api.items("/api/v1/nodes", {"labelSelector": labels} if labels else {})


def row_of(node: Json) -> Json:
    """Return one Node, ready to be printed."""
    meta, spec = node["metadata"], node.get("spec") or {}
    conditions = {one.get("type"): one for one in (node.get("status") or {}).get("conditions") or ()}
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    available = conditions.get(SLURM_AVAILABLE_CONDITION) or {}
    ready = (conditions.get("Ready") or {}).get("status") == "True"
    return {
        "name": meta["name"],
        "ready": "Ready" if ready else "NotReady",
        "cordoned": bool(spec.get("unschedulable")),
        "slurmNode": labels.get(SLURM_NODE) or annotations.get(SLURM_NODE, ""),
        "slurm": {"True": "Available", "False": "Unavailable"}.get(available.get("status", ""), ""),
        "reason": available.get("message", "") if available.get("status") == "False" else "",
        "nativeJobs": annotations.get(NATIVE_JOBS, ""),
        "unavailable": annotations.get(UNAVAILABLE_REASON, ""),
        "drainReason": annotations.get(DRAIN_REASON, "") if spec.get("unschedulable") else "",
        "created": meta.get("creationTimestamp", ""),
    }


def with_slurm(rows: list[Json], debug: Json) -> list[Json]:
    """Return the same with what the extender knows of Slurm's node of each."""
    slurm = {one.get("kubernetes"): one for one in objects(debug.get("slurm"))}
    holds = {one.get("node"): one for one in objects(debug.get("holds"))}
    return [_with(row, slurm.get(row["name"]), holds) for row in rows]


def _with(row: Json, found: Json | None, holds: dict[Any, Json]) -> Json:
    if found is None:
        return {**row, "slurmState": "", "partitions": [], "held": ""}
    causes = holds.get(found.get("name"), {}).get("causes")
    return {
        **row,
        "slurmNode": found.get("name", ""),
        "slurmState": found.get("state", ""),
        "partitions": found.get("partitions", []),
        "reason": found.get("reason") or row["reason"],
        "held": "; ".join(map(str, causes.values())) if isinstance(causes, dict) else "",
    }
