"""Give Pods that a restored etcd brings back their places in gangs that run."""

from __future__ import annotations

from collections.abc import Iterator

from extender.domain import events as e
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.allocation_record import AllocationRecord
from extender.domain.ports import PodCache
from extender.domain.views import PodView
from extender.engine.engine import Engine

_ENDED = frozenset({State.LOST, State.RELEASING})
"""States of a gang whose job has ended, or is being ended."""


class ReturnedMembers:
    """Seat bound Pods, whose allocation records prove which slot they had, among the members of their gangs.

    A Pod that was deleted is no member any more once a successor was created, and the job may still have its node.
    """

    def __init__(self, engine: Engine, cache: PodCache) -> None:
        self._engine = engine
        self._cache = cache
        self._waiting: set[str] = set()
        """UIDs of Pods that `must_wait`."""

    def must_wait(self, pod: PodView, record: AllocationRecord) -> bool:
        """Return whether another Pod runs in the slot of this one that the API server does not show any more.

        It is found out first whether that one is gone.
        """
        waits = self._is_taken(pod, record)
        if waits:
            self._waiting.add(pod.uid)
        else:
            self._waiting.discard(pod.uid)
        return waits

    def _is_taken(self, pod: PodView, record: AllocationRecord) -> bool:
        p = self._gang(pod, record)
        if p is None or record.gang is None or p.job_id != record.job_id or p.state in _ENDED:
            return False
        if not p.has_node_for(record.gang.rank):
            return False  # there is no slot to wait for
        holder = p.in_slot(record.gang.rank)
        if holder is None or not holder.placed or holder.unknown:
            return False
        return holder.ref.uid != pod.uid and self._cache.get(holder.ref.uid) is None

    @staticmethod
    def runs_again(uid: str, known: Placeholder | None) -> bool:
        """Return whether a Pod that has not ended is one whose end was seen: a restored etcd shows it as it was before.

        `known` is its workload: over, or a gang that runs, in which another Pod, or Slurm, may have its node by now.
        """
        if known is None or known.state is State.GONE:
            return True
        member = known.member(uid)
        return known.is_gang and known.state not in _ENDED and member is not None and member.end is not None

    def left(self, uid: str) -> bool:
        """Forget a Pod that is gone. Return whether it waited."""
        waited = uid in self._waiting
        self._waiting.discard(uid)
        return waited

    def take_waiting(self) -> Iterator[PodView]:
        """Yield the Pods for which `must_wait` is to be asked again, as they are now."""
        waiting, self._waiting = sorted(self._waiting), set()
        for uid in waiting:
            if (pod := self._cache.get(uid)) is not None:
                yield pod

    def workload_of(self, pod: PodView, record: AllocationRecord) -> str:
        """Return the workload to which this Pod belongs, and give it its slot where that is a gang that runs.

        Return "" where its allocation record proves no place in a gang.
        """
        gang, p = record.gang_on(pod.node_name), self._gang(pod, record)
        if p is None or record.gang is None:
            return gang
        own = self._engine.placeholders.get(pod.uid)
        if own is not None and own.state is not State.GONE:
            return pod.uid  # it came back before, without a slot, and that is not settled yet
        seat = (e.MemberRef.of(pod), record.gang.rank)
        self._engine.handle(gang, e.PodBound(pod.uid, pod.node_name, record.job_id, record.slurm_node, seat), "watch")
        after = self._engine.placeholders.get(gang)
        member = None if after is None else after.member(pod.uid)
        return gang if member is not None and member.placed else pod.uid

    def _gang(self, pod: PodView, record: AllocationRecord) -> Placeholder | None:
        """Return the gang of which a Pod was a member; `None`: it is over, or the Pod was a workload of its own."""
        p = self._engine.placeholders.get(record.gang_on(pod.node_name))
        return None if p is None or p.state is State.GONE else p
