"""Index every placeholder by workload, Pod, job and state, so that no component iterates over all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from extender.domain.jobs.job import Mode
from extender.domain.placeholder import Placeholder, State
from extender.domain.placeholders import Placeholders
from extender.domain.states import WaitingState

MANY_AT_ONCE = 16
"""Workloads: more than are being placed when Pods come one by one, fewer than in any burst."""


class PlaceholderIndex:
    """Keep placeholders by workload, Pod, job and state. Only the engine has it: others have `Placeholders`."""

    def __init__(self) -> None:
        self._workloads: dict[str, Placeholder] = {}
        self._workload_of_pod: dict[str, str] = {}
        self._workloads_of_job: dict[int, list[str]] = {}
        """Workloads that name a job, the latest last: an id may be reused, and a copied Pod bears its model's."""

        self._in: dict[State, dict[str, Placeholder]] = {state: {} for state in State}
        self._queued: Counter[str] = Counter()
        self._placed_without_job: set[str] = set()

    @property
    def all(self) -> Mapping[str, Placeholder]:
        """Return every placeholder by its workload's key."""
        return self._workloads

    @property
    def jobs(self) -> Set[int]:
        """Return jobs whose state matters to some placeholder."""
        return self._workloads_of_job.keys()

    @property
    def queued(self) -> Mapping[str, int]:
        """Return how many placeholders wait in Slurm, by the partition as they requested it."""
        return self._queued

    @property
    def placed_without_job(self) -> Set[str]:
        """Return the keys of workloads with Pods on Nodes whose job is not known yet."""
        return self._placed_without_job

    def get(self, key: str) -> Placeholder | None:
        """Return a workload's placeholder."""
        return self._workloads.get(key)

    def namespace_of(self, key: str) -> str:
        """Return the namespace of a workload's Pods; "" for a workload that is not known."""
        p = self._workloads.get(key)
        return p.members[0].ref.namespace if p is not None and p.members else ""

    def workload_of_pod(self, uid: str) -> str | None:
        """Return the key of the workload of which this Pod is a member."""
        return self._workload_of_pod.get(uid)

    def by_pod(self, uid: str) -> Placeholder | None:
        """Return the placeholder of which this Pod is a member."""
        key = self._workload_of_pod.get(uid)
        return None if key is None else self._workloads.get(key)

    def workload_of_job(self, job_id: int) -> str | None:
        """Return the key of the workload whose job this is, duplicate jobs included.

        Where several name it, it is that of the one which has read the job, and else of the latest.
        """
        workloads = self._workloads_of_job.get(job_id, ())
        return max(reversed(workloads), key=lambda key: _has_read(self._workloads[key]), default=None)

    def workloads_of_job(self, job_id: int) -> tuple[str, ...]:
        """Return the keys of all workloads that take this job for theirs."""
        return tuple(self._workloads_of_job.get(job_id, ()))

    def by_job(self, job_id: int) -> Placeholder | None:
        """Return the placeholder whose job this is, the latest where more than one takes it for theirs."""
        key = self.workload_of_job(job_id)
        return None if key is None else self._workloads.get(key)

    def all_by_job(self, job_id: int) -> list[Placeholder]:
        """Return the placeholders of all workloads that take this job for theirs."""
        return [p for key in self.workloads_of_job(job_id) if (p := self._workloads.get(key)) is not None]

    def in_state(self, *states: State) -> list[Placeholder]:
        """Return the placeholders in these states now."""
        return [p for state in states for p in self._in[state].values()]

    def many_being_placed(self) -> bool:
        """Return whether so many workloads are being submitted or bound that Events about them should wait."""
        return len(self._in[State.SUBMITTING]) + len(self._in[State.GRANTED]) > MANY_AT_ONCE

    def put(self, p: Placeholder) -> None:
        """Take over a new state of a workload."""
        old, state = self._workloads.get(p.key), p.state
        self._workloads[p.key] = p
        if old is not None:
            self._count(old, -1)
            if old.state is not state:
                del self._in[old.state][p.key]
        self._count(p, +1)
        self._in[state][p.key] = p
        if state is State.UNSURE and p.job_id is None and p.placed:
            self._placed_without_job.add(p.key)
        else:
            self._placed_without_job.discard(p.key)
        if old is None or old.members is not p.members:
            self._map_members(old, p)
        if old is None or old.job_id != p.job_id or old.duplicate_jobs is not p.duplicate_jobs:
            before, jobs = _jobs(old) if old is not None else frozenset(), _jobs(p)
            self._unmap_jobs(p.key, before - jobs)
            for job in jobs - before:
                self._workloads_of_job.setdefault(job, []).append(p.key)

    def forget(self, p: Placeholder) -> None:
        """Drop a workload."""
        old = self._workloads.pop(p.key)
        self._count(old, -1)
        del self._in[old.state][p.key]
        self._placed_without_job.discard(p.key)
        for member in old.members:
            self._release(member.ref.uid, p.key)
        self._unmap_jobs(p.key, _jobs(old))

    def _map_members(self, old: Placeholder | None, p: Placeholder) -> None:
        """Map the Pods of a workload to it. One that was listed before may be another workload's by now."""
        left = set() if old is None else {member.ref.uid for member in old.members}
        for member in p.members:
            uid = member.ref.uid
            if uid not in left or uid not in self._workload_of_pod:
                self._workload_of_pod[uid] = p.key
            left.discard(uid)
        for uid in left:
            self._release(uid, p.key)

    def _release(self, uid: str, key: str) -> None:
        if self._workload_of_pod.get(uid) == key:
            del self._workload_of_pod[uid]

    def _unmap_jobs(self, key: str, jobs: frozenset[int]) -> None:
        for job in jobs:
            workloads = self._workloads_of_job[job]
            workloads.remove(key)
            if not workloads:
                del self._workloads_of_job[job]

    def _count(self, p: Placeholder, by: int) -> None:
        if isinstance(p.payload, WaitingState) and p.submitted_request is not None and not _had_at_once(p, p.payload):
            self._queued[p.submitted_request.partition] += by
            if not self._queued[p.submitted_request.partition]:
                del self._queued[p.submitted_request.partition]


def _had_at_once(p: Placeholder, waiting: WaitingState) -> bool:
    """Return whether its job was allocated and has not been read as pending: it does not block the queue."""
    return p.mode in {Mode.ALLOCATION, Mode.EXTERNAL} and not (p.reason or waiting.unread)


def _has_read(p: Placeholder) -> tuple[bool, bool]:
    """Return whether Slurm confirmed the job of a workload; where it did not, whether its nodes were read once."""
    confirmed = p.state not in {State.UNSURE, State.LOST}
    return confirmed, not confirmed and bool(p.slurm_nodes)


def _jobs(p: Placeholder) -> frozenset[int]:
    return p.duplicate_jobs if p.job_id is None else p.duplicate_jobs | {p.job_id}


_THE_INDEX_IS_READ_AS_PLACEHOLDERS: type[Placeholders] = PlaceholderIndex
