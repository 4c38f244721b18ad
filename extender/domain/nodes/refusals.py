"""What Slurm refuses of many nodes for one and the same cause: one of them asks for all whether it still does.

Each node is asked for ever more seldom by itself, minutes apart. A right that is missing, or a limit of slurm.conf,
concerns them all: as soon as one is taken, the others need not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ASK_EVERY = 15.0
"""Seconds between two requests about nodes of one cause, at most, however long each waits by itself."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """`cause`: Slurm's words without the name of the node. `tried_at`: when it was asked for last, in seconds."""

    cause: str
    tried_at: float


def cause_of(name: str, words: str) -> str:
    """What two nodes that are refused alike have in common."""
    return words.replace(name, "*")


def askers(waiting: Mapping[str, NodeRefusal], now: float) -> list[str]:
    """Of each cause that several nodes share, and that was not asked about just now, the node that waits longest."""
    by_cause: dict[str, list[str]] = {}
    for name, one in waiting.items():
        by_cause.setdefault(one.cause, []).append(name)
    return [
        min(names, key=lambda name: (waiting[name].tried_at, name))
        for names in by_cause.values()
        if len(names) > 1 and now - max(waiting[name].tried_at for name in names) >= ASK_EVERY
    ]
