"""Name the endpoint of a path without the names in it: their number has no bound."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"

KUBE_RESOURCES: Final = frozenset({
    "pods", "nodes", "namespaces", "events", "leases", "deviceclasses", "replicationcontrollers", "daemonsets",
    "deployments", "replicasets", "statefulsets", "cronjobs", "jobs", "jobsets", "leaderworkersets",
})  # fmt: skip
"""Owners of Pods can be of any kind that the cluster has; those that are looked at by default are named."""

SLURM_SINGLE: Final = frozenset({"job", "node", "partition", "reservation"})
"""What is followed by a name or number, unless by one of the next."""

SLURM_CALLS: Final = frozenset({"submit", "allocate"})

SLURM_ENDPOINTS: Final = frozenset({
    "conf", "diag", "job", "jobs", "licenses", "new", "node", "nodes", "partition", "partitions", "ping", "reconfigure",
    "reservation", "reservations", "resources", "shares", "associations", "accounts", "users", "clusters", "qos",
    "tres",
})  # fmt: skip


def kube_endpoint(path: str) -> str:
    """Return `pods/binding` for `/api/v1/namespaces/default/pods/web/binding`."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest or rest[0] not in KUBE_RESOURCES:
        return OTHER
    return "/".join([*rest[:1], *rest[2:3]])


def slurm_endpoint(path: str) -> str:
    """Return `job/{id}` for `/slurm/v0.0.43/job/4711`."""
    first, *more = [part for part in path.strip("/").split("/")[2:] if part] or [""]
    if first not in SLURM_ENDPOINTS:
        return OTHER
    if first in SLURM_SINGLE and more and more[0] not in SLURM_CALLS:
        return f"{first}/{{id}}"
    return "/".join([first, *more[:1]])
