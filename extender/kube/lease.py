"""Leases in the API server: the one that says which replica leads, and those by which kubelets show that they live.

Each write carries the resource version that was read, so that of two who take it at a time one is refused
(`client-go/tools/leaderelection/resourcelock/leaselock.go`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json

from extender.domain import ports, wellknown
from extender.domain.election import LeaseRecord, accepted_duration
from extender.kube.connection import ApiConnection, ApiResponse
from extender.kube.errors import ApiUnavailable, NotFound

API = "coordination.k8s.io/v1"

NODE_LEASES = "kube-node-lease"
"""The namespace in which every kubelet keeps a Lease of its Node's name (`corev1.NamespaceNodeLease`)."""


@dataclass(frozen=True, slots=True)
class KeptLease:
    """A Lease as it is kept: what it says, and the whole object that the next write begins with."""

    record: LeaseRecord
    whole: dict[str, Any]


class LeaseLock:
    """One Lease."""

    def __init__(self, connection: ApiConnection, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self._connection = connection
        self._path = f"/apis/{API}/namespaces/{namespace}/leases"

    async def read(self, timeout_s: float) -> KeptLease | None:
        """Return the Lease as it is now; `None`: there is no such Lease. Raises ApiError."""
        try:
            answer = await self._connection.request("GET", f"{self._path}/{self.name}", timeout_s=timeout_s)
        except NotFound:
            return None
        return _kept(answer)

    async def write(self, before: KeptLease | None, record: LeaseRecord, timeout_s: float) -> KeptLease:
        """Create it, or replace it if it still is as `before`. Raises ApiError; `Conflict`: another write was first."""
        whole: dict[str, Any] = before.whole if before is not None else {"apiVersion": API, "kind": "Lease"}
        meta = {**whole.get("metadata", {}), "name": self.name, "namespace": self.namespace}
        kept = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in _ENDPOINTS.values()}
        meta["annotations"] = kept | {_ENDPOINTS[endpoint]: address for endpoint, address in record.addresses}
        meta["annotations"].pop(wellknown.HOLDER_LOCK, None)
        if record.lock:
            meta["annotations"][wellknown.HOLDER_LOCK] = record.lock
        if record.scheduler:
            meta["annotations"][wellknown.SCHEDULER_NAME] = record.scheduler
        spec = {
            **(whole.get("spec") or {}),
            "holderIdentity": record.holder,
            "leaseDurationSeconds": int(record.duration_s),
            "leaseTransitions": record.transitions,
            "acquireTime": record.acquired,
            "renewTime": record.renewed,
        }
        body = whole | {"metadata": meta, "spec": spec}
        if before is None:
            answer = await self._connection.request("POST", self._path, body=body, timeout_s=timeout_s)
        else:
            answer = await self._connection.request("PUT", f"{self._path}/{self.name}", body=body, timeout_s=timeout_s)
        return _kept(answer)


class KubeNodeLeases:
    """Read the Leases of Nodes one by one and rarely, since all of them together change every 10 s.

    Implements `ports.NodeLeases`.
    """

    def __init__(self, connection: ApiConnection, timeout_s: float = 3.0) -> None:
        self._connection = connection
        self._timeout_s = timeout_s

    async def renewed(self, node: str) -> str:
        """Return when kubelet renewed the Lease of a Node last, as it wrote it; "": no Lease. Raises ApiError."""
        kept = await LeaseLock(self._connection, NODE_LEASES, node).read(self._timeout_s)
        return "" if kept is None else kept.record.renewed


def micro_time(seconds: float) -> str:
    """Return the time as a `metav1.MicroTime`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_ENDPOINTS = {"scheduling": wellknown.SCHEDULING_ADDRESS, "hooks": wellknown.HOOKS_ADDRESS}


def _kept(answer: ApiResponse) -> KeptLease:
    """Read an object. What is missing in it or of another kind is as if it had not been said."""
    try:
        whole = from_json(answer.body)
        meta, spec = whole["metadata"], whole.get("spec") or {}
        annotations = meta.get("annotations") or {}
        record = LeaseRecord(
            holder=str(spec.get("holderIdentity") or ""),
            duration_s=accepted_duration(spec.get("leaseDurationSeconds")),
            transitions=int(spec.get("leaseTransitions") or 0),
            acquired=str(spec.get("acquireTime") or ""),
            renewed=str(spec.get("renewTime") or ""),
            addresses=tuple(
                (endpoint, str(annotations[key])) for endpoint, key in _ENDPOINTS.items() if key in annotations
            ),
            scheduler=str(annotations.get(wellknown.SCHEDULER_NAME) or ""),
            lock=str(annotations.get(wellknown.HOLDER_LOCK) or ""),
        )
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ApiUnavailable(f"a Lease cannot be read: {error!r}") from error
    return KeptLease(record, whole)


_NODE_LEASES_ARE_LEASES: type[ports.NodeLeases] = KubeNodeLeases
