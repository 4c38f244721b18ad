"""Discard an answer about a job that is older than one that was used already.

The poll, a hint, the refresh, a hook and a command read jobs independently of each other. The age of an answer is the
instant of its request. A probe reports jobs that exist and ends, which no later answer contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from itertools import count

from extender.domain.ports import Clock

SPARE = 64
"""Entries that may be kept beyond twice the live jobs, before those of dead ones are dropped."""


@dataclass(frozen=True, slots=True, order=True)
class RequestTime:
    """The instant of a request; the number orders requests of the same instant."""

    at: float
    number: int


class JobReadVersions:
    """Order the answers about each job. `live` are the jobs that matter now."""

    def __init__(self, clock: Clock, live: Callable[[], Set[int]]) -> None:
        self._clock = clock
        self._live = live
        self._number = count()
        self._notified: dict[int, RequestTime] = {}
        self._states: dict[int, frozenset[str]] = {}
        self._wanted: dict[tuple[str, int], RequestTime] = {}
        """Since when each workload waits for an answer about its job."""

        self._doubted: dict[int, RequestTime] = {}

    def __len__(self) -> int:
        return len(self._notified)

    def next_request_time(self) -> RequestTime:
        """Assign a number to a read that is sent now."""
        return RequestTime(self._clock.now(), next(self._number))

    def want(self, key: str, job_id: int) -> None:
        """Record that this workload wants an answer about its job that is requested from now on."""
        self._wanted[key, job_id] = self.next_request_time()

    def delivered(self, key: str, job_id: int, requested_at: RequestTime) -> None:
        """Record that this workload received an answer about its job, by the instant of its request."""
        if (since := self._wanted.get((key, job_id))) is not None and since < requested_at:
            del self._wanted[key, job_id]

    def still_wanted(self, key: str, job_id: int) -> bool:
        """Return whether the workload still waits for an answer; the caller requests it now, if so."""
        return self._wanted.pop((key, job_id), None) is not None

    def doubt(self, job_id: int) -> None:
        """Discard what is known of the job, since it may be ending."""
        self._doubted[job_id] = self.next_request_time()

    def doubted(self, job_id: int | None) -> bool:
        """Return whether every answer about this job is older than the doubt."""
        since, last = self._doubted.get(job_id or 0), self._notified.get(job_id or 0)
        return since is not None and (last is None or last < since)

    def notified_since(self, job_id: int, at: float) -> bool:
        """Return whether an answer to a request of that instant or later has been used."""
        last = self._notified.get(job_id)
        return last is not None and last.at >= at

    def notified_after(self, job_id: int, requested_at: RequestTime) -> bool:
        """Return whether an answer to a later request than this one has been used."""
        last = self._notified.get(job_id)
        return last is not None and requested_at < last

    def states(self, job_id: int) -> frozenset[str] | None:
        """Return the state words of the latest answer about this job; `None`: no answer, or there was no such job."""
        return self._states.get(job_id)

    def note(self, job_id: int, states: frozenset[str] | None) -> None:
        """Record the state words of the latest answer."""
        if states is None:
            self._states.pop(job_id, None)
        else:
            self._states[job_id] = states

    def is_news(self, job_id: int, requested_at: RequestTime) -> bool:
        """Return whether no later request has been answered; if so, this answer becomes the latest."""
        last = self._notified.get(job_id)
        if last is not None and requested_at < last:
            return False
        self._notified[job_id] = requested_at
        live = self._live()
        if max(len(self._notified), len(self._doubted)) > 2 * len(live) + SPARE:
            self._notified = {job: when for job, when in self._notified.items() if job in live}
            self._states = {job: states for job, states in self._states.items() if job in live}
            self._doubted = {job: when for job, when in self._doubted.items() if job in live}
        return True
