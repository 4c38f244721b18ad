"""Transitions that several states share: submit, refuse, retry, wait, release, lose, follow the job's condition."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.backoff import Backoff
from extender.domain.job_outcomes.pod_ends import ENDS
from extender.domain.job_outcomes.transition_table import TRANSITIONS, JobEvent, condition_of_event
from extender.domain.jobs.cancelled import HOW_TO_RESUBMIT, Cancelled, digest
from extender.domain.jobs.changes import NOT_SENT, can_follow, changed, while_running
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.jobs.request_digests import request_of_job
from extender.domain.jobs.resize import outgrown
from extender.domain.lifecycle.rules import At, Step
from extender.domain.placeholder import Placeholder, State, Timing
from extender.domain.renewal import replace
from extender.domain.states import (
    AbsentState,
    Allocation,
    BoundState,
    GoneState,
    GrantedState,
    JobUpdate,
    LostState,
    Payload,
    PlaceholderJob,
    RefusedState,
    ReleasingState,
    SubmittingState,
    UnsureState,
    WaitingState,
)
from extender.domain.wellknown import Reason

ANOTHER = "It is released, and another job is submitted."
"""What follows where a job was taken before its Pods were bound."""

NO_NODE = "No Node meets the Pod's node selector, node affinity and tolerations; no job is submitted before one does."


def announce(p: Placeholder, reason: Reason, text: str, warning: bool = False) -> c.Announce:
    """Return an Event on every member."""
    return c.Announce(p.refs, reason, text, warning)


def with_payload(p: Placeholder, payload: Payload) -> Placeholder:
    """Return the workload with this payload; with another class of payload, in another state."""
    return p if payload is p.payload else replace(p, payload=payload)


def back_off(failures: int, timing: Timing) -> float:
    """Return the seconds before the attempt after so many failures: doubling, bounded."""
    return Backoff(timing.retry_first, timing.retry_most).after(failures)


def delay_next_attempt(p: Placeholder, at: At) -> Placeholder:
    """Delay the next attempt, longer each time until an attempt succeeds."""
    failures = p.failures + 1
    return replace(p, failures=failures, retry_at=at.now + back_off(failures, at.timing), queue_next=False)


# Without a job.


def proceed_without_job(p: Placeholder, at: At) -> Step:
    """Submit a job if the workload wants one and may have it now; else enter the state that says why not."""
    if p.job_occupied:
        return lose_allocation(p, e.EndKind.FAILED, "The Slurm job of this Pod does not exist any more.", at)
    unrecorded = p.payload.unrecorded if isinstance(p.payload, RefusedState) else frozenset[str]()
    before, p = p.reason, replace(p, payload=AbsentState(), reason="", timer_at=None)
    if p.is_finished:
        return replace(p, payload=GoneState(), timer_at=at.now + at.timing.forget), []
    if p.faults:
        # What was submitted before is no reason to refuse a Pod whose settings are valid again.
        refused = replace(p, payload=RefusedState(), submitted_request=None, reason="; ".join(p.faults))
        return refused, [
            c.Announce(p.refs, Reason.INVALID_SLURM_SETTINGS, "Invalid Slurm annotations.", True, p.faults)
        ]
    if p.refusal:
        return refuse(p, Reason.JOB_REJECTED, p.refusal)
    if p.placed:
        text = "bound without the extender; Slurm does not account for it"
        refused = replace(p, payload=RefusedState(), submitted_request=p.request, reason=text)
        return refused, [announce(p, Reason.BOUND_WITHOUT_SLURM, "The Pod was bound without a Slurm allocation.", True)]
    if p.wants and p.cancelled is not None and p.cancelled.speaks_of(p.request):
        return refuse(p, Reason.JOB_CANCELLED, p.cancelled.text, unrecorded)
    if not p.wants or p.request is None or p.candidates is None:
        return p, []
    if not p.candidates:  # the next list brings some
        announcements = [announce(p, Reason.JOB_PENDING, NO_NODE)] if before != NO_NODE else []
        return replace(p, reason=NO_NODE), [*announcements]
    if at.now < p.retry_at:
        return replace(p, timer_at=p.retry_at), []
    return _submit(p, p.request, p.candidates)


def _submit(p: Placeholder, request: JobRequest, candidates: frozenset[str]) -> Step:
    # When every candidate has been refused once, the cause may have passed: all are tried again.
    avoided = frozenset[str]() if candidates <= p.refused_nodes else p.refused_nodes
    attempt = p.attempt + 1
    submit = c.SubmitJob(attempt, request, candidates - avoided if avoided else candidates, p.queue_next)
    submitting = replace(
        p,
        payload=SubmittingState(),
        attempt=attempt,
        submitted_request=request,
        title=request.title,
        refused_nodes=avoided,
        exclusions_changed=False,
    )
    return submitting, [submit]


def refuse(p: Placeholder, reason: Reason, text: str, unrecorded: frozenset[str] = frozenset()) -> Step:
    """Submit nothing until the Pods request something else, or the configuration changes."""
    refused = replace(
        p,
        payload=RefusedState(unrecorded),
        reason=text,
        refusal="",
        queue_next=False,
        submitted_request=p.request,
        timer_at=None,
    )
    return refused, [announce(p, reason, text, True)]


def retry_later(p: Placeholder, at: At, text: str, reason: Reason = Reason.RETRYING) -> Step:
    """Submit another job after a back-off: this attempt failed."""
    after, commands = proceed_without_job(delay_next_attempt(p, at), at)
    if after.state is State.ABSENT:
        after = replace(after, reason=text)
    return after, [announce(p, reason, text, True), *commands]


def record_cancel(p: Placeholder, unrecorded: frozenset[str]) -> list[c.Command]:
    """Write the user's cancel on the Pods that do not bear it yet."""
    if p.cancelled is None:
        return []
    owed = [member.ref for member in p.members if member.ref.uid in unrecorded and not member.end]
    return [c.NoteCancelled(ref, p.cancelled) for ref in owed]


