"""One step of a placeholder."""

from __future__ import annotations

from typing import Any

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.lifecycle import granted, late, releasing, resting, running, submitting, waiting
from extender.domain.lifecycle.facts import about_other_job, absorb, too_late
from extender.domain.lifecycle.table import (
    BOUND,
    GONE,
    GRANTED,
    REFUSED,
    TABLE,
    WAITING,
    At,
    InvalidTransitionError,
    Rule,
    Step,
)
from extender.domain.placeholder import Placeholder, Timing
from extender.domain.renewal import replace

DEFAULT_TIMING = Timing()
ROOMS = (resting, submitting, waiting, granted, running, releasing, late)
"""Imported for the rules that they put into the table."""


def step(p: Placeholder, event: e.Event, now: float, timing: Timing = DEFAULT_TIMING) -> Step:
    """Tell `p` what happened. Returns the placeholder after it and what is to be done, in order.

    Raises `InvalidTransitionError` where the event can make no sense; nothing has changed then.
    """
    at = At(now, timing)
    if stray := about_other_job(p, event, now + timing.settle):
        return _owe(*stray, at)
    known = absorb(p, event)
    if too_late(known, event):
        return _owe(known, [], at)
    rule = _rule(known, event)
    extra: list[c.Command] = []
    if isinstance(event, e.TimerFired):
        known, extra = _common_timer(known, at)
    after, commands = rule.body(known, event, at) if rule.body else (known, [])
    if after.state not in rule.to and after.state is not p.state:
        raise InvalidTransitionError(p, event, f"the rule may not lead to {after.state}")
    if after.state is not p.state:
        after = _entered(after)
    return _owe(after, extra + commands, at)


def _rule(p: Placeholder, event: e.Event) -> Rule:
    try:
        return TABLE.rules[p.state, type(event)]
    except KeyError:
        raise InvalidTransitionError(p, event, "no rule") from None


def _entered(p: Placeholder) -> Placeholder:
    """Drop what only the state before could use."""
    dropped: dict[str, Any] = {"tries": 0, "doubted_since": None}
    if p.state is not WAITING:
        dropped |= {"following": False, "updating": None, "unread": False}
    if p.state is not REFUSED:
        dropped |= {"note_owed": frozenset()}
    if p.state is BOUND:
        dropped |= {"failures": 0}
    if p.state not in {GRANTED, BOUND}:
        dropped |= {"cleared": False, "missing_since": None, "offered_at": None, "limit_at": None}
    changed = {name: value for name, value in dropped.items() if getattr(p, name) != value}
    return replace(p, **changed) if changed else p


def _owe(p: Placeholder, commands: list[c.Command], at: At) -> Step:
    """Make sure that something owed in every state has a timer."""
    if p.state is GONE and p.wake_at is None:
        p = replace(p, wake_at=at.now + at.timing.forget)
    dues = [due for due in (p.wake_at, p.reprobe_at) if due is not None]
    if p.state is BOUND and p.limit_at is not None:
        dues.append(p.limit_at)
    if p.duplicate_jobs:
        dues.append(at.now + at.timing.cancel_retry)
    wake_at = min(dues) if dues else None
    return (p if wake_at == p.wake_at else replace(p, wake_at=wake_at)), commands


def _common_timer(p: Placeholder, at: At) -> Step:
    commands: list[c.Command] = [
        c.CancelJob(job, "it is a duplicate job of one workload") for job in sorted(p.duplicate_jobs)
    ]
    if p.reprobe_at is not None and at.now >= p.reprobe_at:
        commands.append(c.ProbeJob(p.title, p.job_id))
        p = replace(p, reprobe_at=None)
    return (p if p.wake_at is None else replace(p, wake_at=None)), commands
