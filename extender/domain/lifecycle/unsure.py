"""UNSURE: a job may exist, since an answer was lost or the extender has just started; Slurm is searched for it."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.changes import can_follow
from extender.domain.lifecycle.rules import DUPLICATE, At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    back_off,
    enter_waiting,
    find_job_of_binding,
    follow_job,
    infer_submitted_request,
    lose_allocation,
    proceed_without_job,
    release_job,
    send_exclusions,
    send_updates,
)
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import PlaceholderJob, UnsureState, WaitingState


def _probed(p: Placeholder, unsure: UnsureState, event: e.ProbeAnswered, at: At) -> Step:
    """Adopt the job that was found, or conclude from two empty answers and the time to settle that there is none."""
    requested_at = at.now if event.requested_at is None else event.requested_at
    jobs = [job for job in event.jobs if job.job_id not in p.duplicate_jobs]
    if certain := [job for job in jobs if job.certain]:
        return _found(p, unsure, certain, requested_at, at)
    empty_probes = unsure.empty_probes + 1
    if empty_probes < 2 or requested_at < unsure.sure_at:
        probed = replace(unsure, empty_probes=empty_probes)
        return replace(p, payload=probed, timer_at=at.now + at.timing.probe), []
    if jobs:  # an administrator removed the mark of its job, or its user submitted one of the same name
        return _found(p, unsure, [max(jobs, key=_precedence(p))], requested_at, at)
    # slurmctld may have been stalled for longer than expected: one more probe costs little.
    p = replace(p, reprobe_at=p.reprobe_at or at.now + at.timing.settle)
    if p.job_occupied:
        known = p.job_id or next(m.job_id for m in p.members if p.occupies_job(m))
        return lose_allocation(p, e.EndKind.VANISHED, f"Slurm has no job {known}.", at)
    return proceed_without_job(p, at)


def _found(p: Placeholder, unsure: UnsureState, jobs: list[e.JobFound], requested_at: float, at: At) -> Step:
    """Keep the job on which Pods run, else one that runs, else the newest leader's newest; cancel the others."""
    best = max(jobs, key=_precedence(p))
    others = frozenset(job.job_id for job in jobs) - {best.job_id}
    if not p.placed:
        left = tuple(Member(ref, slot, job_id=best.job_id, unknown=True) for ref, slot in best.left)
        p = replace(p, members=p.members + left)
    waiting = WaitingState(PlaceholderJob(best.job_id, excluded_sent=best.excluded))
    # The mark of a job of an earlier process shows which fields of its Pod's request have changed since, if any.
    p = infer_submitted_request(replace(p, payload=waiting, found_request_digests=best.request_digests))
    p = replace(
        p,
        attempt=max(p.attempt, *(job.attempt for job in jobs)),
        duplicate_jobs=p.duplicate_jobs | others,
        queue_next=False,
        reason="",
        cancelled=None,  # a cancel that is written on the Pod was that of an older job
    )
    if requested_at < unsure.sure_at:  # the job may be that of an older request, and the last one still under way
        p = replace(p, reprobe_at=max(p.reprobe_at or 0.0, unsure.sure_at))
    cancels: list[c.Command] = [c.CancelJob(job, DUPLICATE) for job in sorted(others)]
    if not p.job_occupied and (not p.wants or p.faults or not _suits(p, best)):
        return release_job(p, "the Pod changed or left while its job was being searched for", at, *cancels)
    p = enter_waiting(p, waiting, at)
    after, updates = send_exclusions(p, waiting)
    if not updates:
        after, updates = send_updates(p, waiting)
    return after, [*cancels, c.ReadJob(best.job_id), *updates]


def _precedence(p: Placeholder) -> Callable[[e.JobFound], tuple[bool, bool, bool, int, int]]:
    """Return the key by which the job to keep is the greatest."""
    occupied = {p.job_id, *(m.job_id for m in p.members if p.occupies_job(m))} if p.job_occupied else set()
    return lambda job: (job.job_id in occupied, job.running, not job.older, job.attempt, job.job_id)


def _suits(p: Placeholder, found: e.JobFound) -> bool:
    """Return whether the job requests what the Pods request now, or can still be updated to it."""
    if p.submitted_request is None or p.request is None or p.request == p.submitted_request:
        return p.request == p.submitted_request
    return not found.running and can_follow(p.submitted_request, p.request)


def _probe_failed(p: Placeholder, unsure: UnsureState, event: e.ProbeFailed, at: At) -> Step:
    """Discard the empty answers so far, since Slurm does not answer, and probe again later."""
    failed = unsure.failed_probes + 1
    probed = replace(unsure, empty_probes=0, failed_probes=failed)
    return replace(p, payload=probed, reason=event.text, timer_at=at.now + back_off(failed, at.timing)), []


def _probe_due(p: Placeholder, _unsure: UnsureState, _event: e.TimerFired, at: At) -> Step:
    """Search for the job."""
    hints = tuple(sorted({member.hint for member in p.members if member.hint is not None}))
    return replace(p, timer_at=at.now + at.timing.settle), [c.ProbeJob(p.title, p.job_id, hints)]


def _job_ended(p: Placeholder, _unsure: UnsureState, event: e.JobEnded, at: At) -> Step:
    """Follow the end of a job on which a Pod runs; for a waiting Pod the probe decides."""
    runs_on_it = any(p.occupies_job(member) and member.job_id == event.job_id for member in p.members)
    return follow_job(p, State.BOUND, event, at) if runs_on_it else (p, [])


def _bound(p: Placeholder, _unsure: UnsureState, event: e.PodBound, at: At) -> Step:
    """Search for the job of a recorded Binding, if it is not the one that is searched for already."""
    return (p, []) if event.job_id in {None, p.job_id} else find_job_of_binding(p, event.job_id, at)


RULES = StateRules(UnsureState)
RULES.on(
    _probed,
    e.ProbeAnswered,
    to=(
        *(State.WAITING, State.RELEASING, State.ABSENT, State.SUBMITTING),
        *(State.LOST, State.REFUSED, State.GONE),
    ),
)
RULES.on(_probe_failed, e.ProbeFailed)
RULES.on(_probe_due, e.TimerFired)
RULES.on(_job_ended, e.JobEnded, to=(State.LOST,))
RULES.on(_bound, e.PodBound)
RULES.ignore("the probe decides", e.JobWaiting, e.JobGranted, e.JobEnding)
RULES.ignore(
    "recorded; acted on when the job is known or certainly absent",
    *(e.PodWanted, e.PodRefused, e.CandidatesChanged, e.SlurmSnapshotChanged),
    *(e.PodEnding, e.PodGone, e.BindStarted, e.BindFailed),
)
RULES.ignore_late_answers(e.ProbeAnswered, e.ProbeFailed)
