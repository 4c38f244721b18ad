"""What the states of all jobs say of ours, before any of them is read."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.placeholder import Placeholder, State
from extender.engine.emit_event import EmitEvent
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.units import Units


class JobStates:
    """Answers for every unit that takes a job for its own: an id may be given out again."""

    def __init__(self, units: Units, missing_jobs: MissingJobTracker, tell: EmitEvent) -> None:
        self._units = units
        self._missing_jobs = missing_jobs
        self._tell = tell

    def end_known(self, job_id: int) -> bool:
        """Every unit whose job this is knows that it is over, and ends its Pods for it."""
        return all(_has_lost(p, job_id) for p in self._units.claiming(job_id))

    def needs_no_reading(self, job_id: int) -> bool:
        """The states of all jobs say all of this one that a unit has yet to know: whether it has ended at last."""
        return all(_has_lost(p, job_id) or _is_ending(p, job_id) for p in self._units.claiming(job_id))

    def read_later(self, job_id: int) -> bool:
        """That this one waits says nothing new: every unit whose job it is reads it soon, to tell why."""
        return all(p.unread and p.job_id == job_id for p in self._units.claiming(job_id))

    def over(self, job_id: int) -> bool:
        """The states of all jobs say that this one is over. False: some unit needs to know more; the job is to be read.

        Who is ending its job needs no more: it was read as the unit's own before it was ended, and while it is known
        its id is not given out again. Why it ended, and how, matters to everybody else; who has read that already, and
        ends its Pods for it, needs nothing.
        """
        units = self._units.claiming(job_id)
        ending = [p.key for p in units if _is_ending(p, job_id)]
        if not units or any(not (p.key in ending or _has_lost(p, job_id)) for p in units):
            return False
        for key in ending:
            self._tell(key, e.JobEnded(job_id, e.EndKind.CANCELLED), "states of jobs")
        return True

    def doubt(self, job_id: int) -> None:
        """A job of ours is not among the states any more; it is to be read."""
        for p in self._units.claiming(job_id):
            if p.charged and p.job_id == job_id and p.state is not State.LOST:
                self._missing_jobs.doubt(p.key)


def _is_ending(p: Placeholder, job_id: int) -> bool:
    return p.state is State.RELEASING and p.job_id == job_id


def _has_lost(p: Placeholder, job_id: int) -> bool:
    """Whether it is known to this unit that its job is over for good, and its Pods are being ended."""
    return p.state is State.LOST and p.job_id == job_id and not p.job_alive
