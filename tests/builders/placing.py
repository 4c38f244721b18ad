"""Random Nodes, and random Pods that are choosy about them in every way that kube-scheduler knows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

KEYS = ("zone", "model", "size", "example.com/tier")
VALUES = {
    "zone": ("a", "b", "c"),
    "model": ("h100", "a100", ""),
    "size": ("0", "1", "2", "8", "010", "big"),
    "example.com/tier": ("x", "y"),
}
TAINTS = ("team", "example.com/only", "maintenance")
TAINT_VALUES = ("", "blue", "red")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def a_random_node(rng: random.Random, name: str) -> Json:
    """Return a Node as the API server accepts it: labels, taints, a cordon now and then."""
    labels = {key: rng.choice(VALUES[key]) for key in KEYS if rng.random() < 0.6}
    taints = {
        (key, effect): {"key": key, "effect": effect} | ({"value": value} if value else {})
        for key, effect, value in (
            (rng.choice(TAINTS), rng.choice(EFFECTS), rng.choice(TAINT_VALUES))
            for _ in range(rng.choice((0, 0, 1, 1, 2)))
        )
    }
    spec: Json = {"taints": list(taints.values())}
    if rng.random() < 0.15:
        spec["unschedulable"] = True
    return {"metadata": {"name": name, "labels": labels | {"kubernetes.io/hostname": name}}, "spec": spec}


def a_random_pod(rng: random.Random, name: str, nodes: list[str]) -> Json:
    """Return a Pod with any mixture of selector, required affinity and tolerations; most have some node left."""
    spec: Json = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "slurm"}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {key: rng.choice(VALUES[key]) for key in rng.sample(KEYS, rng.choice((1, 1, 2)))}
    if rng.random() < 0.6:
        terms = [_term(rng, nodes) for _ in range(rng.choice((1, 1, 2, 3)))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    if rng.random() < 0.8:
        spec["tolerations"] = [_toleration(rng) for _ in range(rng.choice((1, 2, 3)))]
    return {"metadata": {"name": name, "labels": {"app": rng.choice("abc")}}, "spec": spec}


def _term(rng: random.Random, nodes: list[str]) -> Json:
    term: Json = {}
    if rng.random() < 0.85:
        term["matchExpressions"] = [_expression(rng) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.25:
        field = {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [rng.choice(nodes)]}
        term["matchFields"] = [field]
    return term


def _expression(rng: random.Random) -> Json:
    key = rng.choice(KEYS)
    values: dict[str, Callable[[], list[str]]] = {
        "In": lambda: rng.sample(VALUES[key], rng.choice((1, 2))),
        "NotIn": lambda: rng.sample(VALUES[key], rng.choice((1, 2))),
        "Exists": list,
        "DoesNotExist": list,
        "Gt": lambda: [rng.choice(("0", "1", "7", "08"))],
        "Lt": lambda: [rng.choice(("1", "2", "9", "011"))],
    }
    operator = rng.choice(list(values))
    if operator in {"Gt", "Lt"} and rng.random() < 0.7:
        key = "size"
    given = values[operator]()
    return {"key": key, "operator": operator} | ({"values": given} if given else {})


def _toleration(rng: random.Random) -> Json:
    if rng.random() < 0.15:
        return {"operator": "Exists"} | ({"effect": rng.choice(EFFECTS)} if rng.random() < 0.5 else {})
    toleration: Json = {"key": rng.choice((*TAINTS, *TAINTS, UNSCHEDULABLE))}
    if rng.random() < 0.5:
        toleration["operator"] = "Exists"
    else:
        if rng.random() < 0.5:
            toleration["operator"] = "Equal"
        if value := rng.choice(TAINT_VALUES):
            toleration["value"] = value
    if rng.random() < 0.5:
        toleration["effect"] = rng.choice(EFFECTS)
    return toleration
