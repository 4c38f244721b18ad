"""Find out whether Pods may run in the slots of gangs whose Pods the API server did not show at a start.

Such a member counts as running until its absence is explained, as that of any Pod which a list lacks (`absent_pods`):
at once where the checkpoint in the mark of the job proves a deletion, and else as the mass-deletion guard says. Then
its node is held like that of a Pod that was removed without a report of its kubelet (`nodes.removals`).

Four facts explain a slot at once: the mark of the job says that no Pod had it yet, a Pod waits that the process
before gave the node of the slot, the Pod that had it has ended and none followed it, or a Pod is there that lost the
proof of its allocation record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import structlog

from extender.controllers.absent_pods import AbsentPods
from extender.controllers.gangs.members import GangMembers
from extender.domain import events as e
from extender.domain.jobs.identity import LATER_MEMBERS, decode_mark
from extender.domain.jobs.job import Mark
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import PodCache, PortError, SlurmJobs
from extender.domain.views import PodView
from extender.domain.wellknown import DEFAULT_GRACE_S, GANG_KEY
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import (
    MassDeletionConfirmed,
    MembersUnknown,
    PlaceholderChanged,
    PodRemoved,
    PodsAdopted,
)

_log = structlog.get_logger(__name__)

CLASSIFY_EVERY = 1.0
"""Seconds between two looks at unknown members, as long as there are some."""

_ALL = "all"
"""The one key: the guard counts all of them together."""

_NODES_UNREAD = frozenset({State.SUBMITTING, State.UNSURE, State.WAITING})
"""In these it is not known yet which nodes the job has."""


class UnknownMembers:
    """Judge unknown members, and have the nodes held of those that count as deleted.

    `missing` is its own. `fresh`: return whether the informers are up to date. Otherwise no Pod counts as deleted.
    """

    def __init__(
        self,
        engine: Engine,
        gangs: GangMembers,
        missing: AbsentPods,
        *,
        jobs: SlurmJobs,
        allocation_records: AllocationRecords,
        events: EventBus,
        cache: PodCache,
        deferred: DeferredPods,
        pods: Callable[[], Iterable[PodView]],
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._placeholders = engine.placeholders
        self._gangs = gangs
        self._jobs = jobs
        self._allocation_records = allocation_records
        self._events = events
        self._cache = cache
        self._deferred = deferred
        self._pods = pods
        self._fresh = fresh
        self.missing = missing
        self._unread: set[str] = set()
        """Gangs with unknown members whose job was not read yet."""

        self._controller = Controller(
            "unknown members of gangs", self._reconcile, keep_early=True, resync=Resync(lambda: (_ALL,))
        )

    async def run(self) -> None:
        """Judge unknown members until cancelled."""
        await self._controller.run()

    def found(self, event: MembersUnknown) -> None:
        """Begin with a gang that was adopted."""
        self._unread.add(event.key)
        self._controller.add(_ALL)

    def adopted(self, _event: PodsAdopted) -> None:
        """End the unknown members in whose slots a Pod has succeeded, where no other one follows it.

        Only the owner says whether another one follows.
        """
        for key, pods in self._ended().items():
            if not self._gangs.has_further(key) and not self._has_unread_owner(key):
                for pod in pods:
                    if pod.phase == "Succeeded":
                        self._end_by(key, pod)

    def _has_unread_owner(self, key: str) -> bool:
        """Return whether a Pod of a gang was adopted, and its owner was not read yet."""
        p = self._placeholders.get(key)
        members = () if p is None else (one for one in p.members if not one.unknown and not one.end)
        return any(self._gangs.key_of(member.ref.uid) is None for member in members)

    def _ended(self) -> dict[str, list[PodView]]:
        """Return the ended Pods that name a gang whose job was not read yet, by that gang."""
        found: dict[str, list[PodView]] = {}
        for pod in self._pods() if self._unread else ():
            if pod.ended and (key := pod.annotations.get(GANG_KEY, "")) in self._unread:
                found.setdefault(key, []).append(pod)
        return found

    def _end_by(self, key: str, pod: PodView) -> None:
        """End the unknown member in whose slot this Pod has ended, as its kubelet reports."""
        p, record = self._placeholders.get(key), self._allocation_records.read(pod.annotations, pod.uid)
        if p is None or record.gang is None or record.gang_on(pod.node_name) != key or record.job_id != p.job_id:
            return
        how = e.PodEnd.SUCCEEDED if pod.phase == "Succeeded" else e.PodEnd.FAILED
        for member in p.members:
            if member.unknown and not member.end and member.slot == record.gang.rank:
                self._engine.handle(key, e.PodGone(member.ref.uid, how), "the Pod of its slot")

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Begin at once where it is known which nodes the job of a gang has."""
        if event.after.key in self._unread and event.after.state not in _NODES_UNREAD:
            self._controller.add(_ALL)

    def confirmed(self, _event: MassDeletionConfirmed) -> None:
        """Treat all of them as deleted."""
        self._end(self.missing.due(confirmed=True))

    async def _reconcile(self, _all: str) -> Requeue | None:
        readable = [key for key in sorted(self._unread) if not self._is_unread(key)]
        ended = self._ended() if readable else {}
        for key in readable:
            await self._read(key, ended.get(key, ()))
        for uid in self.missing.uids:
            if self._member(uid) is None:
                self.missing.back(uid)  # its Pod came back, or its workload is over
        await self.missing.classify()
        if self._fresh():
            self._end(self.missing.due())
        return Requeue(CLASSIFY_EVERY) if self._unread or len(self.missing) else None

    def _is_unread(self, key: str) -> bool:
        """Return whether it is not known yet which nodes the job of a gang has."""
        p = self._placeholders.get(key)
        return p is not None and p.state in _NODES_UNREAD

    async def _read(self, key: str, ended: Iterable[PodView]) -> None:
        """Read the job of a gang, and have the absence classified of the Pods that may have been on it.

        `ended` are the Pods that name this gang and have ended.
        """
        p = self._placeholders.get(key)
        if p is None or not p.awaited_slots:
            self._unread.discard(key)
            return
        if self._is_unread(key):  # again, while the jobs of others were read
            return
        mark: Mark | None = None
        if p.job_id is not None:
            try:
                job = await self._jobs.read(p.job_id)
            except PortError as error:
                _log.info("unknown_members_not_classified", workload=key, job_id=p.job_id, error=str(error))
                return
            mark = None if job is None else decode_mark(job.admin_comment)
        mark = mark if mark is not None and mark.workload == key else None
        self._unread.discard(key)
        if mark is not None and mark.members not in {"", LATER_MEMBERS}:  # then no slot had a second Pod
            for pod in ended:
                self._end_by(key, pod)
        granted = self._granted(key)
        for uid in [one.ref.uid for one in p.members if one.unknown and not one.end]:
            self._begin(key, uid, mark, granted)

    def _granted(self, key: str) -> Counter[str]:
        """Return how many Pods of a gang wait for each Node that the process before gave them, as their records prove.

        Each was to have a slot there that was free then, and nothing was bound since. A Pod that is not adopted yet
        counts too: its record names the job.
        """
        p = self._placeholders.get(key)
        known = () if p is None else (*(ref.uid for ref in p.refs), *self._gangs.uids(key))
        uids = dict.fromkeys((*known, *self._deferred.uids))
        pods = map(self._cache.get, uids)
        waiting = [pod for pod in pods if pod is not None and not pod.node_name and not pod.finished]
        records = (self._allocation_records.read(pod.annotations, pod.uid) for pod in waiting)
        return Counter(record.node for record in records if p is not None and record.node and record.job_id == p.job_id)

    def _begin(self, key: str, uid: str, mark: Mark | None, granted: Counter[str]) -> None:
        p, member = self._placeholders.get(key), self._member(uid)
        if p is None or member is None or member.slot is None:
            return
        node, cause = self._node_of(p, uid), ""
        if any(slot == member.slot and one.placed and not one.unknown for slot, one in p.by_slot):
            cause = "the Pod of its slot"
        elif mark is not None and mark.slots is not None and member.slot >= mark.slots:
            cause = "the mark of its job"
        elif granted[node] > 0:
            granted[node] -= 1
            cause = "the grant of a Pod that waits"
        if cause:
            self._engine.handle(key, e.PodGone(uid, e.PodEnd.REMOVED, never=True), cause)
            return
        grace_s, ref = DEFAULT_GRACE_S if mark is None else mark.longest_grace_s, member.ref
        _log.warning("member_unknown", pod=ref.full_name, uid=uid, workload=key, job_id=p.job_id, node=node)
        self.missing.keep([PodView(uid, ref.namespace, ref.name, node_name=node, grace_s=grace_s)])

    def _node_of(self, p: Placeholder, uid: str) -> str:
        """Return the Node of its slot; "?": it has none just now; "": the job has no node for the slot."""
        slurm_node = p.slurm_node_of(uid)
        return p.node_of(uid) or (slurm_node and (self._engine.snapshot.node_map.last_kubernetes(slurm_node) or "?"))

    def _member(self, uid: str) -> Member | None:
        """Return the unknown member with this UID, unless it has ended."""
        p = self._placeholders.by_pod(uid)
        member = None if p is None else p.member(uid)
        return None if member is None or member.end else member

    def _end(self, pods: Iterable[PodView]) -> None:
        for pod in pods:
            if (key := self._placeholders.workload_of_pod(pod.uid)) is not None:
                self._events.publish(PodRemoved(key, pod))
