"""Is any node large enough, empty as it may be? And which size comes nearest to what is asked.

Two counts decide: Slurm's, of what its nodes are configured to have (`_build_node_list` in `node_scheduler.c`, which
counts what is reserved for the system too), and kubelet's, of what its Node may give to Pods. What is not known of a
node speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from extender.domain import quantity
from extender.domain.cluster import SlurmNode
from extender.domain.jobs.job import JobRequest
from extender.domain.placing.fit import sized, unit
from extender.domain.pods.requests import pod_requests
from extender.domain.translation.gres import asked_gres
from extender.domain.views import NodeView, PodView

Amounts = Mapping[str, int]

CPUS, MEMORY = "CPUs", "MiB of memory"


def of_job(request: JobRequest) -> Amounts:
    """What a job asks of each of its nodes."""
    gres = asked_gres(request.tres_per_node) if request.tres_per_node else request.gres
    return {CPUS: request.cpus, MEMORY: request.memory_mb} | dict(gres)


def of_slurm(node: SlurmNode) -> Amounts | None:
    """What a node has for Slurm, GRES by name and by type; `None`: not known."""
    if not node.cpus:
        return None
    has = {CPUS: node.cpus, MEMORY: node.memory_mb}
    for full, count in node.gres.items():
        for name in {full, full.partition(":")[0]}:
            has[name] = has.get(name, 0) + count
    return has


def of_pod(pod: PodView, on_no_node: Callable[[str], bool]) -> Amounts:
    """What a Pod asks of its Node, in kubelet's units; nothing, if unreadable. `on_no_node`: what is on no node."""
    try:
        return {name: amount for name, amount in sized(pod_requests(pod)).items() if not on_no_node(name)}
    except ValueError:
        return {}


UNKNOWN = 2**200
"""More than anybody asks for: what is not known speaks for the node."""


def of_kubelet(node: NodeView, names: Iterable[str]) -> dict[str, int]:
    """What a Node may give to Pods of these resources; of all of them `UNKNOWN` where it has not said anything yet."""
    if not node.allocatable:
        return dict.fromkeys(names, UNKNOWN)
    return {name: _given(node, name) for name in names}


def _given(node: NodeView, name: str) -> int:
    try:
        return sized({name: quantity.parse(node.allocatable.get(name, "0"))})[name]
    except ValueError:
        return UNKNOWN


def lacks(asked: Amounts, has: Amounts) -> list[str]:
    """The names of what is too little, even where nobody else is."""
    return [name for name, amount in asked.items() if amount > max(0, has.get(name, 0))]


def nearest(asked: Amounts, offers: Mapping[str, Amounts]) -> str:
    """Which of these comes nearest, and what it is too small in, as a clause. `offers` by the name of the node."""

    def distance(name: str) -> tuple[int, float, str]:
        has = offers[name]
        missing = lacks(asked, has)
        return len(missing), sum(1 - has.get(one, 0) / asked[one] for one in missing), name

    best = min(offers, key=distance)
    has = offers[best]
    missing = "; ".join(_lacked(name, asked[name], has.get(name, 0), offers.values()) for name in lacks(asked, has))
    return f"nearest is {best}: {missing}"


def _lacked(name: str, amount: int, has: int, offers: Iterable[Amounts]) -> str:
    most = max(offer.get(name, 0) for offer in offers)
    kind, typed, _ = name.partition(":")
    said = f"{amount}{unit(name)} of {name} asked" if name not in {CPUS, MEMORY} else f"{amount} {name} asked"
    said += f", it has {has}{unit(name)}" + (f" (the most is {most}{unit(name)})" if most > has else "")
    if not most and typed:
        there = sorted({one for offer in offers for one in offer if one.startswith(f"{kind}:")})
        said += f"; no such node, there are {', '.join(there) or 'none of its kind'}"
    return said
