"""A Node's JSON becomes a NodeView."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.views import NodeView, Taint
from extender.domain.wellknown import BRIDGE_SLURM_NODE, SLURM_NODE
from extender.kube.wire.fields import MalformedObject
from extender.kube.wire.node import read_node


def a_node(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "node-1", "uid": "u"}} | parts


def test_every_field_is_read() -> None:
    node = {
        "metadata": {
            "name": "node-1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"zone": "a"},
            "annotations": {"x": "y"},
        },
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoExecute"}],
        },
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "n"},
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::1"},
            ],
            "allocatable": {"cpu": "64", "memory": "500Gi", "pods": 110},
            "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    }
    assert read_node(node) == NodeView(
        name="node-1",
        uid="u",
        resource_version="7",
        labels={"zone": "a"},
        annotations={"x": "y"},
        unschedulable=True,
        taints=(Taint("gpu", "NoSchedule"), Taint("k", "NoExecute", "v")),
        allocatable={"cpu": "64", "memory": "500Gi", "pods": "110"},
        internal_ip="10.0.0.1",
        conditions={"DiskPressure": "False", "Ready": "True"},
        ready=True,
    )


@pytest.mark.parametrize(("word", "ready"), [("True", True), ("False", False), ("Unknown", None)])
def test_readiness_has_three_values(word: str, ready: bool | None) -> None:
    assert read_node(a_node(status={"conditions": [{"type": "Ready", "status": word}]})).ready is ready


def test_a_node_that_never_reported_has_no_readiness() -> None:
    assert read_node(a_node(status={"conditions": None})).ready is None


def test_an_odd_node_is_named() -> None:
    with pytest.raises(MalformedObject, match=r"not a Node: spec\.taints"):
        read_node(a_node(spec={"taints": "all"}))


def test_of_a_long_annotation_that_the_extender_does_not_read_only_the_key_is_kept() -> None:
    applied, own, bridge = "kubectl.kubernetes.io/last-applied-configuration", SLURM_NODE, BRIDGE_SLURM_NODE
    said = {applied: "x" * 10_000, own: "n" * 300, bridge: "m" * 300, "team": "blue"}
    view = read_node({"metadata": {"name": "n1", "annotations": said}})
    assert view.annotations == {**said, applied: ""}
