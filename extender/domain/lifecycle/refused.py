"""REFUSED: the translation, Slurm or a user rejected the request; no job exists and none is submitted."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    delay_next_attempt,
    find_job_of_binding,
    proceed_without_job,
    record_cancel,
    with_payload,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import RefusedState


def _nodes_changed(p: Placeholder, _refused: RefusedState, _event: e.Event, at: At) -> Step:
    """Submit a request once more that Slurm rejected for the nodes of that time, and not for every change."""
    if not (p.fits_nowhere and p.wants) or p.faults or p.cancelled is not None:
        return p, []
    return proceed_without_job(delay_next_attempt(replace(p, fits_nowhere=False), at), at)


def _request_changed(p: Placeholder, _refused: RefusedState, _event: e.PodWanted, at: At) -> Step:
    """Try again, since the Pods request something else."""
    if p.request == p.submitted_request or p.placed:
        return p, []
    return proceed_without_job(replace(p, failures=0, retry_at=0.0), at)


def _refused_again(p: Placeholder, _refused: RefusedState, _event: e.PodRefused, at: At) -> Step:
    """Refuse again, since the settings are unusable for another reason, or a gang lacks a member again."""
    return (p, []) if p.reason == "; ".join(p.faults) or p.placed else proceed_without_job(p, at)


def _bound(p: Placeholder, _refused: RefusedState, event: e.PodBound, at: At) -> Step:
    """Search for the job of a Binding that an earlier process sent. Any other Binding is respected."""
    return (p, []) if event.job_id is None else find_job_of_binding(p, event.job_id, at)


def _pod_gone(p: Placeholder, _refused: RefusedState, _event: e.PodGone, at: At) -> Step:
    """Proceed once every member has finished; no job exists."""
    return proceed_without_job(p, at) if p.is_finished else (p, [])


def _cancel_recorded(p: Placeholder, refused: RefusedState, event: e.CancelNoted, at: At) -> Step:
    """Record that the user's cancel is written on the Pod, or write it again later."""
    if event.uid not in refused.unrecorded:
        return p, []
    if event.accepted:
        return with_payload(p, RefusedState(refused.unrecorded - {event.uid})), []
    return replace(p, timer_at=at.now + at.timing.cancel_retry_most), []


def _record_due(p: Placeholder, refused: RefusedState, _event: e.TimerFired, _at: At) -> Step:
    """Write the cancel again on the Pods for which the API server did not accept it."""
    return p, record_cancel(p, refused.unrecorded)


RULES = StateRules(RefusedState)
RULES.on(_nodes_changed, e.CandidatesChanged, e.SlurmSnapshotChanged, to=(State.ABSENT,))
RULES.on(_request_changed, e.PodWanted, to=(State.SUBMITTING, State.ABSENT))
RULES.on(_refused_again, e.PodRefused, to=(State.ABSENT,))
RULES.on(_bound, e.PodBound, to=(State.UNSURE, State.REFUSED))
RULES.on(_pod_gone, e.PodGone, to=(State.GONE,))
RULES.on(_cancel_recorded, e.CancelNoted)
RULES.on(_record_due, e.TimerFired)
RULES.ignore("recorded; the end follows", e.PodEnding)
RULES.ignore("recorded; no node is offered here", e.BindStarted, e.BindFailed)
RULES.ignore("no job is known", e.JobWaiting, e.JobGranted, e.JobEnding, e.JobEnded)
RULES.ignore_late_answers(e.CancelNoted)
