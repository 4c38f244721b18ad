"""Which nodes are too small for a Pod for ever, worked out once for each size as long as the nodes stay the same.

A job is told to avoid those whose Node is too small: Slurm knows nothing of huge pages or ephemeral storage, and its
size of a node may be more than kubelet gives to Pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from extender.domain import room
from extender.domain.job import JobRequest
from extender.domain.room import Amounts
from extender.domain.views import NodeView, PodView
from extender.engine.world import World

KEPT = 256
"""Sizes that are remembered at most."""


class Rooms:
    """`elsewhere`: resources that no node has to have."""

    def __init__(self, elsewhere: Callable[[str], bool]) -> None:
        self._elsewhere = elsewhere
        self._nodes: Mapping[str, NodeView] = {}
        self._offers: dict[str, tuple[NodeView, Amounts | None]] = {}
        """By Kubernetes Node."""

        self._small: dict[frozenset[tuple[str, int]], frozenset[str]] = {}

    def too_small(self, world: World, pods: Iterable[PodView]) -> frozenset[str]:
        """The Kubernetes Nodes that are too small for one of these Pods."""
        self._look(world)
        return frozenset[str]().union(*(self._too_small(room.of_pod(pod, self._elsewhere)) for pod in pods))

    def nowhere(
        self,
        world: World,
        request: JobRequest,
        pods: Iterable[PodView],
        candidates: frozenset[str],
        usable: frozenset[str],
    ) -> str:
        """Why none of the nodes that the unit may use can ever hold it, as a sentence; "" where one can.

        `candidates` are Kubernetes Nodes, `usable` the Slurm nodes that are left to the job. Where nothing is left, or
        anything is not known, that is no reason.
        """
        self._look(world)
        for pod in pods:
            asked = room.of_pod(pod, self._elsewhere)
            if candidates and candidates <= self._too_small(asked):
                there = {name: has for name in candidates if (has := self._offers[name][1]) is not None}
                return f"No Node that the Pod may use is large enough for it: {room.nearest(asked, there)}."
        asked = room.of_job(request)
        offers: dict[str, Amounts] = {}
        for name in usable:
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
            offers = self._offers.items()
            found = frozenset(name for name, (_, has) in offers if has is not None and room.lacks(asked, has))
            self._small[key] = found
        return found

    def _look(self, world: World) -> None:
        if world.nodes is self._nodes:
            return
        before, self._nodes = self._offers, world.nodes
        self._offers = {name: _offer(node, before.get(name)) for name, node in world.nodes.items()}
        same = before.keys() == self._offers.keys()
        if not same or any(offer[1] is not before[name][1] for name, offer in self._offers.items()):
            self._small.clear()


def _offer(node: NodeView, before: tuple[NodeView, Amounts | None] | None) -> tuple[NodeView, Amounts | None]:
    if before is not None and (before[0] is node or before[0].allocatable == node.allocatable):
        return node, before[1]
    return node, room.of_kubelet(node)