# The end of a job.


def release_job(p: Placeholder, why: str, at: At, *announcements: c.Command) -> Step:
    """Cancel the job, and repeat that until its end is observed; but first end the Pods that run on it."""
    if p.job_occupied:
        after, commands = lose_allocation(p, e.EndKind.FAILED, why, at, job_alive=True)
        return after, [*announcements, *commands]
    if (job := p.job) is None:
        after, commands = proceed_without_job(p, at)
        return after, [*announcements, *commands]
    ends_at = p.payload.ends_at if isinstance(p.payload, LostState) else 0.0
    releasing = ReleasingState(job, end_kind=p.end_kind, ends_at=ends_at)
    cancel = c.CancelJob(job.job_id, why, p.outcome, script_exit(p))
    return replace(p, payload=releasing, timer_at=at.now + at.timing.cancel_retry, reason=why), [*announcements, cancel]


def script_exit(p: Placeholder) -> int | None:
    """Return how the script of the job may end by itself, where there may be one."""
    return p.exit_code if p.mode in {Mode.BATCH, None} else None


def replace_job(p: Placeholder, text: str, at: At, reason: Reason = Reason.ALLOCATION_RELEASED) -> Step:
    """Release the job and submit another after a back-off."""
    return release_job(delay_next_attempt(p, at), text, at, announce(p, reason, f"{text} {ANOTHER}", True))


def lose_allocation(
    p: Placeholder,
    kind: e.EndKind,
    text: str,
    at: At,
    *,
    job_alive: bool = False,
    ends_at: float = 0.0,
    reason: Reason = Reason.ALLOCATION_LOST,
) -> Step:
    """End the Pods that run on the job, since Slurm takes its allocation away. If none is left, end the job alone."""
    if not p.job_occupied:
        return release_job(p, text, at) if job_alive else proceed_without_job(p, at)
    if isinstance(p.payload, ReleasingState):
        ends_at = p.payload.ends_at
    lost = LostState(p.job, p.allocation, kind, text, at.now, ends_at, job_alive)
    after, commands = end_pods(replace(p, reason=text), lost, at, [announce(p, reason, text, True)])
    return replace(after, payload=lost), commands


def end_pods(p: Placeholder, lost: LostState, at: At, announcements: list[c.Command]) -> Step:
    """Request the end of every member that is on a node of the job, and repeat that until they are gone.

    A member that is terminating already is included: the earlier request may have another cause and a longer grace.
    """
    rule, evicted_by = ENDS[lost.end_kind], lost.lost_at + at.timing.eviction_deadline
    voluntary = rule.voluntary and at.now < evicted_by
    by = lost.ends_at or (lost.lost_at + at.timing.kill_wait if rule.hurried else 0.0)
    p = replace(p, payload=lost)
    occupying = [member for member in p.members if p.occupies_job(member)]
    ends: list[c.Command] = [
        c.EndPod(member.ref, lost.end_kind, lost.end_text, voluntary, by) for member in occupying if member.node
    ]
    repeats = lost.repeats + 1 if all(member.ending or member.unknown for member in occupying) else 0
    timer_at = at.now + Backoff(at.timing.end_retry, at.timing.end_retry_most).after(repeats + 1)
    if voluntary:
        timer_at = min(timer_at, evicted_by)
    return replace(p, payload=replace(lost, repeats=repeats), timer_at=timer_at), announcements + ends + cancel_unused(
        p, lost
    )


