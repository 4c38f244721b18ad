"""Check whether an allocation may be used: no ended job is in the way, and the kubelet's sums fit.

Slurm may have given a node because a job on it ended, and the extender may learn of the new job before it learns of
that end. So it requests the states of the jobs of other Pods on the node at once, and uses the node when each is known
to live. A job that lives at an instant after the grant did not make room for the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

from extender.domain import events as e
from extender.domain.jobs.job import Mode
from extender.domain.nodes.member_nodes import renamed
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.placing.mode import few
from extender.domain.ports import Clock, PodCache
from extender.domain.renewal import replace
from extender.domain.states import GrantedState
from extender.domain.views import PodView
from extender.engine.cluster_snapshot import Allocation, check_allocation
from extender.engine.engine_context import EnginePorts, EngineState
from extender.engine.job_read_versions import JobReadVersions
from extender.engine.pod_coverage import PodCoverage
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobStatesAnswered, JobStatesWanted


class AllocationChecker:
    """Check granted nodes against what is known of both sides."""

    def __init__(self, state: EngineState, ports: EnginePorts, coverage: PodCoverage) -> None:
        placeholders = state.placeholders
        self._coverage = coverage
        self._state = state
        self._cache = ports.cache
        self._kept_from = ports.kept_from
        self._on_no_node = ports.on_no_node
        self._fenced = ports.fenced
        self._devices = ports.devices
        self._co_located_jobs = CoLocatedJobChecks(
            ports.clock, state.job_reads, ports.events, ports.cache.on_node, placeholders.by_pod
        )
        self._assumed_pods = AssumedPods(ports.cache)

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """Take note of a step."""
        self._co_located_jobs.stepped(before, after)
        self._assumed_pods.stepped(before, after)

    def check(self, p: Placeholder) -> Allocation | None:
        """Return whether a workload may have its nodes; `None`: something has yet to be known or written first.

        How the jobs beside it are: `states_answered` returns it then. That the mark of its job covers each member:
        `MembersCovered` is published then.
        """
        incomplete = self._coverage.is_incomplete(p)
        if incomplete:
            self._coverage.renew(p)
        return None if self._co_located_jobs.keep_waiting(p) or incomplete else self.recheck(p)

    def recheck(self, p: Placeholder, member: str = "") -> Allocation:
        """Return whether a workload may have its nodes, by what is known now.

        `member`: the UID of one member of a gang; then only what concerns its node counts, in a time that does not grow
        with the gang. The whole is checked before all members are bound.
        """
        for node in (p.slurm_node_of(member),) if member else p.slurm_nodes:
            if why := self._kept_from(node, p.key):
                return e.AllocationBusy(f"Slurm node {node} is kept: {why}.")
        if not member and (unfenced := self._unfenced(p)):
            return e.AllocationUnfenced(
                f"Slurm node {few(unfenced)} lost its working fence, so Slurm job {p.job_id} is released."
            )
        if self._state.job_reads.doubted(p.job_id):
            return e.AllocationBusy(f"Slurm job {p.job_id} may be about to end: the extender reads it again.")
        if not member and (taken := p.awaited_slots & {slot for slot, one in p.by_slot if one.wanting}):
            return e.AllocationBusy(f"A Pod that the API server does not show may run with rank {min(taken)}.")
        if not member and self._coverage.is_incomplete(p):
            return e.AllocationBusy(f"The mark of Slurm job {p.job_id} is changed first, for a Pod that came later.")
        there = _alone(p, member) if member else p
        snapshot = self._state.snapshot
        for one in there.members:
            if one.wanting and (why := renamed(p, there.node_of(one.ref.uid), snapshot.node_map)):
                return e.AllocationBusy(why)
        pods = {m.ref.uid: pod for m in there.members if (pod := self._cache.get(m.ref.uid)) is not None}
        others = self._state.placeholders.in_state(State.LOST, State.UNSURE)
        on_node = self._assumed_pods.there
        found = check_allocation(there, pods, snapshot, on_node, others, on_no_node=self._on_no_node)
        return found if member or not isinstance(found, e.AllocationFits) else self._devices.check(p)

    def _unfenced(self, p: Placeholder) -> frozenset[str]:
        """Return the granted nodes that mode `auto` would not have asked for. A mode that the Pod names stays."""
        request = p.submitted_request
        if p.mode is not Mode.ALLOCATION or request is None or request.mode is not Mode.AUTO:
            return frozenset()
        return self._fenced().unfenced(p.slurm_nodes)

    def states_answered(self, event: JobStatesAnswered) -> list[Placeholder]:
        """Take note of which jobs live, and return the workloads whose allocation can be checked now."""
        self._co_located_jobs.seen_living(event.requested_at, event.living, event.every)
        ready = self._co_located_jobs.known_now(self._state.placeholders.get)
        return [p for p in ready if p.state is State.GRANTED and not p.cleared]


class AssumedPods:
    """Keep Pods that are bound, or being bound, and not seen on their Node by the watch yet.

    They count against the room of their Node, as kube-scheduler counts its own assumed Pods.
    """

    def __init__(self, cache: PodCache) -> None:
        self._cache = cache
        self._bound: dict[str, set[str]] = {}
        """UIDs by Kubernetes node."""

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """Index the members of a changed workload by their nodes."""
        if before.members is after.members:
            return
        were, are = _placed(before, after.members), _placed(after, before.members)
        for uid, node in were - are:
            self._drop(node, uid)
        for uid, node in are:
            self._bound.setdefault(node, set()).add(uid)

    def there(self, node: str) -> Sequence[PodView]:
        """Return every Pod on a Kubernetes node, those with an unconfirmed Binding included."""
        shown = self._cache.on_node(node)
        coming: list[PodView] = []
        for uid in sorted(self._bound.get(node, ())):
            pod = self._cache.get(uid)
            if pod is not None and not pod.node_name:
                coming.append(pod)
            else:
                self._drop(node, uid)
        return [*shown, *coming]

    def _drop(self, node: str, uid: str) -> None:
        bound = self._bound.get(node)
        if bound is not None:
            bound.discard(uid)
            if not bound:
                del self._bound[node]


def _alone(p: Placeholder, uid: str) -> Placeholder:
    """Return a granted gang with one of its members and the node of that."""
    payload = p.payload
    if isinstance(payload, GrantedState):
        payload = replace(payload, allocation=((uid, p.node_of(uid)),))
    return replace(p, members=tuple(one for one in p.members if one.ref.uid == uid), payload=payload)


def _placed(p: Placeholder, others: Sequence[Member]) -> set[tuple[str, str]]:
    """Return the Pods of a workload that are on a node, or about to be, and that node.

    `others`: its members before or after; one that is the same object at the same index there is left out.
    """
    changed = (one for one, other in zip_longest(p.members, others) if one is not other and one is not None)
    members = ((m.ref.uid, m.node or p.node_of(m.ref.uid)) for m in changed if m.placed)
    return {(uid, node) for uid, node in members if node}


class CoLocatedJobChecks:
    """Check that the jobs of other Pods on a granted node live, by answers that are newer than the grant.

    `on_node` gives the Pods on a Kubernetes node, `owner` the placeholder of a Pod.
    """

    def __init__(
        self,
        clock: Clock,
        readings: JobReadVersions,
        events: EventBus,
        on_node: Callable[[str], Sequence[PodView]],
        owner: Callable[[str], Placeholder | None],
    ) -> None:
        self._events = events
        self._clock = clock
        self._job_reads = readings
        self._on_node = on_node
        self._owner = owner
        self._granted_at: dict[str, float] = {}
        """When each workload that is GRANTED was first known to have these nodes."""

        self._lived_at: dict[int, float] = {}
        """The last instant for which Slurm reported each placeholder job as alive."""

        self._waiting: set[str] = set()
        """Workloads whose nodes are looked at when it is known how the other Pods' jobs there are."""

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """Record when the workload was granted its nodes."""
        if after.state is not State.GRANTED:
            self._granted_at.pop(after.key, None)
            self._waiting.discard(after.key)
        elif before.state is not State.GRANTED or before.slurm_nodes != after.slurm_nodes:
            self._granted_at[after.key] = self._clock.now()

    def keep_waiting(self, p: Placeholder) -> bool:
        """Return whether the state of a neighbouring job is still unknown; if so, request it. See `seen_living`."""
        unknown = self._unknown(p)
        if unknown:
            self._waiting.add(p.key)
            self._events.publish(JobStatesWanted(unknown))
        return bool(unknown)

    def seen_living(self, requested_at: float, living: Iterable[int], every: bool) -> None:
        """Record which jobs lived at that instant. `every`: the request covered all placeholder jobs."""
        lived_at = dict.fromkeys(living, requested_at)
        self._lived_at = lived_at if every else self._lived_at | lived_at

    def known_now(self, workloads: Callable[[str], Placeholder | None]) -> list[Placeholder]:
        """Return the workloads that waited, and of whose neighbours enough is known now."""
        found = [p for key in sorted(self._waiting) if (p := workloads(key)) is not None and not self._unknown(p)]
        self._waiting.difference_update(p.key for p in found)
        return found

    def _unknown(self, p: Placeholder) -> set[int]:
        since = self._granted_at.get(p.key)
        if since is None:
            return set()
        lived, notified_since = self._lived_at, self._job_reads.notified_since
        unknown: set[int] = set()
        for node in {node for _, node in p.allocation}:
            for pod in self._on_node(node):
                other = self._owner(pod.uid)
                if other is None or other.key == p.key or (job := other.job_id) is None:
                    continue
                if lived.get(job, float("-inf")) >= since or notified_since(job, since):
                    continue
                if other.state is not State.LOST and other.job_occupied:
                    unknown.add(job)
        return unknown
