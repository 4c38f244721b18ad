"""Find out whether any node is large enough when empty, and which one is closest to the request.

Two counts decide: the configured size in Slurm (`_build_node_list` in `node_scheduler.c`, which counts the system's
reserved part too), and kubelet's allocatable. A size that is not known counts as large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from extender.domain import quantity
from extender.domain.cluster import SlurmNode
from extender.domain.jobs.job import JobRequest
from extender.domain.placing.fit import sized, unit
from extender.domain.pods.requests import pod_requests
from extender.domain.translation.gres import requested_gres
from extender.domain.views import NodeView, PodView

Amounts = Mapping[str, int]

CPUS, MEMORY = "CPUs", "MiB of memory"


def of_job(request: JobRequest) -> Amounts:
    """Return the request of a job on each of its nodes."""
    gres = requested_gres(request.tres_per_node) if request.tres_per_node else request.gres
    return {CPUS: request.cpus, MEMORY: request.memory_mb} | dict(gres)


def of_slurm(node: SlurmNode) -> Amounts | None:
    """Return the size of a node in Slurm, GRES by name and by type; `None`: not known."""
    if not node.cpus:
        return None
    has = {CPUS: node.cpus, MEMORY: node.memory_mb}
    for full, count in node.gres.items():
        for name in {full, full.partition(":")[0]}:
            has[name] = has.get(name, 0) + count
    return has


def of_pod(pod: PodView, on_no_node: Callable[[str], bool]) -> Amounts:
    """Return the requests of a Pod in kubelet's units; empty: unreadable. `on_no_node`: resources that no node has."""
    try:
        return {name: amount for name, amount in sized(pod_requests(pod)).items() if not on_no_node(name)}
    except ValueError:
        return {}


UNKNOWN = 2**200
"""More than any request: a size that is not known counts as large enough."""


def of_kubelet(node: NodeView, names: Iterable[str]) -> dict[str, int]:
    """Return the allocatable amounts of these resources; `UNKNOWN` for all if the Node has not reported any yet."""
    if not node.allocatable:
        return dict.fromkeys(names, UNKNOWN)
    return {name: _given(node, name) for name in names}


def _given(node: NodeView, name: str) -> int:
    try:
        return sized({name: quantity.parse(node.allocatable.get(name, "0"))})[name]
    except ValueError:
        return UNKNOWN


def lacks(requested: Amounts, has: Amounts) -> list[str]:
    """Return the resources of which there is too little even if nothing else runs there."""
    return [name for name, amount in requested.items() if amount > max(0, has.get(name, 0))]


def times(requested: Amounts, has: Amounts) -> int:
    """Return how many times a request fits if nothing else runs there."""
    return min((max(0, has.get(name, 0)) // amount for name, amount in requested.items() if amount > 0), default=0)


def closest(kind: str, requested: Amounts, offers: Mapping[str, Amounts]) -> str:
    """Return a sentence with the closest node and what it has too little of. `offers`: by the name of the node.

    `kind` is "Node" or "Slurm node".
    """

    def distance(name: str) -> tuple[int, float, str]:
        has = offers[name]
        missing = lacks(requested, has)
        return len(missing), sum(1 - has.get(one, 0) / requested[one] for one in missing), name

    best = min(offers, key=distance)
    has = offers[best]
    missing = [_lacked(name, requested[name], has.get(name, 0), offers.values()) for name in lacks(requested, has)]
    return f"Closest is {kind} {best} with {' and '.join(missing)}."


def _lacked(name: str, amount: int, has: int, offers: Iterable[Amounts]) -> str:
    most = max((size for offer in offers if (size := offer.get(name, 0)) != UNKNOWN), default=0)
    kind, typed, _ = name.partition(":")
    text = f"{has}{unit(name)} of {amount}{unit(name)} requested {name}"
    if most > has:
        return f"{text} (largest: {most}{unit(name)})"
    if most or not typed:
        return text
    types = sorted({one for offer in offers for one in offer if one.startswith(f"{kind}:")})
    return f"{text} (available types: {', '.join(types) or 'none'})"
