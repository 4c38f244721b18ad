"""Record the events of a run in order, with the objects concerned."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field


def pod_subject(name: str) -> str:
    """Return the name of a Pod in entries."""
    return f"pod {name}"


def job_subject(job_id: int) -> str:
    """Return the name of a job in entries."""
    return f"job {job_id}"


def node_subject(name: str) -> str:
    """Return the name of a Slurm node in entries."""
    return f"node {name}"


WHOLE_CLUSTER = "the cluster"
"""The subject of events that concern all objects: outages, starts and ends of extenders."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event. `at` is in seconds since the start."""

    at: float
    about: tuple[str, ...]
    text: str

    def line(self) -> str:
        """Return the entry as one line."""
        return f"{self.at:12.3f}  {', '.join(self.about)}: {self.text}"


@dataclass(slots=True)
class EventLog:
    """All events of a run."""

    entries: list[LogEntry] = field(default_factory=list)

    def add(self, text: str, *about: str) -> None:
        """Record an event that happens now."""
        self.entries.append(LogEntry(asyncio.get_running_loop().time(), about or (WHOLE_CLUSTER,), text))

    def about(self, subjects: Collection[str], last: int = 120) -> list[str]:
        """Return the last entries about these subjects or the whole cluster."""
        wanted = {*subjects, WHOLE_CLUSTER}
        return [entry.line() for entry in self.entries if wanted & set(entry.about)][-last:]

    def text(self) -> str:
        """Return all entries, one per line."""
        return "".join(f"{entry.line()}\n" for entry in self.entries)

    def digest(self) -> str:
        """Return a hash by which two runs can be compared."""
        return hashlib.sha256(self.text().encode()).hexdigest()
