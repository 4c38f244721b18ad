"""Check whether an allocation may be used: no ended job is in the way, and the kubelet's sums fit."""

from __future__ import annotations

from collections.abc import Callable, Set

from extender.domain import events as e
from extender.domain.nodes.whereabouts import renamed
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock, PodCache
from extender.engine.assumed_pods import AssumedPods
from extender.engine.cluster_snapshot import Allocation, ClusterSnapshot, check_allocation
from extender.engine.co_located_jobs import CoLocatedJobChecks
from extender.engine.emit_event import EmitEvent
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.units import Units


class AllocationChecker:
    """Looks at granted nodes. `world` is the latest; `elsewhere`: resources that no node has to have."""

    def __init__(
        self,
        clock: Clock,
        cache: PodCache,
        units: Units,
        readings: JobReadVersions,
        tell: EmitEvent,
        *,
        world: Callable[[], ClusterSnapshot],
        elsewhere: Callable[[str], bool],
    ) -> None:
        self.kept: Callable[[str, str], str] = lambda _slurm_node, _unit: ""
        """Why nothing of this unit may start on that node; "": nobody who ended may be there."""

        self.co_located_jobs = CoLocatedJobChecks(clock, readings, cache.on_node, units.by_pod)
        self._assumed_pods = AssumedPods(cache)
        self._cache = cache
        self._units = units
        self._job_reads = readings
        self._tell = tell
        self._world = world
        self._elsewhere = elsewhere

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """A unit changed."""
        self.co_located_jobs.stepped(before, after)
        self._assumed_pods.stepped(before, after)

    def look(self, p: Placeholder) -> None:
        """Tell the unit whether it may have its nodes, once it is known how the other Pods' jobs there are."""
        if not self.co_located_jobs.keep_waiting(p):
            self._tell(p.key, self._check(p), "look at the node")

    def look_again(self, p: Placeholder) -> str:
        """Look once more at a node that is about to be handed out; "" if a member may go there."""
        found = self._check(p)
        if isinstance(found, e.AllocationFits):
            return ""
        self._tell(p.key, found, "look before the binding")
        return found.text

    def states_told(self, asked_at: float, living: Set[int], *, every: bool) -> None:
        """The states of jobs were asked for then, of `every` one of ours or of some; these live."""
        self.co_located_jobs.told(asked_at, living, every)
        for p in self.co_located_jobs.known_now(self._units.get):
            if p.state is State.GRANTED and not p.cleared:
                self._tell(p.key, e.TimerFired(), "states of jobs")

    def _check(self, p: Placeholder) -> Allocation:
        for node in p.slurm_nodes:
            if why := self.kept(node, p.key):
                return e.AllocationBusy(f"Slurm node {node} is kept: {why}.")
        if self._job_reads.doubted(p.job_id):
            return e.AllocationBusy(f"Slurm job {p.job_id} may be about to end: Slurm is asked how it is.")
        world = self._world()
        for member in p.members:
            if member.wanting and (why := renamed(p, p.node_of(member.ref.uid), world.node_map)):
                return e.AllocationBusy(why)
        pods = {m.ref.uid: pod for m in p.members if (pod := self._cache.get(m.ref.uid)) is not None}
        others = self._units.in_state(State.LOST, State.UNSURE)
        return check_allocation(p, pods, world, self._assumed_pods.there, others, elsewhere=self._elsewhere)
