"""Drain a Node and resume it.

A Node that is cordoned is drained in Slurm, and that drain is lifted with the cordon (docs/nodes.md). So drain and
resume only need the right to patch Nodes. The state is on the Node: the annotation with the reason separates a cordon
of `drain` from other cordons, which `resume` leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from extender.domain.wellknown import CORDONED_BY, DRAIN_REASON, RELEASED_AT, SLURM_NODE, UNAVAILABLE_REASON
from kubectl_slurm.api import Api
from kubectl_slurm.flags import DryRun

Json = dict[str, Any]

NO_REASON = "kubectl slurm drain"


class NotResumed(Exception):
    """The cordon is not one of `drain`; the text says whose it is and how it is lifted."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result for one Node. `result` is one word for programs."""

    node: str
    result: str
    message: str
    reason: str = ""


def drain(api: Api, node: Json, reason: str, dry: DryRun) -> Done:
    """Cordon it."""
    name, standing = node["metadata"]["name"], _reason(node)
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    if cordoned and standing is None:
        whose = "by the extender" if _by_extender(node) else "not by `kubectl slurm drain`"
        return Done(name, "unchanged", f"it is cordoned already, {whose}; resume will leave that alone")
    wanted = reason or (standing if cordoned and standing else NO_REASON)
    if cordoned and wanted == standing:
        return Done(name, "unchanged", "it is cordoned already", wanted)
    _patch(api, node, True, wanted, dry)
    if cordoned:
        return Done(name, "annotated", "it is cordoned already, and has another reason now", wanted)
    return Done(name, "cordoned", "the extender drains it in Slurm, and running Pods and jobs continue", wanted)


def resume(api: Api, node: Json, dry: DryRun) -> Done:
    """Lift the cordon that `drain` put on. Raises NotResumed for one of others."""
    name, standing = node["metadata"]["name"], _reason(node)
    annotations = node["metadata"].get("annotations") or {}
    if not (node.get("spec") or {}).get("unschedulable"):
        if standing is not None:  # it was uncordoned otherwise; a later cordon has another author
            _patch(api, node, False, None, dry)
        if annotations.get(UNAVAILABLE_REASON):
            raise NotResumed(
                f"node/{name} is not cordoned; Slurm starts nothing there: {annotations[UNAVAILABLE_REASON]}. "
                "Only Slurm can lift that."
            )
        return Done(name, "unchanged", "it is not cordoned")
    if _by_extender(node):
        raise NotResumed(
            f"node/{name} was cordoned by the extender ({annotations[CORDONED_BY]}), since Slurm starts nothing there. "
            f"Lift it in Slurm: scontrol update NodeName={_slurm_name(node)} State=RESUME; "
            f"or use `kubectl uncordon {name}` anyway"
        )
    if standing is None:
        raise NotResumed(
            f"node/{name} was not cordoned by `kubectl slurm drain`: ask who did, or lift it by "
            f"`kubectl uncordon {name}`"
        )
    _patch(api, node, False, None, dry)
    return Done(name, "uncordoned", "the extender lifts its drain in Slurm unless something else holds it", standing)


def release(api: Api, node: Json, now: str, dry: DryRun) -> Done:
    """Record that no Pod runs there that was removed without a report of its kubelet. `now` is the instant."""
    meta = node["metadata"]
    if dry is not DryRun.CLIENT:
        body = {"metadata": {"uid": meta["uid"], "annotations": {RELEASED_AT: now}}}
        api.merge(f"/api/v1/nodes/{meta['name']}", body, {"dryRun": "All"} if dry is DryRun.SERVER else None)
    return Done(meta["name"], "released", "the extender stops waiting for Pods that were removed from it")


def _reason(node: Json) -> str | None:
    found: str | None = (node["metadata"].get("annotations") or {}).get(DRAIN_REASON)
    return found


def _by_extender(node: Json) -> bool:
    mark = (node["metadata"].get("annotations") or {}).get(CORDONED_BY, "")
    return bool(mark)


def _slurm_name(node: Json) -> str:
    meta = node["metadata"]
    name: str = (meta.get("labels") or {}).get(SLURM_NODE) or (meta.get("annotations") or {}).get(SLURM_NODE, "")
    return name or str(meta["name"])


def _patch(api: Api, node: Json, unschedulable: bool, reason: str | None, dry: DryRun) -> None:
    """Patch the Node unless another one has its name by now: a UID that differs is refused."""
    if dry is DryRun.CLIENT:
        return
    meta = node["metadata"]
    body = {
        "metadata": {"uid": meta["uid"], "annotations": {DRAIN_REASON: reason}},
        "spec": {"unschedulable": True if unschedulable else None},
    }
    api.merge(f"/api/v1/nodes/{meta['name']}", body, {"dryRun": "All"} if dry is DryRun.SERVER else None)
