"""The life of each Pod in few lines of the log, at INFO: what an operator searches for by Pod or by job.

Everything that happened to a unit is in its story (`/debug/placeholders/{uid}`), and at DEBUG.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from extender.domain import events as e
from extender.domain.commands import Command
from extender.domain.placeholder import Placeholder, State

_log = structlog.get_logger(__name__)

_QUIET = {State.SUBMITTING}


def told_of(
    record: Callable[[str], Placeholder | None], carry: Callable[[str, Command], Awaitable[None]]
) -> Callable[[str, Command], Awaitable[None]]:
    """`carry`, with unit, job and command in every line that is logged meanwhile, whoever logs it."""

    async def carried(key: str, command: Command) -> None:
        p = record(key)
        who = {"uid": key} if p is None else {**_who(p), "job_id": p.job_id}
        with structlog.contextvars.bound_contextvars(**who, cause=type(command).__name__):
            await carry(key, command)

    return carried


def note(before: Placeholder, after: Placeholder, event: e.Event, cause: str) -> None:
    """Log a step if it is one that an operator wants to see."""
    for job in sorted(after.surplus - before.surplus):
        _log.warning("duplicate_job", cancelled_job_id=job, **_who(after), cause=cause)
    if after.state is before.state or after.state in _QUIET:
        return
    said = _said(before, after, event)
    if said is None:
        return
    name, more = said
    _log.info(name, **_who(after), **{"job_id": after.job_id or before.job_id, **more}, cause=cause)


def _said(before: Placeholder, after: Placeholder, event: e.Event) -> tuple[str, dict[str, Any]] | None:
    """The name of the line and what it tells."""
    match after.state:
        case State.WAITING if before.state is State.SUBMITTING:
            mode = str(after.mode) if after.mode else None
            return "job_submitted", {"attempt": after.attempt, "mode": mode}
        case State.WAITING if before.state is State.UNSURE:
            return "job_found", {"attempt": after.attempt}
        case State.WAITING:
            return "job_requeued", {}
        case State.UNSURE:
            return "submit_unanswered", {"attempt": after.attempt, "reason": after.reason}
        case State.GRANTED:
            return "job_granted", {"nodes": _nodes(after)}
        case State.BOUND:
            return "pod_bound", {"nodes": sorted({m.node for m in after.members if m.node})}
        case State.LOST:
            kind = str(after.end_kind) if after.end_kind else None
            return "allocation_lost", {"kind": kind, "reason": after.end_text, "nodes": _nodes(before)}
        case State.RELEASING:
            given_back = before.state is State.GRANTED and after.wants
            return "job_given_back" if given_back else "job_ending", {"reason": after.reason}
        case State.REFUSED:
            return "pod_refused", {"reason": after.reason}
        case State.GONE:
            ends = sorted({str(m.end) for m in after.members if m.end})
            return "pod_over", {"ends": ends}
        case State.ABSENT if isinstance(event, e.SubmitRefused | e.JobEnded | e.ProbeAnswered) and after.reason:
            return "retrying_later", {"reason": after.reason, "failures": after.failures}
        case _:
            return None


def _who(p: Placeholder) -> dict[str, Any]:
    return {"pod": p.pod_names, "uid": p.key}


def _nodes(p: Placeholder) -> list[str]:
    return sorted({node for _, node in p.allocation})
