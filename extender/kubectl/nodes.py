"""Nodes, and the marks by which a person takes one out and brings it back.

A Node that is cordoned is drained in Slurm, and that drain is lifted with the cordon (docs/nodes.md). So drain and
resume need no more than the right to patch Nodes, and leave no state of their own: what stands on the Node holds.
"""

from __future__ import annotations

from typing import Any

from extender.domain.wellknown import (
    CORDONED,
    NATIVE_JOBS,
    SLURM_NODE,
    SLURM_UNAVAILABLE,
    UNAVAILABLE_CONDITION,
)
from extender.kube.connection import JSON_PATCH
from extender.kubectl.api import Api

Json = dict[str, Any]


def nodes_of(api: Api) -> list[Json]:
    """All Nodes."""
    return api.items("/api/v1/nodes")


def row_of(node: Json) -> Json:
    """One Node, ready to be printed."""
    meta, spec = node["metadata"], node.get("spec") or {}
    conditions = {one.get("type"): one for one in (node.get("status") or {}).get("conditions") or ()}
    said, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    unavailable = conditions.get(UNAVAILABLE_CONDITION) or {}
    ready = (conditions.get("Ready") or {}).get("status") == "True"
    return {
        "name": meta["name"],
        "ready": "Ready" if ready else "NotReady",
        "cordoned": bool(spec.get("unschedulable")),
        "slurmNode": labels.get(SLURM_NODE) or said.get(SLURM_NODE, ""),
        "slurm": {"True": "Unavailable", "False": "Available"}.get(unavailable.get("status", ""), ""),
        "reason": unavailable.get("message", "") if unavailable.get("status") == "True" else "",
        "nativeJobs": said.get(NATIVE_JOBS, ""),
        "unavailable": said.get(SLURM_UNAVAILABLE, ""),
    }


def with_slurm(row: Json, debug: Json) -> Json:
    """The same with what the extender knows of Slurm's node of it."""
    found = next((one for one in debug.get("slurm") or () if one.get("kubernetes") == row["name"]), None)
    hold = next((one for one in debug.get("holds") or () if found and one.get("node") == found["name"]), None)
    if found is None:
        return {**row, "slurmNode": row["slurmNode"], "slurmState": "", "held": ""}
    return {
        **row,
        "slurmNode": found["name"],
        "slurmState": found["state"],
        "partitions": found["partitions"],
        "reason": found["reason"] or row["reason"],
        "held": "; ".join(str(cause) for cause in (hold or {}).get("causes", {}).values()),
    }


def drain(api: Api, node: Json) -> str:
    """Cordon it; what became of it."""
    name, spec = node["metadata"]["name"], node.get("spec") or {}
    if spec.get("unschedulable"):
        return f"node/{name} is cordoned already"
    _patch(api, node, True)
    return f"node/{name} cordoned; the extender drains it in Slurm, and what runs there goes on"


def resume(api: Api, node: Json) -> str:
    """Lift the cordon; what became of it. Raises ValueError where that would not be what is meant."""
    name, spec = node["metadata"]["name"], node.get("spec") or {}
    if not spec.get("unschedulable"):
        said = (node["metadata"].get("annotations") or {}).get(SLURM_UNAVAILABLE)
        if said:
            raise ValueError(
                f"node/{name} is not cordoned; Slurm starts nothing there: {said}. Only Slurm can lift that."
            )
        return f"node/{name} is not cordoned"
    marked = (node["metadata"].get("annotations") or {}).get(CORDONED)
    if marked and not marked.endswith(":lifted"):
        raise ValueError(
            f"node/{name} was cordoned by the extender ({marked}), since Slurm starts nothing there. Lift it in Slurm: "
            f"scontrol update NodeName={_slurm_name(node)} State=RESUME; or `kubectl uncordon {name}` all the same"
        )
    _patch(api, node, False)
    return f"node/{name} uncordoned; the extender lifts its drain in Slurm unless something else holds it"


def _slurm_name(node: Json) -> str:
    meta = node["metadata"]
    said: str = (meta.get("labels") or {}).get(SLURM_NODE) or (meta.get("annotations") or {}).get(SLURM_NODE, "")
    return said or str(meta["name"])


def _patch(api: Api, node: Json, unschedulable: bool) -> None:
    """Unless another Node has its name by now."""
    meta = node["metadata"]
    body = [
        {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
        {"op": "add", "path": "/spec/unschedulable", "value": unschedulable},
    ]
    api.patch(f"/api/v1/nodes/{meta['name']}", body, JSON_PATCH)
