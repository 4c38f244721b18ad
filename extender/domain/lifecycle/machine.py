"""The state machine of a workload: `step` takes an event, `adopted` begins a workload that an earlier process knew.

`TABLE` holds every allowed pair of state and event; any other pair raises `InvalidTransitionError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled
from extender.domain.lifecycle import (
    absent,
    bound,
    gone,
    granted,
    lost,
    refused,
    releasing,
    submitting,
    unsure,
    waiting,
)
from extender.domain.lifecycle.preprocessing import about_other_job, is_outdated, record
from extender.domain.lifecycle.rules import DUPLICATE, At, InvalidTransitionError, Step, TransitionRule
from extender.domain.placeholder import Member, Placeholder, State, Timing
from extender.domain.renewal import replace
from extender.domain.states import BoundState, GoneState, GrantedState, PlaceholderJob, UnsureState

DEFAULT_TIMING = Timing()
TABLE: Mapping[State, Mapping[type, TransitionRule]] = {
    rules.state: rules.by_event
    for rules in (
        absent.RULES,
        submitting.RULES,
        unsure.RULES,
        waiting.RULES,
        granted.RULES,
        bound.RULES,
        lost.RULES,
        releasing.RULES,
        refused.RULES,
        gone.RULES,
    )
}
"""Every rule, by state and type of event; the state diagram of the documentation is generated from it."""


def edges() -> Iterator[tuple[State, State, str]]:
    """Yield every possible change of state and the event behind it, sorted."""
    yield from sorted(
        (state, target, event.__name__)
        for state, rules in TABLE.items()
        for event, rule in rules.items()
        for target in rule.to
        if target is not state
    )


def adopted(
    key: str,
    members: Sequence[Member],
    *,
    title: str,
    job_id: int | None,
    now: float,
    timing: Timing,
    cancelled: Cancelled | None = None,
) -> Placeholder:
    """Return a workload of which only its Pods are known: Slurm is searched at once for its job, if it has one.

    `job_id` is the job recorded on its Pods, `cancelled` a user's cancel recorded there; each member on a node names
    the job for which it was bound. slurmctld may be stalled and still carry out a request of the process before:
    whatever the first probe finds, a second one follows.
    """
    job = None if job_id is None else PlaceholderJob(job_id)
    return Placeholder(
        key,
        UnsureState(job, sure_at=now + timing.settle_at_start),
        title,
        tuple(members),
        cancelled=cancelled,
        reason="just started",
        timer_at=now,
        reprobe_at=now + timing.settle,
    )


def step(p: Placeholder, event: e.Event, now: float, timing: Timing = DEFAULT_TIMING) -> Step:
    """Apply an event. Return the workload after it, and the commands that follow, in order.

    Raises `InvalidTransitionError` where the event makes no sense in this state; nothing has changed then.
    """
    at = At(now, timing)
    if other := about_other_job(p, event, now + timing.settle):
        return _schedule(*other, at)
    known = record(p, event)
    if is_outdated(known, event):
        return _schedule(known, [], at)
    state = known.payload.state
    rule = TABLE[state].get(type(event))
    if rule is None:
        raise InvalidTransitionError(known, event, "no rule")
    commands: list[c.Command] = []
    if isinstance(event, e.TimerFired):
        known, commands = _common_timer(known, at)
    if rule.handler is None:
        return _schedule(known, commands, at)
    after, more = rule.handler(known, known.payload, event, at)
    if after.payload.state is not state and after.payload.state not in rule.to:
        raise InvalidTransitionError(known, event, f"the rule may not lead to {after.state}")
    return _schedule(after, commands + more, at)


def _schedule(p: Placeholder, commands: list[c.Command], at: At) -> Step:
    """Set the timer to the earliest of what the state and the common duties need."""
    payload = p.payload
    dues = [due for due in (p.timer_at, p.reprobe_at) if due is not None]
    limit_at = payload.limit_at if isinstance(payload, GrantedState | BoundState) else None
    if limit_at is not None and (p.job_occupied or p.state is State.BOUND):
        dues.append(limit_at)
    if isinstance(payload, BoundState) and payload.kept_until and not p.job_occupied:
        dues.append(payload.kept_until)
    if isinstance(payload, GoneState) and p.timer_at is None:
        dues.append(at.now + at.timing.forget)
    if p.duplicate_jobs:
        dues.append(at.now + at.timing.cancel_retry)
    timer_at = min(dues) if dues else None
    return (p if timer_at == p.timer_at else replace(p, timer_at=timer_at)), commands


def _common_timer(p: Placeholder, at: At) -> Step:
    commands: list[c.Command] = [c.CancelJob(job, DUPLICATE) for job in sorted(p.duplicate_jobs)]
    if p.reprobe_at is not None and at.now >= p.reprobe_at:
        commands.append(c.ProbeJob(p.title, p.job_id))
        p = replace(p, reprobe_at=None)
    return (p if p.timer_at is None else replace(p, timer_at=None)), commands
