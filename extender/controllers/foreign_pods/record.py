"""Record what is known of one foreign Pod, also after its end: its jobs, and the next action."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from extender.domain.backoff import Backoff
from extender.domain.foreign_pods.foreign_pod import ForeignPod, ForeignPodJob, own_and_duplicates
from extender.domain.foreign_pods.mark import ForeignPodMark
from extender.domain.job_outcomes.slurm_states import ENDED_STATES
from extender.domain.jobs.job import JobView

AGAIN_AFTER = 5.0
"""Seconds before a request is repeated that failed, or whose effect has not been seen."""

APPEARS_WITHIN = 10.0
"""Seconds within which a job that was granted is among the polled states, and runs."""

SHORT_LIFE = 60.0
"""Seconds within which a job of a Pod that is there ends too soon: one such is followed by another at once, several in
a row ever later. Each leaves a record in slurmctld for MinJobAge, and records count against MaxJobCount."""

REST_MOST = 60.0


class Need(IntEnum):
    """The next action for a foreign Pod, the most urgent first."""

    END = 0
    SEARCH = 1
    START = 2


@dataclass(slots=True)
class HeldJob:
    """One of its jobs. `since` is when it was found or made, `ended_at` when its end was asked last."""

    job: ForeignPodJob
    since: float
    ended_at: float | None = None


@dataclass(slots=True)
class ForeignPodRecord:
    """`foreign_pod` `None`: nothing is to be held any more. `gone_at`: since when its Pod is not there.

    `left`: its watch or its kubelet said so, or it is there and is to hold nothing.
    """

    foreign_pod: ForeignPod | None = None
    jobs: dict[int, HeldJob] = field(default_factory=dict)
    searched: bool = False
    """Its jobs were searched for by name, and nothing since leaves any doubt."""

    not_before: float = 0.0
    refused: str = ""
    """Slurm's words where it refused the job as such."""

    gone_at: float | None = None
    left: bool = False
    short_lives: int = 0
    """Jobs in a row that ended soon and that the extender did not end."""

    @property
    def held(self) -> bool:
        """Return whether a job runs that holds the resources of the foreign Pod."""
        if self.foreign_pod is None:
            return False
        own, _ = own_and_duplicates(self.foreign_pod, [one.job for one in self.jobs.values()])
        return own is not None and own.runs

    def own(self, now: float, *, short: bool, full: bool) -> tuple[ForeignPodJob | None, tuple[ForeignPodJob, ...]]:
        """Return its own job, and those to be ended: one that waits is its own only while its node is to take it.

        `short`: its node had no room, or has none still, `full`.
        """
        if self.foreign_pod is None:
            return None, tuple(one.job for one in self.jobs.values())
        own, duplicates = own_and_duplicates(self.foreign_pod, [one.job for one in self.jobs.values()])
        if own is None or own.runs:
            return own, duplicates
        late = now - self.jobs[own.job_id].since >= APPEARS_WITHIN
        return (None, (*duplicates, own)) if full or (late and not short) else (own, duplicates)

    def need(self, now: float, *, short: bool, full: bool) -> Need | None:
        """Return the next action for a Pod that exists; ends before starts, so that two sizes never count at once."""
        if not self.searched:
            return Need.SEARCH
        own, duplicates = self.own(now, short=short, full=full)
        if duplicates:
            return Need.END if due((self.jobs[one.job_id] for one in duplicates), now) else None
        return None if own is not None or full else Need.START

    def takes(self, mark: ForeignPodMark) -> bool:
        """Return whether a job that runs with this mark holds what the foreign Pod is to hold and does not hold yet."""
        if self.foreign_pod is None or (mark.node, mark.size) != (self.foreign_pod.node, self.foreign_pod.size):
            return False
        return not any(one.job.runs for one in self.jobs.values())

    def notified(self, job_id: int, states: frozenset[str], now: float) -> bool:
        """Record the states of one of its own jobs from the states of all; return whether they are news."""
        one, runs = self.jobs[job_id], "RUNNING" in states
        if states & ENDED_STATES:
            del self.jobs[job_id]
            self.searched = False
            if self.foreign_pod is not None and one.ended_at is None:
                self._rest(one, "+".join(sorted(states)), now)
        elif not states and now - one.since >= APPEARS_WITHIN:
            self.searched = False  # a missing state proves nothing: search by name
        elif states and runs != one.job.runs:
            one.job = ForeignPodJob(one.job.job_id, one.job.node, one.job.size, runs)
        else:
            return False
        return True

    def _rest(self, one: HeldJob, ended_states: str, now: float) -> None:
        lived = now - one.since
        self.short_lives = self.short_lives + 1 if lived < SHORT_LIFE else 0
        if self.short_lives > 1:
            self.not_before = now + Backoff(2.0, REST_MOST).after(self.short_lives)
            self.refused = f"its job {one.job.job_id} was {ended_states} within {lived:.0f} s, and others before it"


def due(jobs: Iterable[HeldJob], now: float) -> bool:
    """Return whether the end of any of these is to be requested, or requested again."""
    return any(one.ended_at is None or now - one.ended_at >= AGAIN_AFTER for one in jobs)


def foreign_pod_job(job: JobView, mark: ForeignPodMark) -> ForeignPodJob:
    """Convert a job as it was read."""
    return ForeignPodJob(job.job_id, mark.node, mark.size, job.state == "RUNNING")
