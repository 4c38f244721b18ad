"""RELEASING: the job is to end, and its end has to be seen."""

from __future__ import annotations

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.lifecycle.moves import (
    claimed,
    lose,
    rest,
    script_exit,
)
from extender.domain.lifecycle.table import (
    ABSENT,
    GONE,
    LOST,
    REFUSED,
    RELEASING,
    SUBMITTING,
    TABLE,
    UNSURE,
    At,
    Step,
)
from extender.domain.placeholder import Placeholder
from extender.domain.renewal import replace

ASKED_TWICE = 2
"""How often a script is asked to end by itself, and how often a note is tried."""


def _released(p: Placeholder, at: At) -> Step:
    return rest(replace(p, job_id=None, queue=False), at)


@TABLE.on((RELEASING,), (e.CancelAnswered,), (ABSENT, SUBMITTING, REFUSED, GONE))
def _cancel_answered(p: Placeholder, event: e.CancelAnswered, at: At) -> Step:
    """An accepted cancel is no end yet: the end has to be seen."""
    return _released(p, at) if event.over and event.job_id == p.job_id else (p, [])


@TABLE.on((RELEASING,), (e.JobEnded,), (ABSENT, SUBMITTING, REFUSED, GONE))
def _release_seen(p: Placeholder, event: e.JobEnded, at: At) -> Step:
    """The end was seen."""
    return (p, []) if event.alive else _released(p, at)


@TABLE.on((RELEASING,), (e.TimerFired,), ())
def _cancel_due(p: Placeholder, _event: e.TimerFired, at: At) -> Step:
    """End it again, and look.

    A script is asked twice, then its job is cancelled: a signal that reaches bash before its traps are set, or slurmd
    before the script is started, is answered like any other and lost (24.11.5).
    """
    tries = p.tries + 1
    wait = min(at.timing.cancel_retry * 2 ** min(tries, 10), at.timing.cancel_retry_most)
    commands: list[c.Command] = []
    if p.job_id is not None:
        again = tries < ASKED_TWICE
        end = c.CancelJob(p.job_id, p.reason, p.outcome if again else "", script_exit(p) if again else None)
        commands = [end, c.ReadJob(p.job_id)]
    return replace(p, tries=tries, wake_at=at.now + wait), commands


@TABLE.on((RELEASING,), (e.PodBound,), (LOST, UNSURE))
def _bound_while_releasing(p: Placeholder, event: e.PodBound, at: At) -> Step:
    """A Binding of ours arrived although the job is being given back: the Pod must not stay."""
    if not p.charged:
        return p, []
    if event.job_id not in {None, p.job_id}:
        return claimed(p, event.job_id, at)
    return lose(p, e.EndKind.FAILED, f"Slurm job {event.job_id} was given back.", at, alive=True)
