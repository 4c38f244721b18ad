"""Find why Slurm starts nothing new on a node, for the marks on its Node.

A drain of an extender is never reported: it follows from the Node's state in Kubernetes, and would keep itself alive.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.cluster import SlurmNode
from extender.domain.nodes.drain_reasons import earlier_reason
from extender.domain.wellknown import DRAIN_PREFIX

SILENT_FOR = 3.0
"""Seconds for which a node must not have answered slurmctld: one whose drain was lifted does not for about a second."""

LONGEST = 512
"""Characters of a reason of Slurm's that are passed on."""

_WORDS = {
    "DOWN": "SlurmDown",
    "FAIL": "SlurmFail",
    "DRAIN": "SlurmDrained",
    "MAINTENANCE": "SlurmMaintenance",
    "NOT_RESPONDING": "SlurmNotResponding",
}
"""State words of slurmrestd (`data_parser/v0.0.4x/parsers.c`, NODE_STATES) and the reason of the condition, the gravest
first."""

REASONS = tuple(_WORDS.values())
"""All of them."""

_SAID = frozenset({"FAIL", "DRAIN", "MAINTENANCE"})
"""States that a user or administrator set; slurmctld derives the others from slurmd."""

_REASONED = frozenset({"DOWN", "FAIL", "DRAIN"})
"""States that a reason is given for. Slurm 24.11 keeps the reason of an earlier one after `state=resume`, and shows it
with the others."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Hold the cause: `reason` is a word for programs, `text` a sentence. `manual`: a user or administrator set it."""

    reason: str
    text: str
    manual: bool = True


def unavailable(node: SlurmNode, silent_s: float = 0.0) -> Unavailable | None:
    """Return why the node is unavailable; `None`: it is not, or only by an extender. `silent_s`: see SILENT_FOR."""
    drained_by_extender = node.reason.startswith(DRAIN_PREFIX)
    there = node.flags | {node.state}
    found = [
        word
        for word in _WORDS
        if word in there
        and not (word == "DRAIN" and drained_by_extender)
        and not (word == "NOT_RESPONDING" and ("DOWN" in there or silent_s < SILENT_FOR))
    ]
    if not found:
        return None
    return Unavailable(
        _WORDS[found[0]],
        f"Slurm node {node.name} is {' and '.join(found)}"
        f"{_quoted(node, drained_by_extender) if _REASONED.intersection(found) else ''}",
        any(word in _SAID for word in found),
    )


def _quoted(node: SlurmNode, drained_by_extender: bool) -> str:
    """Return Slurm's own reason. Behind a drain of an extender its author is lost."""
    site_reason = earlier_reason(node.reason)
    if not site_reason:
        return ""
    quotation = site_reason if len(site_reason) <= LONGEST else f"{site_reason[: LONGEST - 3]}..."
    by = "" if drained_by_extender else node.reason_user
    return f": {quotation}{f' (set by {by})' if by else ''}"
