"""Nodes: from JSON to `NodeView`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from extender.domain.views import NodeView, Taint
from extender.kube.wire.meta import MetaWire, OddObject, StringMap, Wire, annotations_of, explain, seconds


class TaintWire(Wire):
    """`spec.taints[]`."""

    key: str = ""
    effect: str = ""
    value: str | None = None


class NodeSpecWire(Wire):
    """`spec`."""

    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class ConditionWire(Wire):
    """`status.conditions[]`."""

    type: str = ""
    status: str = ""
    last_heartbeat_time: datetime | None = None


class AddressWire(Wire):
    """`status.addresses[]`."""

    type: str = ""
    address: str = ""


class NodeStatusWire(Wire):
    """`status`."""

    addresses: list[AddressWire] | None = None
    allocatable: StringMap | None = None
    conditions: list[ConditionWire] | None = None


class NodeWire(Wire):
    """A Node."""

    metadata: MetaWire = MetaWire()
    spec: NodeSpecWire = NodeSpecWire()
    status: NodeStatusWire = NodeStatusWire()

    def view(self) -> NodeView:
        """The same as a value of the domain."""
        meta, ready = self.metadata, _ready(self.status.conditions)
        return NodeView(
            name=meta.name or "",
            uid=meta.uid or "",
            resource_version=meta.resource_version or "",
            labels=meta.labels or {},
            annotations=annotations_of(meta),
            unschedulable=bool(self.spec.unschedulable),
            taints=tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in self.spec.taints or ()),
            internal_ip=next((one.address for one in self.status.addresses or () if one.type == "InternalIP"), ""),
            allocatable=self.status.allocatable or {},
            conditions={each.type: each.status for each in self.status.conditions or ()},
            ready=None if ready is None else {"True": True, "False": False}.get(ready.status),
            heartbeat=(seconds(ready.last_heartbeat_time) or 0.0) if ready else 0.0,
        )


def read_node(obj: Mapping[str, Any] | bytes | str) -> NodeView:
    """A Node from its JSON, parsed or not. Raises OddObject."""
    try:
        if isinstance(obj, bytes | str):
            return NodeWire.model_validate_json(obj).view()
        return NodeWire.model_validate(obj).view()
    except ValidationError as error:
        raise OddObject(f"not a Node: {explain(error)}") from error


def _ready(conditions: list[ConditionWire] | None) -> ConditionWire | None:
    return next((condition for condition in conditions or () if condition.type == "Ready"), None)
