"""Show the state of the extender: the leader, its checks, and how many Pods wait for what."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubectl_slurm import nodes as of_nodes
from kubectl_slurm import pods as of_pods
from kubectl_slurm.age import seconds_of, span
from kubectl_slurm.api import Api, Away, NotAllowed, NotThere
from kubectl_slurm.debug import Debug, Unreached
from kubectl_slurm.flags import Common
from kubectl_slurm.leader import holder, lease_of

Json = dict[str, Any]

ALL_CHECKS = "checks"
"""The row that stands for the checks if they cannot be read."""

STANDS_FOR_ELECTION = "lease"
"""The check that every replica has which stands for election, and no other one has (`extender.server.replica`)."""

SLACK_S = 15.0
"""Beyond what the Lease promises: another replica takes it over meanwhile, and clocks differ."""


def rows(api: Api, debug: Debug, given: Common) -> list[Json]:
    """Return one row for each check; `failed` if an administrator has to act."""
    checks = _checks(debug)
    return [*_leader(api, given, checks), *checks, *_pods(api, given), *_nodes(api)]


def _row(name: str, status: str, message: str = "", *, failed: bool = False) -> Json:
    return {"name": name, "status": status, "message": message, "failed": failed}


def _leader(api: Api, given: Common, checks: list[Json]) -> list[Json]:
    where = f"{given.extender_namespace}/{given.lease}"
    try:
        lease = lease_of(api, given)
    except NotThere:
        return [_row("leader", "unknown", f"there is no Lease {where}; a single replica has none")]
    except (NotAllowed, Away) as error:
        return [_row("leader", "unknown", str(error))]
    if not (leads := holder(lease)):
        names = {one["name"] for one in checks}
        if names != {ALL_CHECKS} and STANDS_FOR_ELECTION not in names:
            return [_row("leader", "unneeded", f"a single replica needs no Lease; Lease {where} is unused")]
        return [_row("leader", "none", "no replica leads now", failed=True)]
    silent_s = _silent_s(lease, api.now)
    # A replica that answers with its checks is alive, whatever its clock shows.
    if silent_s is not None and {one["name"] for one in checks} == {ALL_CHECKS}:
        gone = f"has not renewed the Lease {where} for {span(silent_s)}: it is gone, or its clock is wrong"
        return [_row("leader", leads, gone, failed=True)]
    return [_row("leader", leads, f"renewed at {lease.get('renewTime', 'no time')}")]


def _silent_s(lease: Json, now: float | None) -> float | None:
    """Return the seconds since the holder's last renewal, if that is too long; `None`: it is not, or not known."""
    renewed, lasts = seconds_of(str(lease.get("renewTime", ""))), lease.get("leaseDurationSeconds")
    if renewed is None or now is None or now - renewed <= (lasts if isinstance(lasts, int) else 0) + SLACK_S:
        return None
    return now - renewed


def _checks(debug: Debug) -> list[Json]:
    try:
        found = debug.items("checks")
    except Unreached as error:
        return [_row(ALL_CHECKS, "unknown", str(error))]
    return [
        _row(
            str(one.get("name", "")),
            "ok" if one.get("ok") else "error",
            str(one.get("text", "")),
            failed=not one.get("ok"),
        )
        for one in found
    ]


def _pods(api: Api, given: Common) -> list[Json]:
    namespace = "" if given.everywhere or not given.access.namespace else api.namespace
    where = f"namespace {namespace}" if namespace else "all namespaces"
    try:
        found = [of_pods.row_of(pod) for pod in of_pods.pods_of(api, given.scheduler, namespace)]
    except NotAllowed as error:
        if namespace:
            return [_row("Pods", "unknown", str(error))]
        where = f"namespace {api.namespace}, since all may not be listed"
        try:
            found = [of_pods.row_of(pod) for pod in of_pods.pods_of(api, given.scheduler, api.namespace)]
        except NotAllowed as second:
            return [_row("Pods", "unknown", str(second))]
    states = Counter(row["state"] for row in found)
    causes = Counter(row["reason"] or "no reason yet" for row in found if row["state"] == "Waiting")
    return [
        _row("Pods", f"{len(found)}", f"{where}: " + (_counted(states) or "none")),
        _row("waiting", f"{states['Waiting']}", _counted(causes)),
    ]


def _nodes(api: Api) -> list[Json]:
    try:
        found = [of_nodes.row_of(node) for node in of_nodes.nodes_of(api)]
    except NotAllowed as error:
        return [_row("Nodes", "unknown", str(error))]
    words = Counter(row["slurm"] or "not reported by Slurm" for row in found)
    words["cordoned"] += sum(row["cordoned"] for row in found)
    return [_row("Nodes", f"{len(found)}", _counted(words))]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if count)
