"""WAITING: the job is pending in Slurm."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.job_outcomes.transition_table import (
    TRANSITIONS,
    JobCondition,
    condition_of_event,
    states_after,
)
from extender.domain.jobs.changes import can_follow
from extender.domain.lifecycle.granted import accept_grant, job_with_nodes, lacks_nodes
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    announce,
    back_off,
    enter_bound,
    find_job_of_binding,
    follow_job,
    infer_submitted_request,
    release_job,
    release_misbound,
    send_exclusions,
    send_updates,
    with_payload,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import GrantedState, JobUpdate, WaitingState
from extender.domain.wellknown import Reason

_COLUMNS = (State.WAITING, State.BOUND)
"""A Pod may run on a job that waits: Slurm has put it back into its queue, or an earlier process bound the Pod."""


def _queued(p: Placeholder, waiting: WaitingState, event: e.JobWaiting, at: At) -> Step:
    """Show users Slurm's reason why the job is queued."""
    if p.job_occupied:
        return follow_job(p, State.WAITING, event, at)
    if waiting.doubted_since is not None or waiting.unread:
        p = replace(p, payload=replace(waiting, doubted_since=None, unread=False))
    if event.reason == p.reason:
        return p, []
    text = f"Slurm job {event.job_id} waits: {event.reason.removesuffix('.')}."
    return replace(p, reason=event.reason), _report(p, JobCondition.QUEUED, text) if event.reason else []


def _granted(p: Placeholder, waiting: WaitingState, event: e.JobGranted, at: At) -> Step:
    """Accept the nodes that Slurm gave the job."""
    waiting = replace(waiting, job=job_with_nodes(waiting.job, event))
    p = replace(p, payload=waiting, reason="")
    if lacks_nodes(p, event) and p.job_occupied:
        return _runs_on_unnamed_nodes(p, waiting, at)
    if lacks_nodes(p, event) and not event.lacking:
        waiting, read_at = _doubt(waiting, at)
        if read_at is not None:
            return replace(p, payload=waiting, timer_at=read_at), []
    return accept_grant(p, GrantedState(waiting.job, ()), event, at)


def _runs_on_unnamed_nodes(p: Placeholder, waiting: WaitingState, at: At) -> Step:
    """Keep running Pods on a job whose nodes have no Kubernetes names just now: no Pod is ended for want of a name."""
    if p.unsettled:
        return replace(p, timer_at=at.now + at.timing.cancel_retry), []
    stays = tuple(sorted((m.ref.uid, m.node) for m in p.members if m.placed and not m.unknown))
    return enter_bound(p, waiting.job, stays, limit_at=None), []  # the next read shows its time limit


def _doubt(waiting: WaitingState, at: At) -> tuple[WaitingState, float | None]:
    """Return when to read the job again before it is judged; `None`: it has been in doubt for long enough."""
    since = at.now if waiting.doubted_since is None else waiting.doubted_since
    if at.now - since >= at.timing.doubt:
        return waiting, None
    return replace(waiting, doubted_since=since, unread=False), at.now + at.timing.cancel_retry


def _report(p: Placeholder, condition: JobCondition, text: str) -> list[c.Command]:
    reason = TRANSITIONS[condition][State.WAITING].event
    return [] if reason is None else [announce(p, reason, text)]


def _ended(p: Placeholder, waiting: WaitingState, event: e.JobEnded, at: At) -> Step:
    """Follow a job that ended before its grant, or release one that can never run."""
    condition = condition_of_event(event)
    if p.job_occupied or not TRANSITIONS[condition][State.WAITING].doubted:
        return follow_job(p, State.WAITING, event, at)
    waiting, read_at = _doubt(waiting, at)
    if read_at is None:
        # Its end is followed by a refusal with Slurm's reason.
        return release_job(replace(p, refusal=event.text, fits_nowhere=event.nowhere), event.text, at)
    p = replace(p, payload=waiting, timer_at=read_at)
    announcements = (
        _report(p, condition, f"Slurm job {event.job_id} waits: {event.text}") if event.text != p.reason else []
    )
    return replace(p, reason=event.text), announcements


def _nodes_changed(p: Placeholder, waiting: WaitingState, _event: e.Event, _at: At) -> Step:
    """Send the excluded nodes of the pending job, if they changed."""
    return send_exclusions(p, waiting)


def _exclusions_answered(p: Placeholder, waiting: WaitingState, event: e.FollowAnswered, at: At) -> Step:
    """Record the excluded nodes that Slurm has, or send them again later."""
    waiting = replace(waiting, update=None) if waiting.update is JobUpdate.EXCLUDED_NODES else waiting
    if event.excluded is None:
        return replace(p, payload=waiting, exclusions_changed=True, timer_at=at.now + at.timing.cancel_retry), []
    return send_updates(p, replace(waiting, job=replace(waiting.job, excluded_sent=event.excluded)))


