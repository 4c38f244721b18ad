"""Count reads that do not find a job, and let the mass-deletion guard decide before a Pod is ended for it.

Nothing is ended because information is missing: one "unknown job" proves nothing, and many at once mean that Slurm has
lost its state or that the wrong Slurm answers. What the states of all jobs say is applied here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from extender.domain import events as e
from extender.domain.events import MemberRef
from extender.domain.placeholder import MOST_NAMED, Placeholder, State
from extender.domain.placeholders import EmitEvent, Placeholders
from extender.domain.ports import Announcement, Announcer, Clock
from extender.domain.printable import shortened
from extender.domain.states import WaitingState
from extender.domain.wellknown import Reason
from extender.engine.mass_deletion_guard import RUNBOOK_FOR_MISSING_JOBS, MassDeletionGuard
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobMissing, MassDeletionConfirmed

_log = structlog.get_logger(__name__)

MISSES = 2
"""How many reads must say "unknown job", begun MISS_APART seconds apart, before a job counts as vanished."""

MISS_APART = 1.0

GATHER = 10.0
"""Seconds for which a workload's job must be missing before it may end: until then it shows how many others are."""

SPARED_TEXT = (
    "Its Slurm job is missing: the Pod would be ended, but orphans.dryRun is set in the extender's configuration. "
    "Its node takes no other job meanwhile."
)

NODES_UNKNOWN_TEXT = (
    "Its Slurm job is missing, and so is its Slurm node: slurmrestd may belong to another cluster. No Pod is ended "
    f"until an administrator confirms it ({RUNBOOK_FOR_MISSING_JOBS})."
)

HOW_TO_RELEASE = (
    "many jobs are missing at once: check slurmctld. No Pod is ended meanwhile. If the jobs are gone, delete the Pods, "
    f"or confirm as in {RUNBOOK_FOR_MISSING_JOBS}; if the jobs return, nothing has to be done"
)


class MissingJobTracker:
    """Count misses, and let the mass-deletion guard decide. `alive` is how many placeholder jobs there are."""

    def __init__(
        self,
        clock: Clock,
        announcer: Announcer,
        mass_deletion_guard: MassDeletionGuard,
        events: EventBus,
        alive: Callable[[], int],
    ) -> None:
        self._mass_deletion_guard = mass_deletion_guard
        self._dry_run = mass_deletion_guard.dry_run
        self.count = OrphanCount()
        self._clock = clock
        self._events = events
        self._announcer = announcer
        self._alive = alive
        self._misses: dict[str, tuple[int, int, float]] = {}
        """By workload: the job, how many reads did not find it, and when the first began."""

        self._missing: dict[str, float] = {}
        """When the end of a workload was asked for first, and neither was it allowed nor did its job come back."""

        self._doubted: set[str] = set()
        """Workloads with Pods on nodes whose job was not there when Slurm was last asked."""

        self._held: set[str] = set()
        """Workloads whose end the mass-deletion guard holds back."""

        self._excused: set[str] = set()
        """Workloads whose end an administrator has confirmed."""

        events.subscribe(MassDeletionConfirmed, self._confirmed)

    def doubt(self, key: str) -> None:
        """Report that the job of this workload, whose Pods are on nodes, is missing: to Slurm these are free."""
        if key not in self._doubted:
            self._doubted.add(key)
            self._notify(key, True)

    def missed(self, key: str, job_id: int, began: float) -> bool:
        """Count a read that began then and did not find this job; return whether it counts as vanished by now."""
        missed, count, since = self._misses.get(key, (job_id, 0, began))
        if missed != job_id:
            count, since = 0, began
        self._misses[key] = (job_id, min(count + 1, MISSES), since)
        return count + 1 >= MISSES and began - since >= MISS_APART

    def misses(self, key: str) -> bool:
        """Return whether the last read of this workload's job did not find it, or the guard keeps the workload."""
        return key in self._misses or key in self._held

    def seen(self, key: str) -> None:
        """Forget what was missing of a workload, since its job was found, or the workload is over."""
        self._misses.pop(key, None)
        self._missing.pop(key, None)
        self._excused.discard(key)
        if key in self._doubted | self._held:
            self._doubted.discard(key)
            self._held.discard(key)
            self._notify(key, False)
            if not self._held and self._mass_deletion_guard.engaged:
                self._mass_deletion_guard.disengage()
                _log.warning("mass_deletion_guard_disengaged", why="nothing is missing any more")

    def may_end(self, key: str, job_id: int | None, refs: Sequence[MemberRef], *, nodes_unknown: bool = False) -> bool:
        """Return whether the mass-deletion guard allows that this workload may be ended because its job is missing.

        `nodes_unknown`: this Slurm does not know its nodes either, so that only an administrator can decide.

        The answer is no at first: an extender that misses many jobs finds them one after the other, again after each
        start, and would end the first few before it knew of the rest.
        """
        now, before = self._clock.now(), self._mass_deletion_guard.engaged
        if key not in self._missing and key not in self._excused:
            self.count.found[Orphan.POD] += 1
        if key in self._excused and not self._dry_run:
            self.count.ended[Orphan.POD] += 1
            return True
        since = self._missing.setdefault(key, now)
        if not before and now - since < GATHER:
            return False
        if self._dry_run:
            self._hold(key, job_id, refs, SPARED_TEXT)
            return False
        if nodes_unknown:
            self._hold(key, job_id, refs, NODES_UNKNOWN_TEXT)
            return False
        if self._mass_deletion_guard.allows_eviction(len(self._missing), self._alive()):
            del self._missing[key]
            self.count.ended[Orphan.POD] += 1
            _log.warning("pod_without_job_ended", pod=_names(refs), workload=key, job_id=job_id)
            return True
        if not before:
            _log.error("mass_deletion_guard_engaged", what=HOW_TO_RELEASE)
        self._hold(key, job_id, refs, _held_text(job_id))
        return False

    @property
    def held(self) -> Set[str]:
        """Return the workloads that run on although their job is missing."""
        return self._held

    def _hold(self, key: str, job_id: int | None, refs: Sequence[MemberRef], text: str) -> None:
        if key in self._held:
            return
        self._held.add(key)
        if self._dry_run:
            self.count.spared[Orphan.POD] += 1
            _log.warning("pod_would_be_ended", pod=_names(refs), workload=key, job_id=job_id, why=text)
        else:
            self.count.held[Orphan.POD] += 1
            _log.error("eviction_paused", pod=_names(refs), workload=key, job_id=job_id)
        for ref in refs:
            announcement = Announcement(
                "Pod", ref.namespace, ref.name, ref.uid, Reason.EVICTION_PAUSED, text, warning=True
            )
            self._announcer.announce(announcement)
        self._notify(key, True)

    def _confirmed(self, _event: MassDeletionConfirmed) -> None:
        """End the workloads that are held back now."""
        if self._dry_run:
            return
        _log.warning("mass_deletion_guard_disengaged", why="an administrator confirmed", workloads=len(self._held))
        self._excused |= self._held
        self._doubted |= self._held  # those that were notified of a missing job are notified when it exists again
        self._held.clear()
        self._mass_deletion_guard.disengage()

    def _notify(self, key: str, held: bool) -> None:
        self._events.publish(JobMissing(key, held))


