"""Retry requests that Slurm refuses for many nodes with the same cause: one node is tried on behalf of all.

The pauses between the retries of a single node grow to minutes. A missing right, or a limit of slurm.conf, concerns all
of them: as soon as one request is accepted, the others need not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RETRY_EVERY = 15.0
"""Seconds between two requests about nodes of one cause, at most, however long each waits by itself."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Hold a refusal. `cause`: Slurm's text without the name of the node. `tried_at`: the last try, in seconds."""

    cause: str
    tried_at: float


def cause_of(name: str, error_text: str) -> str:
    """Return the refusal without the name of the node: it is the same for all nodes with one cause."""
    return error_text.replace(name, "*")


def due_retries(waiting: Mapping[str, NodeRefusal], now: float) -> list[str]:
    """Return the node that waits longest for each cause that several nodes share and that was not tried just now."""
    by_cause: dict[str, list[str]] = {}
    for name, one in waiting.items():
        by_cause.setdefault(one.cause, []).append(name)
    return [
        min(names, key=lambda name: (waiting[name].tried_at, name))
        for names in by_cause.values()
        if len(names) > 1 and now - max(waiting[name].tried_at for name in names) >= RETRY_EVERY
    ]