def _settings_answered(p: Placeholder, waiting: WaitingState, event: e.UpdateAnswered, at: At) -> Step:
    """Record whether Slurm updated the job, or send the update again later; release a job that cannot be resized."""
    if waiting.update is not JobUpdate.SETTINGS:
        return p, []
    waiting = replace(waiting, update=None)
    if event.done is None:
        return replace(p, payload=waiting, timer_at=at.now + at.timing.cancel_retry), []
    if event.done:
        text = f"Slurm job {event.job_id} was updated to the Pod's new settings, and keeps its place in the queue."
        announcement = announce(p, Reason.JOB_UPDATED, text)
        p = replace(p, submitted_request=event.request, exclusions_changed=True)
        job = replace(waiting.job, excluded_sent=event.excluded, rejected_update=None)
    elif _resizes(p, event) and not p.job_occupied:
        text = f"Slurm job {event.job_id} has another size than the gang and is released. {event.text}".rstrip()
        return release_job(with_payload(p, waiting), text, at, announce(p, Reason.RETRYING, text))
    else:
        text = f"Slurm job {event.job_id} keeps its previous settings and stays in the queue: {event.text}"
        announcement = announce(p, Reason.JOB_UPDATE_REJECTED, text, True)
        job = replace(waiting.job, rejected_update=event.request)
    after, commands = send_updates(p, replace(waiting, job=job))
    return after, [announcement, *commands]


def _resizes(p: Placeholder, event: e.UpdateAnswered) -> bool:
    """Return whether the update was to give the job another number of members, without which no grant is usable."""
    return p.submitted_request is not None and p.submitted_request.members != event.request.members


def _timer(p: Placeholder, waiting: WaitingState, _event: e.TimerFired, at: At) -> Step:
    """Send what is owed; read the job while Pods run on it, it is in doubt, or its reason is unknown."""
    reads: list[c.Command] = []
    if p.job_occupied or waiting.doubted_since is not None:
        p, reads = _read(p, waiting, at)
    elif waiting.unread:
        # Slurm may not answer, or prepare its nodes, which shows nothing: less and less often.
        waiting = replace(waiting, reads=waiting.reads + 1)
        p, reads = replace(p, timer_at=at.now + back_off(waiting.reads, at.timing)), [c.ReadJob(waiting.job.job_id)]
    after, commands = send_updates(p, waiting)
    return after, [*commands, *reads]


def _read(p: Placeholder, waiting: WaitingState, at: At) -> Step:
    return replace(p, timer_at=at.now + at.timing.cancel_retry), [c.ReadJob(waiting.job.job_id)]


def _request_changed(p: Placeholder, waiting: WaitingState, _event: e.PodWanted, at: At) -> Step:
    """Update the pending job to the changed request, or release it for a new one."""
    p = infer_submitted_request(p)
    if p.request in (p.submitted_request, waiting.job.rejected_update) or p.job_occupied:
        return p, []
    if p.request is not None and p.submitted_request is not None and can_follow(p.submitted_request, p.request):
        return send_updates(p, waiting)
    text = "The Pod's request changed: its pending job is ended and a new one is submitted."
    return release_job(p, text, at, announce(p, Reason.RETRYING, text))


def _request_invalid(p: Placeholder, _waiting: WaitingState, _event: e.PodRefused, at: At) -> Step:
    """Release the job, since the settings of the Pods became unusable."""
    return (p, []) if p.job_occupied else release_job(p, "the Pod's settings became unusable", at)


def _pod_left(p: Placeholder, _waiting: WaitingState, _event: e.Event, at: At) -> Step:
    """Release the job, if no Pod waits for it any more."""
    return (p, []) if p.wants or p.job_occupied else release_job(p, "its Pod does not wait for it any more", at)


def _bound(p: Placeholder, waiting: WaitingState, event: e.PodBound, at: At) -> Step:
    """Handle a Binding that was sent without the extender, or by an earlier process, for this job or another."""
    if event.job_id is None:
        return (p, []) if p.wants or p.job_occupied else release_misbound(p, event.node, at)
    if event.job_id == p.job_id:
        return _read(p, waiting, at)
    return find_job_of_binding(p, event.job_id, at)


RULES = StateRules(WaitingState)
RULES.on(_queued, e.JobWaiting, to=states_after(e.JobWaiting, *_COLUMNS))
RULES.on(_granted, e.JobGranted, to=(State.GRANTED, State.BOUND, State.RELEASING, State.LOST))
RULES.on(_ended, e.JobEnded, to=states_after(e.JobEnded, *_COLUMNS))
RULES.on(_nodes_changed, e.CandidatesChanged, e.SlurmSnapshotChanged)
RULES.on(_exclusions_answered, e.FollowAnswered)
RULES.on(_settings_answered, e.UpdateAnswered, to=(State.RELEASING,))
RULES.on(_timer, e.TimerFired)
RULES.on(_request_changed, e.PodWanted, to=(State.RELEASING,))
RULES.on(_request_invalid, e.PodRefused, to=(State.RELEASING,))
RULES.on(_pod_left, e.PodEnding, e.PodGone, to=(State.RELEASING,))
RULES.on(_bound, e.PodBound, to=(State.RELEASING, State.UNSURE))
RULES.ignore("a pending job has no end to be warned of", e.JobEnding)
RULES.ignore("recorded; no node is offered here", e.BindStarted, e.BindFailed)
RULES.ignore_late_answers(e.FollowAnswered, e.UpdateAnswered)
