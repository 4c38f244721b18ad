"""Find the extender's Pod that leads."""

from __future__ import annotations

from typing import Any

from kubectl_slurm.api import Api, NotAllowed, NotThere
from kubectl_slurm.flags import Common

Json = dict[str, Any]

LABEL = "app.kubernetes.io/name=slurm-extender"
"""Of the extender's Pods, in the manifests and in the chart."""


def lease_of(api: Api, given: Common) -> Json:
    """Return the spec of the Lease. Raises NotThere, NotAllowed, Away."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{given.extender_namespace}/leases/{given.lease}"
    spec: Json = api.get(path).get("spec") or {}
    return spec


def holder(lease: Json) -> str:
    """Return the Pod that holds the Lease; "": none. The extender writes its Pod's name and a suffix."""
    identity: str = lease.get("holderIdentity") or ""
    return identity.rpartition("_")[0] or identity


def leader_of(api: Api, given: Common) -> str:
    """Return the leader's name, or a ready replica if the Lease has no holder; "" if that may not be read.

    A single replica has no Lease, or ignores one that was released before it was the only one. Raises Away.
    """
    try:
        if leads := holder(lease_of(api, given)):
            return leads
    except (NotThere, NotAllowed):
        pass
    try:
        pods = api.items(f"/api/v1/namespaces/{given.extender_namespace}/pods", {"labelSelector": LABEL})
    except (NotThere, NotAllowed):
        return ""
    return next((pod["metadata"]["name"] for pod in pods if _ready(pod)), "")


def _ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
