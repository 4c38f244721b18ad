"""How the extender is: who leads, what its checks say, and how many Pods wait for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from extender.kubectl import nodes as of_nodes
from extender.kubectl import pods as of_pods
from extender.kubectl.api import Api, Away, NotAllowed, NotThere
from extender.kubectl.debug import Debug, Unreached
from extender.kubectl.flags import Common

Json = dict[str, Any]


def leader_of(api: Api, namespace: str, lease: str) -> Callable[[], str]:
    """Asks for the name of the Pod that leads; "" where nobody does, or that may not be read."""

    def ask() -> str:
        try:
            found = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}")
        except (NotThere, NotAllowed, Away):
            return ""
        holder: str = (found.get("spec") or {}).get("holderIdentity") or ""
        return holder.rpartition("_")[0] or holder

    return ask


def rows(api: Api, debug: Debug, given: Common) -> list[Json]:
    """One for each thing that is looked at; `bad` where somebody has to do something."""
    return [*_leader(api, given), *_checks(debug), *_pods(api, given), *_nodes(api)]


def instant(seconds: float) -> str:
    """For people."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _row(name: str, said: str, more: str = "", *, bad: bool = False) -> Json:
    return {"name": name, "is": said, "more": more, "bad": bad}


def _leader(api: Api, given: Common) -> list[Json]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{given.extender_namespace}/leases/{given.lease}"
    try:
        spec = api.get(path).get("spec") or {}
    except NotThere:
        where = f"{given.extender_namespace}/{given.lease}"
        return [_row("leader", "unknown", f"there is no Lease {where}; a single replica has none")]
    except (NotAllowed, Away) as error:
        return [_row("leader", "unknown", str(error))]
    holder = spec.get("holderIdentity") or ""
    if not holder:
        return [_row("leader", "nobody", "no replica leads now", bad=True)]
    return [_row("leader", holder.rpartition("_")[0] or holder, f"renewed at {spec.get('renewTime', 'no time')}")]


def _checks(debug: Debug) -> list[Json]:
    try:
        found = debug.get("checks") or []
    except Unreached as error:
        return [_row("checks", "unknown", str(error))]
    return [_row(one["name"], "ok" if one["ok"] else "wrong", one["text"], bad=not one["ok"]) for one in found]


def _pods(api: Api, given: Common) -> list[Json]:
    namespace = "" if given.everywhere or not given.access.namespace else api.namespace
    where = f"namespace {namespace}" if namespace else "all namespaces"
    try:
        found = [of_pods.row_of(pod) for pod in of_pods.pods_of(api, given.scheduler, namespace)]
    except NotAllowed as error:
        if namespace:
            return [_row("Pods", "unknown", str(error))]
        where = f"namespace {api.namespace}, since all may not be listed"
        found = [of_pods.row_of(pod) for pod in of_pods.pods_of(api, given.scheduler, api.namespace)]
    states = Counter(row["state"] for row in found)
    causes = Counter(row["cause"] or "not said yet" for row in found if row["state"] == "Waiting")
    return [
        _row("Pods", f"{len(found)}", f"{where}: " + (_counted(states) or "none")),
        _row("waiting", f"{states['Waiting']}", _counted(causes)),
    ]


def _nodes(api: Api) -> list[Json]:
    try:
        found = [of_nodes.row_of(node) for node in of_nodes.nodes_of(api)]
    except NotAllowed as error:
        return [_row("Nodes", "unknown", str(error))]
    words = Counter(row["slurm"] or "no word of Slurm" for row in found)
    words["cordoned"] += sum(row["cordoned"] for row in found)
    return [_row("Nodes", f"{len(found)}", _counted(words))]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()) if count)
