"""Read the identity of the cluster."""

from __future__ import annotations

from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiUnavailable
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.meta import read_object_meta

NAMESPACE = "kube-system"


async def cluster_id(connection: ApiConnection, timeout_s: float = 10.0) -> str:
    """Return the UID of namespace kube-system: as old as the cluster, and never another cluster's. Raises ApiError."""
    path = f"/api/v1/namespaces/{NAMESPACE}"
    answer = await connection.request("GET", path, timeout_s=timeout_s)
    try:
        uid = read_object_meta(answer.body).uid
    except MalformedObject as error:
        raise ApiUnavailable(f"GET {path}: {error}") from error
    if not uid:
        raise ApiUnavailable(f"GET {path}: the answer has no metadata.uid: {answer.body[:80]!r}")
    return uid
