"""Reads a Node into a `NodeView`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.views import NodeView, Taint
from extender.kube.wire.fields import NOTHING, Fields, parsed
from extender.kube.wire.meta import annotations_of


def read_node(obj: Mapping[str, Any] | bytes | str) -> NodeView:
    """Read a Node from its JSON, parsed or not. Raises MalformedObject."""
    node = parsed("Node", obj) if isinstance(obj, bytes | str) else Fields("Node", obj)
    meta, spec, status = node.inner("metadata"), node.inner("spec"), node.inner("status")
    conditions = status.each("conditions")
    ready = next((one for one in conditions if one.text("type") == "Ready"), NOTHING)
    return NodeView(
        name=meta.text("name"),
        uid=meta.text("uid"),
        resource_version=meta.text("resourceVersion"),
        labels=meta.strings("labels"),
        annotations=annotations_of(meta),
        unschedulable=spec.flag("unschedulable"),
        taints=tuple(Taint(one.text("key"), one.text("effect"), one.text("value")) for one in spec.each("taints")),
        internal_ip=next(
            (one.text("address") for one in status.each("addresses") if one.text("type") == "InternalIP"), ""
        ),
        allocatable=status.strings("allocatable"),
        cpus=status.strings("capacity").get("cpu", ""),
        conditions={one.text("type"): one.text("status") for one in conditions},
        ready={"True": True, "False": False}.get(ready.text("status")),
        heartbeat=ready.instant("lastHeartbeatTime") or 0.0,
    )
