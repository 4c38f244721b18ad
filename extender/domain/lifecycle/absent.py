"""ABSENT: no job exists and none can; the workload waits for a request, candidate nodes, or the end of a back-off."""

from __future__ import annotations

from extender.domain import events as e
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import find_job_of_binding, proceed_without_job
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import AbsentState


def _changed(p: Placeholder, _absent: AbsentState, event: e.Event, at: At) -> Step:
    """Try again, since something that an attempt needs may be available now."""
    other_nodes = isinstance(event, e.CandidatesChanged) or p.request != p.submitted_request
    return proceed_without_job(replace(p, retry_at=0.0) if p.fits_nowhere and other_nodes else p, at)


def _nodes_changed(p: Placeholder, _absent: AbsentState, _event: e.SlurmSnapshotChanged, at: At) -> Step:
    """Submit a request that fitted on no node at once, since nodes were added or resized."""
    return proceed_without_job(replace(p, retry_at=0.0), at) if p.fits_nowhere else (p, [])


def _bound(p: Placeholder, _absent: AbsentState, event: e.PodBound, at: At) -> Step:
    """Search for the job of a Binding that an earlier process sent. Any other Binding is respected."""
    return proceed_without_job(p, at) if event.job_id is None else find_job_of_binding(p, event.job_id, at)


def _pod_gone(p: Placeholder, _absent: AbsentState, _event: e.PodGone, at: At) -> Step:
    """Proceed once every member has finished; no job exists."""
    return proceed_without_job(p, at) if p.is_finished else (p, [])


RULES = StateRules(AbsentState)
RULES.on(_changed, e.PodWanted, to=(State.SUBMITTING, State.REFUSED))
RULES.on(_changed, e.CandidatesChanged, e.TimerFired, to=(State.SUBMITTING,))
RULES.on(_changed, e.PodRefused, to=(State.REFUSED,))
RULES.on(_nodes_changed, e.SlurmSnapshotChanged, to=(State.SUBMITTING,))
RULES.on(_bound, e.PodBound, to=(State.UNSURE, State.REFUSED))
RULES.on(_pod_gone, e.PodGone, to=(State.GONE,))
RULES.ignore("recorded; the end follows", e.PodEnding)
RULES.ignore("recorded; no node is offered here", e.BindStarted, e.BindFailed)
RULES.ignore("no job is known", e.JobWaiting, e.JobGranted, e.JobEnding, e.JobEnded)
RULES.ignore_late_answers()
