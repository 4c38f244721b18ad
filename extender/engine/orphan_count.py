"""How many lost their partner, by direction, and what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Orphan(StrEnum):
    """Which of the two is left."""

    JOB = "job"
    """A job of ours without a Pod."""

    POD = "pod"
    """A running Pod of ours without a job."""


@dataclass(slots=True)
class OrphanCount:
    """Since the start. `spared`: would have been ended, but for the dry run, or since its Pod is there after all."""

    found: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    spared: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    """Held back at some time because there were many."""
