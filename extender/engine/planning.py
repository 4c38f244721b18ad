"""How one unit is submitted, the sizes of nodes on both sides counted in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.domain.exclusions import exclusions, reach
from extender.domain.job import JobRequest
from extender.domain.rules import NoPlan, Plan, Waiting, plan
from extender.domain.views import PodView
from extender.engine.rooms import Rooms
from extender.engine.world import World


class Planner:
    """`elsewhere`: resources that no node has to have."""

    def __init__(self, elsewhere: Callable[[str], bool]) -> None:
        self._rooms = Rooms(elsewhere)

    def excluded(
        self, world: World, pods: Sequence[PodView], candidates: frozenset[str], request: JobRequest
    ) -> tuple[str, ...]:
        """The Slurm nodes that the job must avoid, those among them whose Node is too small for a Pod of the unit."""
        small = self._rooms.too_small(world, pods)
        return exclusions(candidates, small, world.node_map, world.picture, request)

    def plan(
        self,
        world: World,
        pods: Sequence[PodView],
        candidates: frozenset[str],
        request: JobRequest,
        *,
        queue: bool,
        waiting: Waiting,
    ) -> tuple[Plan | NoPlan, str]:
        """Mode and call, and why none of the nodes that are left can ever hold the unit, if that is so."""

        def planned(excluded: Sequence[str]) -> Plan | NoPlan:
            return plan(request, world.picture, excluded, queue, waiting)

        excluded = self.excluded(world, pods, candidates, request)
        chosen = planned(excluded)
        if isinstance(chosen, NoPlan):
            without_sizes = planned(exclusions(candidates, frozenset(), world.node_map, world.picture, request))
            if isinstance(without_sizes, NoPlan):
                return chosen, ""
            left = self._left(world, request, without_sizes)
            return chosen, self._rooms.no_node(world, pods, [world.node_map.kubernetes.get(name, "") for name in left])
        nowhere = self._rooms.no_slurm_node(world, request, left := self._left(world, request, chosen))
        if nowhere:  # perhaps nodes of another kind would do, on which it would exist in another mode
            other = planned(sorted({*excluded, *left}))
            if isinstance(other, Plan):
                again = self._rooms.no_slurm_node(world, request, self._left(world, request, other))
                return (chosen, nowhere) if again else (other, "")
        return chosen, nowhere

    @staticmethod
    def _left(world: World, request: JobRequest, chosen: Plan) -> Sequence[str]:
        avoided = frozenset(chosen.excluded)
        return [name for name in reach(world.picture, request) if name not in avoided]
