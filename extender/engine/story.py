"""What happened to a unit, kept bounded: shown by `/debug/placeholders` and printed in errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from extender.domain.commands import Command
from extender.domain.events import CandidatesChanged, Event
from extender.domain.placeholder import State

LENGTH = 50


FEW = 8
"""Names of nodes that are written out."""


@dataclass(frozen=True, slots=True, repr=False)
class Chapter:
    """One event, what it changed and what followed. `wall` is seconds since the epoch. Its text is made when read."""

    wall: float
    cause: str
    event: Event
    before: State
    after: State
    commands: tuple[Command, ...]

    def line(self) -> str:
        """For people."""
        move = f"{self.before} -> {self.after}" if self.before is not self.after else f"{self.before}"
        done = ", ".join(type(command).__name__ for command in self.commands)
        return f"{move}  {_said(self.event)}  [{self.cause}]" + (f"  then {done}" if done else "")

    def __repr__(self) -> str:
        return self.line()


def _said(event: Event) -> str:
    if isinstance(event, CandidatesChanged) and len(event.candidates) > FEW:
        return f"CandidatesChanged({len(event.candidates)} nodes)"
    return repr(event)


@dataclass(slots=True)
class Story:
    """The last chapters of one unit. An event that repeats the one before and changes nothing is counted, not kept."""

    chapters: deque[Chapter] = field(default_factory=lambda: deque(maxlen=LENGTH))

    def add(self, chapter: Chapter) -> None:
        """Append, unless it says the same as the last one."""
        last = self.chapters[-1] if self.chapters else None
        quiet = not chapter.commands and chapter.before is chapter.after
        if quiet and last is not None and last.event == chapter.event:
            return
        self.chapters.append(chapter)

    def lines(self) -> Sequence[str]:
        """Oldest first."""
        return [chapter.line() for chapter in self.chapters]
