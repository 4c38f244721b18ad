"""kube-scheduler's two calls. Both are answered from memory; only `/bind` waits, for one request to the API server.

`/filter` runs inside the one scheduling goroutine of kube-scheduler, so every millisecond here is one of the whole
cluster's. Waiting Pods are filtered repeatedly, so their text must not change while nothing else does.

`controllers.scheduling` decides; `domain.verdict` has the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import APIRouter

from extender.domain.events import MemberRef
from extender.domain.ports import Clock
from extender.domain.verdict import NOT_OFFERED_TEXT, FilterVerdict, Pass, Place, Unready, Wait
from extender.http.go_route import go_route
from extender.http.schemas import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    NodeList,
)
from extender.http.service import CurrentServices
from extender.observability.metrics.registry import Metrics

_log = structlog.get_logger(__name__)

PREFIX = "/scheduler"


def router(services: CurrentServices, metrics: Metrics, clock: Clock, max_body: int) -> APIRouter:
    """Return the routes that an entry of `KubeSchedulerConfiguration.extenders` names. `max_body` is in bytes."""
    routes = APIRouter(prefix=PREFIX, route_class=go_route(max_body, clock), tags=["kube-scheduler"])

    @routes.post("/filter", operation_id="filter")
    async def filter_nodes(args: ExtenderArgs) -> ExtenderFilterResult:
        """Return which of these nodes the Pod may use."""
        began = clock.now()
        pod = args.pod
        if not (pod.uid and pod.namespace and pod.name):
            return ExtenderFilterResult(error="malformed request: Pod.metadata needs uid, namespace and name")
        names, unnamed = offered(args)
        if unnamed:
            return ExtenderFilterResult(error=f"malformed request: {unnamed} of Nodes.items have no metadata.name")
        # A nominated Pod is first tried with that one node, and with the full list afterwards (evaluateNominatedNode).
        tried_out = bool(pod.nominated_node) and names == [pod.nominated_node]
        verdict = services.scheduling.offer(pod, names, full=not tried_out)
        metrics.filtered(type(verdict).__name__, clock.now() - began)
        return answer(args, names, verdict)

    @routes.post("/bind", operation_id="bind")
    async def bind_pod(args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Bind the Pod to this node."""
        began = clock.now()
        if not (args.pod_uid and args.pod_namespace and args.pod_name and args.node):
            return ExtenderBindingResult(error="malformed request: PodName, PodNamespace, PodUID and Node are required")
        if not services.scheduling.ready:
            return ExtenderBindingResult(error="the extender has not read the cluster's state yet")
        error = await services.scheduling.bind(MemberRef(args.pod_uid, args.pod_namespace, args.pod_name), args.node)
        metrics.bound(not error, clock.now() - began)
        return ExtenderBindingResult(error=error)

    return routes


def offered(args: ExtenderArgs) -> tuple[list[str], int]:
    """Return the names of the nodes in question, and how many of them came without one."""
    if args.node_names is not None:
        return args.node_names, 0
    items = (args.nodes.items or []) if args.nodes else []
    names = [name for item in items if (name := _name(item))]
    return names, len(items) - len(names)


def answer(args: ExtenderArgs, names: Sequence[str], verdict: FilterVerdict) -> ExtenderFilterResult:
    """Return the verdict in kube-scheduler's form. No name leaves that did not come: it would fail the whole call."""
    match verdict:
        case Pass(nodes):
            allowed = set(nodes)
            return _staying(args, [name for name in names if name in allowed])
        case Place(node) if node in names:
            return _staying(args, [node])
        case Place(node):
            _log.error("node_not_offered", pod=args.pod.full_name, uid=args.pod.uid, node=node)
            return _rejection(args, names, NOT_OFFERED_TEXT)
        case Wait(text):
            return _rejection(args, names, text)
        case Unready(text):
            return ExtenderFilterResult(error=text)


def _rejection(args: ExtenderArgs, names: Sequence[str], text: str) -> ExtenderFilterResult:
    # One entry carries the reason to the Pod's condition; a node in no map counts as unresolvable without a text.
    staying = _staying(args, [])
    return staying.model_copy(update={"failed_and_unresolvable_nodes": dict.fromkeys(names[:1], text)})


def _staying(args: ExtenderArgs, names: list[str]) -> ExtenderFilterResult:
    """Return the nodes in the form of the request: names with `nodeCacheCapable`, else whole Nodes."""
    if args.node_names is not None or args.nodes is None:
        return ExtenderFilterResult(node_names=names)
    wanted = set(names)
    return ExtenderFilterResult(nodes=NodeList(items=[one for one in args.nodes.items or [] if _name(one) in wanted]))


def _name(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
