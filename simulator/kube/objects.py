"""Kubernetes objects as JSON, and builders for those that simulations and tests need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]


def timestamp(seconds: float) -> str:
    """Return a `metav1.Time`: RFC 3339 with whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> float:
    """Return seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def a_pod(
    name: str,
    namespace: str = "default",
    *,
    scheduler: str = "slurm",
    cpu: str = "1",
    memory: str = "1Gi",
    gpus: int = 0,
    gates: Sequence[str] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    node: str = "",
    node_selector: Mapping[str, str] | None = None,
    grace_s: int = 30,
    more: Mapping[str, str] | None = None,
    spec_more: Mapping[str, Any] | None = None,
) -> Json:
    """Return a Pod with one container, ready to be created. `owner` is a controlling owner reference.

    `more` are further resources that its container requests, `spec_more` further fields of its spec.
    """
    resources = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}) | dict(more or {})
    spec: Json = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": grace_s,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": resources, "limits": resources}}],
    }
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if node:
        spec["nodeName"] = node
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    spec |= spec_more or {}
    meta: Json = {"name": name, "namespace": namespace}
    if annotations:
        meta["annotations"] = dict(annotations)
    if labels:
        meta["labels"] = dict(labels)
    if owner:
        meta["ownerReferences"] = [dict(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def a_node(
    name: str,
    *,
    cpu: str = "64",
    memory: str = "500Gi",
    gpus: int = 0,
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    ready: bool = True,
    more: Mapping[str, str] | None = None,
    address: str = "10.0.0.1",
) -> Json:
    """Return a Node with its status, ready to be created. `more` are further resources that it has."""
    capacity = {"cpu": cpu, "memory": memory, "pods": pods} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    capacity |= more or {}
    meta: Json = {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})}
    if annotations:
        meta["annotations"] = dict(annotations)
    spec: Json = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    status = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False", "reason": "Kubelet"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def owner_reference(obj: Json) -> Json:
    """Return the reference by which `obj`, once created, controls another object."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def set_condition(status: Json, condition: Json, now: float) -> None:
    """Add or replace the condition of that type; the transition time moves only with the status word."""
    conditions = [dict(old) for old in status.get("conditions") or ()]
    old = next((old for old in conditions if old["type"] == condition["type"]), None)
    new = {"lastTransitionTime": timestamp(now)} | condition
    if old is None:
        conditions.append(new)
    else:
        if old.get("status") == condition["status"] and "lastTransitionTime" not in condition:
            new["lastTransitionTime"] = old.get("lastTransitionTime", new["lastTransitionTime"])
        conditions[conditions.index(old)] = new
    status["conditions"] = conditions
