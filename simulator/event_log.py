"""What happened in a run, in order, with what it was about: the story that a failing seed tells."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field


def pod_subject(name: str) -> str:
    """How entries name a Pod."""
    return f"pod {name}"


def job_subject(job_id: int) -> str:
    """How entries name a job."""
    return f"job {job_id}"


def node_subject(name: str) -> str:
    """How entries name a node."""
    return f"node {name}"


WHOLE_CLUSTER = "everybody"
"""The subject of what concerns all: outages, lives of the extender."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing that happened. `at` is in seconds since the begin."""

    at: float
    about: tuple[str, ...]
    text: str

    def line(self) -> str:
        """For people."""
        return f"{self.at:12.3f}  {', '.join(self.about)}: {self.text}"


@dataclass(slots=True)
class EventLog:
    """Every entry of a run."""

    entries: list[LogEntry] = field(default_factory=list)

    def add(self, text: str, *about: str) -> None:
        """Write down what has just happened."""
        self.entries.append(LogEntry(asyncio.get_running_loop().time(), about or (WHOLE_CLUSTER,), text))

    def story(self, subjects: Collection[str], last: int = 120) -> list[str]:
        """What concerned these, and everybody; the last so many lines."""
        wanted = {*subjects, WHOLE_CLUSTER}
        return [entry.line() for entry in self.entries if wanted & set(entry.about)][-last:]

    def text(self) -> str:
        """All of it."""
        return "".join(f"{entry.line()}\n" for entry in self.entries)

    def digest(self) -> str:
        """Two runs are the same when these are."""
        return hashlib.sha256(self.text().encode()).hexdigest()
