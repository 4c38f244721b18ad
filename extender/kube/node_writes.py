"""Write on Nodes. Implements `ports.KubeNodes`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import structlog
from pydantic_core import from_json

from extender.domain import wellknown
from extender.domain.nodes.marks import NodePatch, Report
from extender.domain.ports import Clock, KubeNodes
from extender.domain.timestamp import timestamp
from extender.domain.views import NodeView, Taint
from extender.kube.connection import JSON_PATCH, STRATEGIC_PATCH, ApiConnection
from extender.kube.errors import ApiError, Conflict, Invalid, NotFound
from extender.runtime.log_throttle import LogThrottle

_log = structlog.get_logger(__name__)

MANAGER = "slurm-extender-node-marks"
"""The name that the API server records for each field that the extender sets (`metadata.managedFields`)."""


class NodeWriter:
    """Implements `ports.KubeNodes`. One request each, which is not repeated here: the next look at the Node is.

    While writes are refused every Node is tried again and again: each kind of trouble is one line now and then.
    """

    def __init__(self, connection: ApiConnection, *, clock: Clock, timeout_s: float = 5.0) -> None:
        self._connection = connection
        self._clock = clock
        self._timeout_s = timeout_s
        self._log_throttle = LogThrottle(clock)

    async def report(self, node: NodeView, report: Report) -> bool:
        """PATCH the status, which takes annotations too (`registry/core/node/strategy.go` keeps the spec alone)."""
        now = timestamp(self._clock.wall())
        condition = {
            "type": wellknown.SLURM_AVAILABLE_CONDITION,
            "status": str(not report.unavailable),
            "reason": report.reason,
            "message": report.text,
            "lastHeartbeatTime": now,
        }
        if report.turned:
            condition["lastTransitionTime"] = now
        body = {
            "metadata": {"uid": node.uid, "annotations": {wellknown.UNAVAILABLE_REASON: report.note}},
            "status": {"conditions": [condition]},
        }
        return await self._sent(node, "/status", body, STRATEGIC_PATCH)

    async def mark(self, node: NodeView, change: NodePatch) -> bool:
        """PATCH all of it at once, if the Node did not change since: taints and cordons of others are kept.

        Operations, since a merge would replace the list of taints as a whole, and with it fields that are not read
        here.
        """
        if change.unschedulable is False:
            own = await self._has_own_cordon(node)
            if own is None:
                return False
            if not own:
                _log.info("cordon_adopted_by_others", node=node.name)
                change = replace(change, unschedulable=None)
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": node.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": node.resource_version},
            *_taints(node, change),
            *_cordon(change),
            *_annotations(node, change),
        ]
        return await self._sent(node, "", operations, JSON_PATCH)

    async def _has_own_cordon(self, node: NodeView) -> bool | None:
        """Return whether the cordon is still the extender's, by its last author. `None`: not known now."""
        try:
            answer = await self._connection.request("GET", f"/api/v1/nodes/{node.name}", timeout_s=self._timeout_s)
            found = from_json(answer.body)["metadata"].get("managedFields")
            if found is not None and not isinstance(found, list):
                raise TypeError("metadata.managedFields is no list")
            owners = {
                each.get("manager")
                for each in found or ()
                if "f:unschedulable" in ((each.get("fieldsV1") or {}).get("f:spec") or {})
            }
        except (ApiError, ValueError, LookupError, AttributeError, TypeError) as error:
            self._not_marked(node, error)
            return None
        return MANAGER in owners or not found

    async def _sent(self, node: NodeView, part: str, body: Any, content_type: str) -> bool:
        path = f"/api/v1/nodes/{node.name}{part}"
        try:
            await self._connection.request(
                "PATCH",
                path,
                query={"fieldManager": MANAGER},
                body=body,
                content_type=content_type,
                timeout_s=self._timeout_s,
            )
        except (Conflict, Invalid, NotFound) as error:
            if times := self._log_throttle.times(f"changed {type(error).__name__}"):
                _log.info("node_write_conflict", node=node.name, error=str(error), times=times)
            return False
        except ApiError as error:
            self._not_marked(node, error)
            return False
        return True

    def _not_marked(self, node: NodeView, error: Exception) -> None:
        """Log a failed write by the kind of its error: a refusal after an outage differs from the outage."""
        if times := self._log_throttle.times(f"not marked {type(error).__name__}"):
            _log.warning("node_not_marked", node=node.name, error=str(error), times=times)


def _taints(node: NodeView, change: NodePatch) -> list[dict[str, Any]]:
    places = [place for place, taint in enumerate(node.taints) if taint in change.remove]
    operations: list[dict[str, Any]] = [{"op": "remove", "path": f"/spec/taints/{place}"} for place in reversed(places)]
    if change.add and not node.taints:
        return [{"op": "add", "path": "/spec/taints", "value": [_taint(taint) for taint in change.add]}]
    return operations + [{"op": "add", "path": "/spec/taints/-", "value": _taint(taint)} for taint in change.add]


def _cordon(change: NodePatch) -> list[dict[str, Any]]:
    if change.unschedulable is None:
        return []
    if change.unschedulable:
        return [{"op": "add", "path": "/spec/unschedulable", "value": True}]
    return [{"op": "remove", "path": "/spec/unschedulable"}]


def _annotations(node: NodeView, change: NodePatch) -> list[dict[str, Any]]:
    wanted = {key: value for key, value in change.annotations.items() if value is not None}
    if wanted and not node.annotations:
        return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
    operations: list[dict[str, Any]] = []
    for key, value in change.annotations.items():
        path = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
        if value is not None:
            operations.append({"op": "add", "path": path, "value": value})
        elif key in node.annotations:
            operations.append({"op": "remove", "path": path})
    return operations


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "effect": taint.effect, "value": taint.value}


_NODE_WRITER_IS_KUBE_NODES: type[KubeNodes] = NodeWriter
