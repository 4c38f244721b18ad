"""RELEASING: the job is being cancelled, and its end has to be observed."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.backoff import Backoff
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    find_job_of_binding,
    lose_allocation,
    proceed_without_job,
    script_exit,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import ReleasingState

SOFT_TRIES = 2
"""How often a script is asked to end by itself, and how often a note is tried."""


def _proceed(p: Placeholder, at: At) -> Step:
    return proceed_without_job(replace(p, queue_next=False), at)


def _cancel_answered(p: Placeholder, _releasing: ReleasingState, event: e.CancelAnswered, at: At) -> Step:
    """Wait for the end after an accepted cancel, unless the answer shows that the job has ended."""
    return _proceed(p, at) if event.job_ended and event.job_id == p.job_id else (p, [])


def _job_ended(p: Placeholder, _releasing: ReleasingState, event: e.JobEnded, at: At) -> Step:
    """Proceed, since the end was observed."""
    return (p, []) if event.alive else _proceed(p, at)


def _cancel_due(p: Placeholder, releasing: ReleasingState, _event: e.TimerFired, at: At) -> Step:
    """Repeat the cancel, and read the job.

    A script is asked twice to end, then its job is cancelled: Slurm accepts and loses a signal that reaches bash
    before its traps are set, or slurmd before the script is started (24.11.5).
    """
    cancels, job_id = releasing.cancels + 1, releasing.job.job_id
    wait = Backoff(at.timing.cancel_retry, at.timing.cancel_retry_most).after(cancels + 1)
    softly = cancels < SOFT_TRIES
    cancel = c.CancelJob(job_id, p.reason, p.outcome if softly else "", script_exit(p) if softly else None)
    after = replace(p, payload=replace(releasing, cancels=cancels), timer_at=at.now + wait)
    return after, [cancel, c.ReadJob(job_id)]


def _bound(p: Placeholder, _releasing: ReleasingState, event: e.PodBound, at: At) -> Step:
    """End a Pod that the extender bound although its job is being released."""
    if not p.job_occupied:
        return p, []
    if event.job_id not in {None, p.job_id}:
        return find_job_of_binding(p, event.job_id, at)
    return lose_allocation(p, e.EndKind.FAILED, f"Slurm job {event.job_id} was released.", at, job_alive=True)


RULES = StateRules(ReleasingState)
RULES.on(_cancel_answered, e.CancelAnswered, to=(State.ABSENT, State.SUBMITTING, State.REFUSED, State.GONE))
RULES.on(_job_ended, e.JobEnded, to=(State.ABSENT, State.SUBMITTING, State.REFUSED, State.GONE))
RULES.on(_cancel_due, e.TimerFired)
RULES.on(_bound, e.PodBound, to=(State.LOST, State.UNSURE))
RULES.ignore("its end is under way", e.JobWaiting, e.JobGranted, e.JobEnding)
RULES.ignore(
    "recorded; acted on when the end is observed",
    *(e.PodWanted, e.PodRefused, e.CandidatesChanged, e.SlurmSnapshotChanged),
    *(e.PodEnding, e.PodGone, e.BindStarted, e.BindFailed),
)
RULES.ignore_late_answers(e.CancelAnswered)
