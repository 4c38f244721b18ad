"""Keep what happened to each workload: in few lines of the log at INFO, and in full, bounded, for `/debug`.

An operator searches the log by Pod or by job. Everything is in the history (`/debug/placeholders/{uid}`), and at DEBUG.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from extender.domain import events as e
from extender.domain.commands import Announce, Command
from extender.domain.events import CandidatesChanged, Event, PodRefused, PodWanted
from extender.domain.placeholder import Placeholder, State
from extender.domain.renewal import replace

LENGTH = 50
"""Entries that are kept of one workload."""

FEW = 8
"""Names of nodes, and members, that are written out."""

LONGEST_EVENT = 4096
"""Characters of the text of an event."""


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry:
    """One event, what it changed and what followed. `wall` is seconds since the epoch. Its text is made when read."""

    wall: float
    source: str
    event: Event
    before: State
    after: State
    commands: tuple[Command, ...]
    pods: int = 0
    """How many members the event has, where it has more than are kept of it."""

    @classmethod
    def of(
        cls, wall: float, source: str, event: Event, *, before: State, after: State, commands: Iterable[Command]
    ) -> HistoryEntry:
        """Return an entry that keeps only the first members of a large gang: an author can cause entries at any time.

        The faults of an event are bounded where they are made (`domain.translation.gang_request`).
        """
        few = tuple(replace(one, members=one.members[:FEW]) if isinstance(one, Announce) else one for one in commands)
        if not isinstance(event, PodWanted | PodRefused) or len(event.members) <= FEW:
            return cls(wall, source, event, before, after, few)
        pods, members = len(event.members), event.members[:FEW]
        if isinstance(event, PodWanted):
            event = replace(event, members=members, slots=event.slots[:FEW])
        else:
            event = replace(event, members=members)
        return cls(wall, source, event, before, after, few, pods)

    def line(self) -> str:
        """Return the entry as one readable line."""
        move = f"{self.before} -> {self.after}" if self.before is not self.after else f"{self.before}"
        done = ", ".join(type(command).__name__ for command in self.commands)
        of_pods = f" of {self.pods} Pods" if self.pods else ""
        return f"{move}  {_event_text(self.event)}{of_pods}  [{self.source}]" + (f"  then {done}" if done else "")

    def __repr__(self) -> str:
        return self.line()


def _event_text(event: Event) -> str:
    if isinstance(event, CandidatesChanged) and len(event.candidates) > FEW:
        return f"CandidatesChanged({len(event.candidates)} nodes)"
    text = repr(event)
    return text if len(text) <= LONGEST_EVENT else f"{text[: LONGEST_EVENT - 3]}..."


@dataclass(slots=True)
class History:
    """The last entries of one workload. An event that repeats the previous one and changes nothing is left out."""

    entries: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=LENGTH))

    def add(self, entry: HistoryEntry) -> None:
        """Append, unless it says the same as the last one."""
        last = self.entries[-1] if self.entries else None
        quiet = not entry.commands and entry.before is entry.after
        if quiet and last is not None and (last.event, last.pods) == (entry.event, entry.pods):
            return
        self.entries.append(entry)

    def lines(self) -> Sequence[str]:
        """Return the lines, oldest first."""
        return [entry.line() for entry in self.entries]


class Histories:
    """The history of each workload. The engine writes them."""

    def __init__(self) -> None:
        self._of: dict[str, History] = {}

    def of(self, key: str) -> History:
        """Return what happened to a workload."""
        return self._of.get(key, History())

    def add(self, key: str, entry: HistoryEntry) -> None:
        """Append to the history of a workload."""
        self._of.setdefault(key, History()).add(entry)

    def forget(self, key: str) -> None:
        """Drop the history of a workload."""
        self._of.pop(key, None)


_log = structlog.get_logger(__name__)

_QUIET = {State.SUBMITTING}


def with_log_context(
    record: Callable[[str], Placeholder | None], execute: Callable[[str, Command], Awaitable[None]]
) -> Callable[[str, Command], Awaitable[None]]:
    """Wrap `execute` so that every log line of the command names its workload, job and command."""

    async def logged(key: str, command: Command) -> None:
        p = record(key)
        who = {"workload": key} if p is None else {**_who(p), "job_id": p.job_id}
        with structlog.contextvars.bound_contextvars(**who, source=type(command).__name__):
            await execute(key, command)

    return logged


def note(before: Placeholder, after: Placeholder, event: e.Event, source: str) -> None:
    """Log a step if it is one that an operator wants to see."""
    for job in sorted(after.duplicate_jobs - before.duplicate_jobs):
        _log.warning("duplicate_job", cancelled_job_id=job, **_who(after), source=source)
    if after.state is before.state or after.state in _QUIET:
        return
    line = _line(before, after, event)
    if line is None:
        return
    name, more = line
    _log.info(name, **_who(after), **{"job_id": after.job_id or before.job_id, **more}, source=source)


def _line(before: Placeholder, after: Placeholder, event: e.Event) -> tuple[str, dict[str, Any]] | None:
    """Return the name of the log line and its fields."""
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
            return "allocation_lost", {"kind": kind, "reason": after.reason, "nodes": _nodes(before)}
        case State.RELEASING:
            released = before.state is State.GRANTED and after.wants
            return "job_released" if released else "job_ending", {"reason": after.reason}
        case State.REFUSED:
            return "pod_refused", {"reason": after.reason}
        case State.GONE:
            ends = sorted({str(m.end) for m in after.members if m.end})
            return "pod_finished", {"ends": ends}
        case State.ABSENT if isinstance(event, e.SubmitRefused | e.JobEnded | e.ProbeAnswered) and after.reason:
            return "retrying_later", {"reason": after.reason, "failures": after.failures}
        case _:
            return None


def _who(p: Placeholder) -> dict[str, Any]:
    return {"pod": p.pod_names, "workload": p.key}


def _nodes(p: Placeholder) -> list[str]:
    return sorted({node for _, node in p.allocation})
