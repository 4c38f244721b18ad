"""SUBMITTING: a request for a job is under way, and is always answered with an event."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    announce,
    enter_waiting,
    find_job_of_binding,
    proceed_without_job,
    refuse,
    release_job,
    retry_later,
    send_exclusions,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import PlaceholderJob, SubmittingState, UnsureState, WaitingState
from extender.domain.wellknown import Reason

NO_SUCH_NODE = frozenset({2014, 2018, 2029, 2072})
"""ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, ESLURM_INVALID_NODE_NAME, ESLURM_INVALID_FEATURE and ESLURM_INVALID_GRES
(`slurm_errno.h`): other nodes may have it. The second also says that a node is required and excluded at once, as while
its Node is in dispute."""


def _accepted(p: Placeholder, _submitting: SubmittingState, event: e.SubmitAccepted, at: At) -> Step:
    """Wait for the job that Slurm created, or release it if the Pod changed or left meanwhile."""
    # The id may be one of the past, which slurmctld gives out again after it lost its state.
    duplicates = p.duplicate_jobs - {event.job_id}
    p = replace(p, duplicate_jobs=duplicates, queue_next=False, fits_nowhere=False, reason="")
    waiting = WaitingState(PlaceholderJob(event.job_id, event.mode, event.excluded), unread=event.behind)
    if p.job_occupied or not p.wants or p.request != p.submitted_request:
        why = "the Pod changed or left while its job was being submitted"
        return release_job(replace(p, payload=waiting), why, at)
    announcement = announce(p, Reason.JOB_SUBMITTED, f"Slurm job {event.job_id} was submitted.")
    after, commands = send_exclusions(enter_waiting(p, waiting, at), waiting)
    if event.behind:
        return replace(after, timer_at=at.now + at.timing.first_read), [announcement, *commands]
    return after, [announcement, c.ReadJob(event.job_id), *commands]


def _rejected(p: Placeholder, _submitting: SubmittingState, event: e.SubmitRefused, at: At) -> Step:
    """Handle a rejection: Slurm created no job."""
    if event.attempt != p.attempt:
        return p, []
    if p.job_occupied or not p.wants or p.request != p.submitted_request:
        return proceed_without_job(p, at)
    if event.queue and not p.queue_next:
        return proceed_without_job(replace(p, queue_next=True), at)
    if event.nowhere:
        return retry_later(replace(p, fits_nowhere=True), at, event.text, Reason.NO_SUITABLE_NODE)
    if event.permanent and p.refused_nodes:
        # The node that the Pods need may be one that was granted before and could not be used.
        return retry_later(replace(p, refused_nodes=frozenset()), at, event.text)
    if event.permanent:
        return refuse(replace(p, fits_nowhere=event.number in NO_SUCH_NODE), Reason.JOB_REJECTED, event.text)
    return retry_later(p, at, event.text)


def _unanswered(p: Placeholder, _submitting: SubmittingState, event: e.SubmitUnknown, at: At) -> Step:
    """Search for the job before anything is sent, since the answer was lost or a job exists already."""
    if event.attempt != p.attempt:
        return p, []
    if not event.sent:
        p = replace(p, submitted_request=None)
    unsure = UnsureState(sure_at=at.now + at.timing.settle)
    return replace(p, payload=unsure, reason=event.text, timer_at=at.now + at.timing.probe), []


def _bound(p: Placeholder, _submitting: SubmittingState, event: e.PodBound, at: At) -> Step:
    """Search for the job of a recorded Binding: it cannot be the job that is being submitted."""
    return (p, []) if event.job_id is None else find_job_of_binding(p, event.job_id, at)


RULES = StateRules(SubmittingState)
RULES.on(_accepted, e.SubmitAccepted, to=(State.WAITING, State.RELEASING))
RULES.on(_rejected, e.SubmitRefused, to=(State.ABSENT, State.REFUSED, State.GONE))
RULES.on(_unanswered, e.SubmitUnknown, to=(State.UNSURE,))
RULES.on(_bound, e.PodBound, to=(State.UNSURE,))
RULES.ignore(
    "recorded; acted on when the job is known or certainly absent",
    *(e.PodWanted, e.PodRefused, e.CandidatesChanged, e.SlurmSnapshotChanged),
    *(e.PodEnding, e.PodGone, e.BindStarted, e.BindFailed),
)
RULES.ignore("no job is known", e.JobWaiting, e.JobGranted, e.JobEnding, e.JobEnded)
RULES.ignore("the request is under way and always answered with an event", e.TimerFired)
RULES.ignore_late_answers(e.SubmitAccepted, e.SubmitRefused, e.SubmitUnknown)
