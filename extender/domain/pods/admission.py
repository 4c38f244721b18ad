"""Compute the changes of admission to a new Pod that Slurm places, as operations of a JSON Patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Collection

from extender.domain.placing.taints import not_tolerated
from extender.domain.views import RESOURCE_CLAIMS, PodView, Taint
from extender.domain.wellknown import DEFAULT_SCHEDULER, GATE, OPT_OUT

Operation = dict[str, object]


def changes(
    pod: PodView,
    schedulers: Collection[str],
    namespaces: Collection[str] | None,
    *,
    gates_given: bool,
    gates_resource_claims: bool = False,
) -> list[Operation]:
    """Add the scheduling gate to a Pod that Slurm places; no change if it has the gate or could not use it.

    A Pod that names its node counts as bound and may have no gates (Kubernetes `validation.go`). One that only
    kube-scheduler can judge would lose the gate at once. `namespaces`: those that are served, `None` for all.
    `gates_given`: the Pod has a list of gates, if an empty one. `gates_resource_claims`: Slurm may choose devices of
    ResourceClaims, which is decided only when these exist.
    """
    if pod.scheduler_name not in schedulers or (namespaces is not None and pod.namespace not in namespaces):
        return []
    beyond = set(pod.beyond) - ({RESOURCE_CLAIMS} if gates_resource_claims else set())
    if pod.node_name or beyond or GATE in pod.gates:
        return []
    gate = {"name": GATE}
    if gates_given:
        return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]
    return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]


def tolerating(
    pod: PodView,
    schedulers: Collection[str],
    namespaces: Collection[str] | None,
    tolerated: Collection[Taint],
    *,
    tolerations_given: bool,
) -> list[Operation]:
    """Add tolerations of these taints to a Pod that Slurm places; no change if it has them.

    `tolerations_given`: the Pod has a list of tolerations, if an empty one.
    """
    if pod.scheduler_name not in schedulers or (namespaces is not None and pod.namespace not in namespaces):
        return []
    missing = [{"key": taint.key, "operator": "Exists"} for taint in not_tolerated(pod.tolerations, tolerated)]
    if missing and not tolerations_given:
        return [{"op": "add", "path": "/spec/tolerations", "value": missing}]
    return [{"op": "add", "path": "/spec/tolerations/-", "value": each} for each in missing]


def opted_in(pod: PodView) -> bool:
    """Return whether a Pod of a Namespace that is put on Slurm gets the scheduler's name.

    Not a Pod that names a scheduler or its node, one of a DaemonSet, one in the network of its Node, and one whose
    annotation says otherwise: these are parts of the cluster itself, or their author decided.
    """
    if pod.scheduler_name not in {"", DEFAULT_SCHEDULER} or pod.node_name or pod.host_network:
        return False
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return False
    return pod.annotations.get(OPT_OUT) != "true"


def named_scheduler(scheduler: str) -> Operation:
    """Give a Pod this scheduler's name."""
    return {"op": "add", "path": "/spec/schedulerName", "value": scheduler}