def cancel_unused(p: Placeholder, lost: LostState) -> list[c.Command]:
    """Cancel a job on whose nodes no member is left, although a Pod is still there on a node that Slurm took."""
    if lost.job is None or not (lost.job_alive and p.is_stranded):
        return []
    return [c.CancelJob(lost.job.job_id, "no Pod is left on its nodes")]


def follow_job(p: Placeholder, column: State, event: JobEvent, at: At) -> Step:
    """Do what the table says of the condition of the job that this event reports.

    `column` is the state, or BOUND as soon as a Pod runs on the job. A condition that leaves the workload in WAITING,
    and one that is doubted first, is up to the file of that state.
    """
    transition = TRANSITIONS[condition_of_event(event)][State.BOUND if p.job_occupied else column]
    text, reason = text_of(event), transition.event or Reason.RETRYING
    match transition.state:
        case State.LOST:
            kind, alive, ends_at = _end_of(event, at)
            return lose_allocation(p, kind, text, at, job_alive=alive, ends_at=ends_at, reason=reason)
        case State.RELEASING:
            return replace_job(p, text, at, reason)
        case State.REFUSED if isinstance(event, e.JobEnded):
            return _refused_by(p, event, reason)
        case State.ABSENT:
            return retry_later(p, at, text, reason)
        case state:
            raise ValueError(f"{column} does not follow {event!r} to {state} by itself")


def text_of(event: JobEvent) -> str:
    """Return the sentence that reports this condition of the job to users."""
    match event:
        case e.JobWaiting():
            return f"Slurm job {event.job_id} was requeued."
        case e.JobEnding(kind=e.EndKind.TIME_LIMIT):
            return f"The time limit of Slurm job {event.job_id} is near, and Pods on it must be gone by then."
        case e.JobEnding():
            return f"Slurm is about to end job {event.job_id} ({event.kind})."
        case e.JobEnded():
            return event.text


def _end_of(event: JobEvent, at: At) -> tuple[e.EndKind, bool, float]:
    """Return why the allocation is lost, whether the job still lives, and when Slurm ends it (0.0: unknown)."""
    match event:
        case e.JobWaiting():
            return e.EndKind.REQUEUED, True, 0.0
        case e.JobEnding():
            return event.kind, True, 0.0 if event.ends_in is None else at.now + event.ends_in
        case e.JobEnded():
            return event.kind, event.alive, 0.0


def _refused_by(p: Placeholder, event: e.JobEnded, reason: Reason) -> Step:
    if event.kind is not e.EndKind.CANCELLED:
        return refuse(replace(p, fits_nowhere=event.nowhere), reason, event.text)
    # A user's cancel is an answer to the Pod. This process alone knows it until it is written on the Pod.
    text = f"{event.text} {HOW_TO_RESUBMIT}"
    if p.request is None:
        return refuse(p, reason, text)
    unrecorded = frozenset(member.ref.uid for member in p.members if not member.end)
    p = replace(p, cancelled=Cancelled(event.job_id, digest(p.request)))
    after, commands = refuse(p, reason, text, unrecorded)
    return after, [*commands, *record_cancel(after, unrecorded)]


def release_misbound(p: Placeholder, node: str, at: At) -> Step:
    """Release a job whose member runs on another node: the extender did not bind that Pod, and does not end it."""
    text = f"The Pod was bound to {node}, not to the node of its Slurm job; the job is ended."
    return release_job(p, text, at, announce(p, Reason.BOUND_WITHOUT_SLURM, text, True))


# Changes of state with a job.


def find_job_of_binding(p: Placeholder, job_id: int, at: At) -> Step:
    """Search for the job that a member's Binding names: an earlier process bound it, and the workload does not know it.

    The event comes late, from an API server whose cache lags, or the Binding took long. As at a start, Slurm is asked
    whether that job runs; only Slurm says which of the workload's jobs stays.
    """
    # If it was a duplicate, it was cancelled, which may or may not have happened yet.
    unsure = UnsureState(PlaceholderJob(job_id), sure_at=at.now + at.timing.settle_at_start)
    after = replace(
        p,
        payload=unsure,
        submitted_request=None,
        reason="bound by an earlier process",
        duplicate_jobs=p.duplicate_jobs - {job_id},
        timer_at=at.now,
        reprobe_at=at.now + at.timing.settle,
    )
    return after, []


