"""Find nodes that are too small for a Pod, once for each size as long as the nodes do not change.

A job is told to avoid those whose Node is too small: Slurm knows nothing of huge pages or ephemeral storage, and its
size of a node may be more than kubelet gives to Pods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter

from extender.domain.jobs.job import JobRequest
from extender.domain.placing import room
from extender.domain.placing.room import Amounts
from extender.domain.views import NodeView, PodView
from extender.engine.cluster_snapshot import ClusterSnapshot

KEPT = 256
"""Sizes that are remembered at most."""


class NodeCapacityIndex:
    """`elsewhere`: resources that no node has to have."""

    def __init__(self, elsewhere: Callable[[str], bool]) -> None:
        self._elsewhere = elsewhere
        self._nodes: Mapping[str, NodeView] = {}
        self._by_amount: dict[str, tuple[list[int], list[list[str]]]] = {}
        """By resource: what Nodes have of it, and which Nodes these are, the smallest first."""

        self._small: dict[frozenset[tuple[str, int]], frozenset[str]] = {}

    def too_small(self, world: ClusterSnapshot, pods: Iterable[PodView]) -> frozenset[str]:
        """The Kubernetes Nodes that are too small for one of these Pods."""
        self._look(world)
        found = [self._too_small(room.of_pod(pod, self._elsewhere)) for pod in pods]
        return found[0] if len(found) == 1 else frozenset[str]().union(*found)

    def no_node(self, world: ClusterSnapshot, pods: Iterable[PodView], nodes: Iterable[str]) -> str:
        """Why none of these Kubernetes Nodes can ever hold one of the Pods, as a sentence; "" where one can."""
        self._look(world)
        there = frozenset(nodes) & self._nodes.keys()
        for pod in pods:
            asked = room.of_pod(pod, self._elsewhere)
            if there and there <= self._too_small(asked):
                offers = {name: room.of_kubelet(self._nodes[name], asked) for name in there}
                return f"No Node that the Pod may use is large enough for it: {room.nearest(asked, offers)}."
        return ""

    @staticmethod
    def no_slurm_node(world: ClusterSnapshot, request: JobRequest, nodes: Iterable[str]) -> str:
        """Why none of these Slurm nodes can ever hold the job, as a sentence; "" where one can.

        Where there is none, or anything is not known, that is no reason.
        """
        asked = room.of_job(request)
        offers: dict[str, Amounts] = {}
        for name in nodes:
            node = world.picture.nodes.get(name)
            has = None if node is None else room.of_slurm(node)
            if has is None or not room.lacks(asked, has):
                return ""
            offers[name] = has
        if not offers:
            return ""
        return f"No node of Slurm that the Pod may use is large enough for it: {room.nearest(asked, offers)}."

    def _too_small(self, asked: Amounts) -> frozenset[str]:
        key = frozenset(asked.items())
        found = self._small.get(key)
        if found is None:
            if len(self._small) >= KEPT:
                self._small.clear()
            found = frozenset(name for resource, amount in asked.items() for name in self._with_less(resource, amount))
            self._small[key] = found
        return found

    def _with_less(self, resource: str, amount: int) -> Iterator[str]:
        known = self._by_amount.get(resource)
        if known is None:
            if len(self._by_amount) >= KEPT:  # Pods may name resources that there are not
                self._by_amount.clear()
            alike: dict[tuple[bool, str], list[str]] = {}  # thousands of Nodes say it in a handful of words
            for name, node in self._nodes.items():
                said = bool(node.allocatable), node.allocatable.get(resource, "")
                alike.setdefault(said, []).append(name)
            asked = (resource,)
            pairs = [(room.of_kubelet(self._nodes[names[0]], asked)[resource], names) for names in alike.values()]
            pairs.sort(key=itemgetter(0))
            known = self._by_amount[resource] = [has for has, _ in pairs], [names for _, names in pairs]
        return chain.from_iterable(known[1][: bisect_left(known[0], amount)])

    def _look(self, world: ClusterSnapshot) -> None:
        before, now = self._nodes, world.nodes
        if now is before:
            return
        self._nodes = now
        if before.keys() == now.keys() and all(_gives_the_same(before[name], node) for name, node in now.items()):
            return
        self._by_amount.clear()
        self._small.clear()


def _gives_the_same(old: NodeView, new: NodeView) -> bool:
    return old is new or old.allocatable == new.allocatable