def _held_text(job_id: int | None) -> str:
    job = "The Slurm job" if job_id is None else f"Slurm job {job_id}"
    return (
        f"{job} of this Pod and many others are missing; evictions are paused. "
        f"Check slurmctld, then confirm ({RUNBOOK_FOR_MISSING_JOBS})."
    )


def _names(refs: Sequence[MemberRef]) -> str:
    return shortened([ref.full_name for ref in refs], MOST_NAMED)


class Orphan(StrEnum):
    """The half of a pair of Pod and job that is left."""

    JOB = "job"
    """A placeholder job without a Pod."""

    POD = "pod"
    """A running Pod of this scheduler without a job."""


@dataclass(slots=True)
class OrphanCount:
    """Since the start. `spared`: would have been ended, but for the dry run, or since its Pod is there after all."""

    found: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    spared: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    """Held back at some time because there were many."""


class PolledJobStates:
    """Handle the polled states of jobs for every workload that claims the job, since Slurm may reuse a job id."""

    def __init__(self, workloads: Placeholders, missing_jobs: MissingJobTracker, notify: EmitEvent) -> None:
        self._workloads = workloads
        self._missing_jobs = missing_jobs
        self._notify = notify

    def end_known(self, job_id: int) -> bool:
        """Return whether every workload of this job knows that it has ended, and ends its Pods."""
        return all(_has_lost(p, job_id) for p in self._workloads.all_by_job(job_id))

    def needs_no_reading(self, job_id: int) -> bool:
        """Return whether the job's state suffices for its workloads: they only lack whether it has ended."""
        return all(_has_lost(p, job_id) or _is_ending(p, job_id) for p in self._workloads.all_by_job(job_id))

    def read_later(self, job_id: int) -> bool:
        """Return whether every workload that names this pending job reads it soon anyway."""
        return all(_is_unread(p) and p.job_id == job_id for p in self._workloads.all_by_job(job_id))

    def handle_end(self, job_id: int) -> bool:
        """Handle the end of a job in the polled states. False: some workload needs to know more; read the job.

        A workload that is ending its job needs no more: the job was read as its own before, and while slurmctld knows
        the job, its id is not given out again. Every other workload needs to know why and how the job ended, unless it
        has read that already and ends its Pods.
        """
        workloads = self._workloads.all_by_job(job_id)
        ending = [p.key for p in workloads if _is_ending(p, job_id)]
        if not workloads or any(not (p.key in ending or _has_lost(p, job_id)) for p in workloads):
            return False
        for key in ending:
            self._notify(key, e.JobEnded(job_id, e.EndKind.CANCELLED), "states of jobs")
        return True

    def doubt(self, job_id: int) -> None:
        """Have a placeholder job read that is absent from the polled states."""
        for p in self._workloads.all_by_job(job_id):
            if p.job_occupied and p.job_id == job_id and p.state is not State.LOST:
                self._missing_jobs.doubt(p.key)


def _is_unread(p: Placeholder) -> bool:
    return isinstance(p.payload, WaitingState) and p.payload.unread


def _is_ending(p: Placeholder, job_id: int) -> bool:
    return p.state is State.RELEASING and p.job_id == job_id


def _has_lost(p: Placeholder, job_id: int) -> bool:
    """Return whether this workload knows that its job has ended, and its Pods are being ended."""
    return p.outlives_job and p.job_id == job_id
