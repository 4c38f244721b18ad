"""Count resources as kubelet does before it starts a Pod (`pkg/kubelet/lifecycle/predicate.go`,
`noderesources/fit.go`), from objects in the API server.

Written apart from the extender's own sums, in fractions and from JSON, so that one can be held against the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil
from typing import Any

from simulator.kube.objects import Json

_SCALES = {
    **{name + "i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)},
    **{name: Fraction(1000) ** power for power, name in enumerate("kMGTPE", 1)},
    **{name: Fraction(1, 1000) ** power for power, name in enumerate("mun", 1)},
}

FOR_THE_WHOLE_POD = ("cpu", "memory", "hugepages-")
"""The resources that `spec.resources` may request (KEP-2837)."""


def exceeded_resources(node: Json, pods: Iterable[Json]) -> list[str]:
    """Return the resources of which these Pods together request more than is allocatable; `pods` is their number."""
    there = list(pods)
    totals: dict[str, int] = {"pods": len(there)}
    for pod in there:
        for name, amount in requested(pod).items():
            # kubelet keeps thousandths of CPUs and whole units of all else, rounded up for each Pod.
            totals[name] = totals.get(name, 0) + ceil(amount * 1000 if name == "cpu" else amount)
    has = {name: quantity(text) for name, text in node["status"]["allocatable"].items()}
    exceeded = []
    for name, total in sorted(totals.items()):
        most = has.get(name, Fraction(0)) * (1000 if name == "cpu" else 1)
        if total > most:
            exceeded.append(f"{name}: {total} of {most}")
    return exceeded


def requested(pod: Json) -> dict[str, Fraction]:
    """Return what one Pod requests while it starts or runs, whichever is more, and its overhead."""
    spec = pod["spec"]
    beside: dict[str, Fraction] = {}
    """Sidecars that run already."""

    most: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        needs = _of_container(container)
        together = _sum(beside, needs)
        most = _max(most, together)
        if container.get("restartPolicy") == "Always":
            beside = together
    running = beside
    for container in spec["containers"]:
        running = _sum(running, _of_container(container))
    total = _max(most, running)
    whole = (spec.get("resources") or {}).get("requests") or {}
    total |= {name: quantity(text) for name, text in whole.items() if name.startswith(FOR_THE_WHOLE_POD)}
    return _sum(total, {name: quantity(text) for name, text in (spec.get("overhead") or {}).items()})


def quantity(text: str) -> Fraction:
    """Parse `500m`, `1.5Gi`, `2e3`."""
    for suffix, scale in _SCALES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * scale
    return Fraction(text)


def _of_container(container: Json) -> dict[str, Fraction]:
    resources: dict[str, Any] = container.get("resources") or {}
    amounts = (resources.get("limits") or {}) | (resources.get("requests") or {})
    return {name: quantity(text) for name, text in amounts.items()}


def _sum(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in one.keys() | other.keys()}


def _max(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in one.keys() | other.keys()}
