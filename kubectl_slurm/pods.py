"""Read the state of Pods from their annotations, conditions and Events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from extender.domain.wellknown import ALLOCATED_CONDITION, DEVICES, GATE, JOB_ID, NODE, POD_SLURM_NODE, POD_UID
from kubectl_slurm.api import Api, Away, NotAllowed

Json = dict[str, Any]

_JOB = re.compile(r"\bSlurm job (\d+)\b")
_ENDED = ("Succeeded", "Failed")


def pods_of(api: Api, scheduler: str, namespace: str, labels: str = "") -> list[Json]:
    """Return the Pods of a scheduler in a namespace, or everywhere where that is ""; those that have these labels."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    query = {"fieldSelector": f"spec.schedulerName={scheduler}", **({"labelSelector": labels} if labels else {})}
    return api.items(path, query)


def events_of(api: Api, pod: Json) -> list[Json]:
    """Return the Events about a Pod, the oldest first; none where they may not be read."""
    meta = pod["metadata"]
    return _events(api, meta["namespace"], f"regarding.uid={meta['uid']}")


def events_of_name(api: Api, namespace: str, name: str) -> list[Json]:
    """Return the same of every Pod that had this name, since Events stay for an hour."""
    return _events(api, namespace, f"regarding.kind=Pod,regarding.name={name}")


def _events(api: Api, namespace: str, which: str) -> list[Json]:
    try:
        found = api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", {"fieldSelector": which})
    except (NotAllowed, Away):
        return []
    return sorted(found, key=said_at)


def row_of(pod: Json) -> Json:
    """Return one Pod, ready to be printed."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    annotations = meta.get("annotations") or {}
    for_this_pod = annotations.get(POD_UID) in {None, meta["uid"]}
    condition = condition_of(pod)
    job = annotations.get(JOB_ID, "") if for_this_pod else ""
    if not job and not spec.get("nodeName") and (found := _JOB.search(condition.get("message", ""))):
        job = found[1]
    return {
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta["uid"],
        "job": int(job) if job.isdecimal() else None,
        "state": _state(pod),
        "reason": condition.get("reason", ""),
        "node": spec.get("nodeName") or (annotations.get(NODE, "") if for_this_pod else ""),
        "slurmNode": annotations.get(POD_SLURM_NODE, "") if for_this_pod else "",
        "devices": annotations.get(DEVICES, "") if for_this_pod else "",
        "why": condition.get("message", ""),
        "since": condition.get("lastTransitionTime", ""),
        "created": meta.get("creationTimestamp", ""),
    }


def condition_of(pod: Json) -> Json:
    """Return the extender's condition; empty if there is none."""
    conditions: Iterable[Json] = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == ALLOCATED_CONDITION), {})


def gates_of(pod: Json) -> list[str]:
    """Return the names of its scheduling gates."""
    return [one.get("name", "") for one in (pod.get("spec") or {}).get("schedulingGates") or ()]


def waits(pod: Json) -> bool:
    """Return whether the Pod waits for a node."""
    return _state(pod) == "Waiting"


def without_condition(pod: Json, events: list[Json]) -> str:
    """Return what is known of a waiting Pod without the condition."""
    others = [gate for gate in gates_of(pod) if gate != GATE]
    if others:
        return f"Waiting for other scheduling gates to be removed: {', '.join(others)}."
    notes = [one for one in events if one.get("note")]
    if notes:
        return str(notes[-1]["note"])
    return (
        "The extender has not written a reason yet. It does so after ten seconds, unless it does not run or does not "
        "serve the Pod's schedulerName."
    )


def _state(pod: Json) -> str:
    phase = (pod.get("status") or {}).get("phase", "Pending")
    if phase in _ENDED:
        return str(phase)
    if "deletionTimestamp" in pod["metadata"]:
        return "Ending"
    return "Placed" if (pod.get("spec") or {}).get("nodeName") else "Waiting"


def said_at(event: Json) -> str:
    """Return when it was reported last."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp") or "")
