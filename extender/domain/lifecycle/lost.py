"""LOST: Slurm takes the allocation away, or has done so, and a member still runs on it; its end is requested."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.lifecycle.rules import At, StateRules, Step
from extender.domain.lifecycle.transitions import (
    announce,
    cancel_unused,
    delay_next_attempt,
    end_pods,
    follow_job,
    proceed_without_job,
    release_job,
)
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace
from extender.domain.states import LostState
from extender.domain.wellknown import Reason


def _pod_gone(p: Placeholder, lost: LostState, _event: e.Event, at: At) -> Step:
    """End the job once no member runs on it, or submit another for the members that want one."""
    if p.job_occupied:
        return replace(p, timer_at=at.now + at.timing.end_retry), cancel_unused(p, lost)
    if lost.job_alive:
        return release_job(delay_next_attempt(p, at), "its Pod is over", at)
    if p.wants and lost.job is not None:
        ended = e.JobEnded(lost.job.job_id, lost.end_kind, lost.end_text)
        return follow_job(p, State.WAITING, ended, at)
    return proceed_without_job(p, at)


def _bound(p: Placeholder, lost: LostState, event: e.PodBound, at: At) -> Step:
    """End a Pod whose Binding was under way, unless the extender did not bind it."""
    return end_pods(p, lost, at, []) if p.job_occupied else _pod_gone(p, lost, event, at)


def _timer(p: Placeholder, lost: LostState, _event: e.TimerFired, at: At) -> Step:
    """Repeat the requests until the Pods are gone; budgets hold a voluntary end for a while only."""
    return end_pods(p, lost, at, [])


def _end_answered(p: Placeholder, lost: LostState, event: e.EvictAnswered, at: At) -> Step:
    """Report what a disruption budget holds, and how much of its grace period a Pod is given."""
    if event.shortened:
        return p, [announce(p, Reason.GRACE_PERIOD_SHORTENED, event.shortened, True)]
    if not event.budget:
        return p, []
    deadline = lost.lost_at + at.timing.eviction_deadline
    next_try = at.now + max(event.retry_after_s, at.timing.end_retry)
    text = f"A disruption budget blocks the eviction, for {at.timing.eviction_deadline:g} s at most. {lost.end_text}"
    announcements: list[c.Command] = (
        [announce(p, Reason.EVICTION_BLOCKED_BY_PDB, text, True)] if text != p.reason else []
    )
    return replace(p, timer_at=max(at.now, min(next_try, deadline)), reason=text), announcements


def _job_ended(p: Placeholder, lost: LostState, event: e.JobEnded, _at: At) -> Step:
    """Record that the job has ended, or that it still lives suspended or requeued."""
    return replace(p, payload=replace(lost, job_alive=event.alive)), []


RULES = StateRules(LostState)
RULES.on(_pod_gone, e.PodGone, to=(State.GONE, State.RELEASING, State.ABSENT, State.REFUSED))
RULES.on(_pod_gone, e.BindFailed, to=(State.RELEASING, State.ABSENT, State.REFUSED))
RULES.on(_bound, e.PodBound, to=(State.RELEASING, State.REFUSED))
RULES.on(_timer, e.TimerFired)
RULES.on(_end_answered, e.EvictAnswered)
RULES.on(_job_ended, e.JobEnded)
RULES.ignore("its end is under way", e.JobWaiting, e.JobGranted, e.JobEnding)
RULES.ignore(
    "recorded; acted on when the end is observed",
    *(e.PodWanted, e.PodRefused, e.CandidatesChanged, e.SlurmSnapshotChanged),
)
RULES.ignore("recorded; a Pod that is terminating still runs", e.PodEnding)
RULES.ignore("recorded; its outcome follows", e.BindStarted)
RULES.ignore_late_answers(e.EvictAnswered)