def enter_waiting(p: Placeholder, waiting: WaitingState, at: At) -> Placeholder:
    """Enter WAITING: the job exists, and whether it has been granted is not known."""
    p = replace(p, payload=waiting)
    return replace(p, timer_at=at.now + at.timing.cancel_retry if p.job_occupied else None)


def enter_bound(p: Placeholder, job: PlaceholderJob, allocation: Allocation, limit_at: float | None) -> Placeholder:
    """Enter BOUND: the next attempt, if one comes, is the first of a new series."""
    return replace(p, payload=BoundState(job, allocation, limit_at), failures=0, timer_at=None)


def limit_after(known: float | None, event: e.JobGranted, at: At) -> float | None:
    """Return when the time limit of the job comes near. Every read computes it again, with slightly another result."""
    due = None if event.due_in is None else at.now + event.due_in
    return known if due is not None and known is not None and abs(due - known) < 1.0 else due


# Updates of a job.


def infer_submitted_request(p: Placeholder) -> Placeholder:
    """Derive what a found job requests, as soon as the request of its Pod is known.

    The mark of the job shows which fields of the request have changed since, or that none has.
    """
    if p.submitted_request is not None or p.request is None:
        return p
    return replace(p, submitted_request=request_of_job(p.found_request_digests, p.request), found_request_digests=())


def send_exclusions(p: Placeholder, waiting: WaitingState) -> Step:
    """Send the excluded nodes to Slurm, if they changed and no other update is under way."""
    p, usable, job = with_payload(p, waiting), _usable(p), waiting.job
    if waiting.update is not None or not p.exclusions_changed or p.submitted_request is None or usable is None:
        return p, []
    command = c.FollowCandidates(job.job_id, p.submitted_request, usable, job.excluded_sent, job.mode)
    return replace(p, payload=replace(waiting, update=JobUpdate.EXCLUDED_NODES), exclusions_changed=False), [command]


def send_updates(p: Placeholder, waiting: WaitingState) -> Step:
    """Send the Pod's new settings to its pending job, else the excluded nodes; one request at a time."""
    requested, request, job = p.submitted_request, p.request, waiting.job
    if waiting.update is not None or requested is None or request is None or p.job_occupied:
        return send_exclusions(p, waiting)
    if request in (requested, job.rejected_update) or not can_follow(requested, request):
        return send_exclusions(p, waiting)
    command = c.UpdateJob(job.job_id, requested, request, _usable(p), job.excluded_sent, job.mode)
    return replace(p, payload=replace(waiting, update=JobUpdate.SETTINGS)), [command]


def _usable(p: Placeholder) -> frozenset[str] | None:
    if p.candidates is None or not p.refused_nodes:
        return p.candidates
    return (p.candidates - p.refused_nodes) or p.candidates


def new_request_of_running(p: Placeholder, job: PlaceholderJob) -> tuple[Placeholder, JobRequest | None]:
    """Return what a job that has its nodes should be changed to; `None`: to nothing that is new."""
    submitted = p.submitted_request
    if submitted is None or p.request is None:
        return p, None
    request = while_running(submitted, p.request)
    if request in (submitted, job.rejected_update):
        return p, None
    if not changed(submitted, request) - NOT_SENT:
        return replace(p, submitted_request=request), None
    return p, request


def report_ineffective(p: Placeholder, payload: GrantedState | BoundState, request: JobRequest) -> Step:
    """Report once that a job which has its nodes does not follow this request."""
    job = replace(payload.job, rejected_update=request)
    p = replace(p, payload=replace(payload, job=job))
    if p.submitted_request is not None and (more := outgrown(p.submitted_request, request)):
        text = (
            f"The Pod was resized and requests {more}; Slurm does not enlarge running job {job.job_id}, and may "
            "allocate the excess to other jobs. Resize the Pod back, or recreate it."
        )
        return p, [announce(p, Reason.NOT_ACCOUNTED_BY_SLURM, text, True)]
    text = (
        f"The Pod's new settings have no effect on Slurm job {job.job_id}, which has its node already. "
        "Only its comment and a shorter time limit follow the Pod; an operator can extend it with scontrol."
    )
    return p, [announce(p, Reason.SETTING_WITHOUT_EFFECT, text, True)]
