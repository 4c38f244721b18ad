"""Pods and Nodes as short as a test can say them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extender.domain.views import Container, HostPort, NodeTerm, NodeView, PodView, Requirement


def a_pod(cpu: str = "1", memory: str = "1Gi", more: dict[str, str] | None = None, **fields: Any) -> PodView:
    """Return a Pod with one container that requests this much; "" omits the request. `fields`: those of `PodView`."""
    requests = {name: size for name, size in (("cpu", cpu), ("memory", memory)) if size}
    pod = PodView(
        uid="uid-web",
        namespace="team",
        name="web",
        created_at=1_000_000.0,
        containers=(Container("main", requests=requests | (more or {})),),
    )
    return replace(pod, **fields)


def on_port(port: int, protocol: str = "TCP", ip: str = "", **fields: Any) -> PodView:
    """Return a Pod that requests one port of its machine."""
    pod = a_pod(**fields)
    return replace(pod, containers=(replace(pod.containers[0], host_ports=(HostPort(port, protocol, ip),)),))


def term(**values: tuple[str, ...]) -> NodeTerm:
    """Return a node selector term that wants each label `In` its values; `gpu_class` is `gpu.nvidia.com/class`, etc."""
    labels = {"gpu_class": "gpu.nvidia.com/class", "gpu_model": "gpu.nvidia.com/model"}
    return NodeTerm(tuple(Requirement(labels.get(key, key), "In", wanted) for key, wanted in values.items()))


def a_node(name: str = "k1", cpu: str = "8", memory: str = "32Gi", pods: str = "110", **fields: Any) -> NodeView:
    """Return a Ready Node. `more` in `fields` adds to its allocatable resources."""
    more = fields.pop("more", {})
    return replace(
        NodeView(name, allocatable={"cpu": cpu, "memory": memory, "pods": pods} | more, ready=True), **fields
    )
