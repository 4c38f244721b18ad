"""How one unit is submitted, the sizes of nodes on both sides counted in.

Ten thousand Pods wait with a handful of different wishes: what follows from wishes and nodes alone is worked out once
for each, until something changes of the nodes that decides which of them a job must avoid.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from extender.domain.jobs.exclusions import exclusions, reach
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.renewal import replace
from extender.domain.rules import NoPlan, Plan, Waiting, mode_of, must_queue, plan
from extender.domain.views import PodView
from extender.engine.cluster_snapshot import ClusterSnapshot, same_reach
from extender.engine.node_capacity import NodeCapacityIndex

KEPT = 512
"""Answers that are remembered at most."""

T = TypeVar("T")


class Planner:
    """`elsewhere`: resources that no node has to have."""

    def __init__(self, elsewhere: Callable[[str], bool]) -> None:
        self._node_capacity = NodeCapacityIndex(elsewhere)
        self._world = ClusterSnapshot()
        self._known: dict[Hashable, object] = {}
        """Answers that hold as long as nothing changes of what `same_reach` compares."""

    def excluded(
        self, world: ClusterSnapshot, pods: Sequence[PodView], candidates: frozenset[str], request: JobRequest
    ) -> tuple[str, ...]:
        """The Slurm nodes that the job must avoid, those among them whose Node is too small for a Pod of the unit."""
        return self._exclusions(world, candidates, self._node_capacity.too_small(world, pods), request)

    def mode_of(self, world: ClusterSnapshot, request: JobRequest, told: tuple[str, ...]) -> Mode:
        """How a queued job exists that nobody remembers, and that was told to avoid these."""
        what = ("mode", request.mode, request.partition, told)
        return self._once(world, what, lambda: mode_of(request, world.picture, told))

    def queued(
        self, world: ClusterSnapshot, request: JobRequest, excluded: tuple[str, ...], mode: Mode
    ) -> Plan | NoPlan:
        """What a job of this mode is to avoid that waits already."""
        return self._planned(world, replace(request, mode=mode), excluded, queue=True)

    def plan(
        self,
        world: ClusterSnapshot,
        pods: Sequence[PodView],
        candidates: frozenset[str],
        request: JobRequest,
        *,
        queue: bool,
        waiting: Waiting,
    ) -> tuple[Plan | NoPlan, str]:
        """Mode and call, and why none of the nodes that are left can ever hold the unit, if that is so."""
        queue = queue or must_queue(request, world.picture, waiting)

        def planned(excluded: tuple[str, ...]) -> Plan | NoPlan:
            return self._planned(world, request, excluded, queue=queue)

        excluded = self.excluded(world, pods, candidates, request)
        chosen = planned(excluded)
        if isinstance(chosen, NoPlan):
            without_sizes = planned(self._exclusions(world, candidates, frozenset(), request))
            if isinstance(without_sizes, NoPlan):
                return chosen, ""
            there = [world.node_map.kubernetes.get(name, "") for name in self._left(world, request, without_sizes)]
            return chosen, self._node_capacity.no_node(world, pods, there)
        nowhere = self._node_capacity.no_slurm_node(world, request, self._left(world, request, chosen))
        if nowhere:  # perhaps nodes of another kind would do, on which it would exist in another mode
            other = planned(tuple(sorted({*excluded, *self._left(world, request, chosen)})))
            if isinstance(other, Plan):
                again = self._node_capacity.no_slurm_node(world, request, self._left(world, request, other))
                return (chosen, nowhere) if again else (other, "")
        return chosen, nowhere

    def _exclusions(
        self, world: ClusterSnapshot, candidates: frozenset[str], refused: frozenset[str], request: JobRequest
    ) -> tuple[str, ...]:
        what = ("avoids", candidates, refused, request.partition, request.excluded_nodes)
        return self._once(world, what, lambda: exclusions(candidates, refused, world.node_map, world.picture, request))

    def _planned(
        self, world: ClusterSnapshot, request: JobRequest, excluded: tuple[str, ...], *, queue: bool
    ) -> Plan | NoPlan:
        what = (
            "plan",
            excluded,
            request.partition,
            request.mode,
            request.qos,
            request.run_as is None,
            bool(request.begin or request.dependency),
            queue,
        )
        return self._once(world, what, lambda: plan(request, world.picture, excluded, queue, Waiting()))

    def _once(self, world: ClusterSnapshot, what: Hashable, work_out: Callable[[], T]) -> T:
        """`what` names everything that the answer rests on beside the nodes."""
        if world is not self._world:
            if not same_reach(self._world, world):
                self._known.clear()
            self._world = world
        known = self._known.get(what)
        if known is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            known = self._known[what] = work_out()
        return known  # type: ignore[return-value]  # what was kept under this name

    @staticmethod
    def _left(world: ClusterSnapshot, request: JobRequest, chosen: Plan) -> Iterator[str]:
        avoided = frozenset(chosen.excluded)
        return (name for name in reach(world.picture, request) if name not in avoided)
