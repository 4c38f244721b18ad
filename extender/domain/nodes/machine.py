"""The node machine: a Slurm node is drained by us while somebody has a reason to hold it; only such a drain is lifted.

`holds` are the reasons, by cause: the UID of a Pod that outlived its job, a cordon, an administrator's word. What
slurmctld says of the node is the other half. A drain without our prefix in its reason belongs to somebody else, and so
does one that names another extender: it is neither lifted nor written over, and our holds wait behind it.

So it is with Slurm's own "Epilog error", even after a job of ours: it is put on the node for any failure of the site's
Epilog, a health check that found a broken GPU among them, and nothing in it tells which job it was or why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from extender.domain.nodes.drains import is_ours, reason
from extender.domain.nodes.removals import removals_in


class DrainState(StrEnum):
    """What we owe or have done to a Slurm node."""

    FREE = "FREE"
    """No hold, no drain of ours."""

    DRAINING = "DRAINING"
    """A drain is owed and not seen yet."""

    DRAINED = "DRAINED"
    """Our drain is seen."""

    RESUMING = "RESUMING"
    """Our drain has to be lifted."""

    FOREIGN = "FOREIGN"
    """Somebody else drained it; our holds, if any, wait."""


@dataclass(frozen=True, slots=True)
class SlurmNodeHold:
    """What is known of one Slurm node. `holds` maps a cause to a sentence; `owner` is who drains (`drains.drainer`)."""

    name: str
    state: DrainState = DrainState.FREE
    holds: Mapping[str, str] = field(default_factory=dict)
    retry_at: float | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class HoldAsked:
    """Somebody has a reason to keep Slurm from starting anything on the node."""

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """That reason is gone."""

    cause: str


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """slurmctld's word: whether the node is drained, and the reason written on it."""

    drained: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DrainAnswered:
    """What came of a drain or a resume. `accepted` False: refused or unknown."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class NodeTimer:
    """The instant asked for has passed."""


NodeEvent = HoldAsked | HoldReleased | NodeSeen | DrainAnswered | NodeTimer


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Drain it, with this reason."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResumeNode:
    """Lift our drain."""

    node: str


NodeCommand = DrainNode | ResumeNode
RETRY = 2.0
"""Seconds before an unseen drain or resume is asked again."""

Stepped = tuple[SlurmNodeHold, list[NodeCommand]]


def step(node: SlurmNodeHold, event: NodeEvent, now: float) -> Stepped:
    """Tell `node` what happened; returns it afterwards and what is to be done."""
    match event:
        case HoldAsked():
            if node.holds.get(event.cause) == event.text:
                return node, []
            # Every cause is to be read in the reason, also by a start that has forgotten them.
            state = DrainState.DRAINING if node.state is DrainState.DRAINED else node.state
            return _settle(replace(node, state=state, holds={**node.holds, event.cause: event.text}), now)
        case HoldReleased():
            if event.cause not in node.holds:
                return node, []
            return _settle(replace(node, holds={k: v for k, v in node.holds.items() if k != event.cause}), now)
        case NodeSeen():
            return _seen(node, event, now)
        case DrainAnswered():
            return (node, []) if event.accepted else (replace(node, retry_at=now + RETRY), [])
        case NodeTimer():
            return _settle(replace(node, retry_at=None), now)


def _seen(node: SlurmNodeHold, event: NodeSeen, now: float) -> Stepped:
    ours = event.drained and is_ours(event.reason, node.owner)
    if event.drained and not ours:
        return replace(node, state=DrainState.FOREIGN, retry_at=None), []
    if ours:
        if node.holds:
            return replace(node, state=DrainState.DRAINED, retry_at=None), []
        return (
            (node, []) if node.state is DrainState.RESUMING else _settle(replace(node, state=DrainState.DRAINED), now)
        )
    if node.state in {DrainState.FOREIGN, DrainState.DRAINED, DrainState.RESUMING}:
        # Somebody lifted it, or our resume arrived: with a cause left it is drained again.
        return _settle(replace(node, state=DrainState.FREE, retry_at=None), now)
    return node, []


def _settle(node: SlurmNodeHold, now: float) -> Stepped:
    """Ask for what the holds demand, unless somebody else's drain is on the node."""
    if node.state is DrainState.FOREIGN:
        return node, []
    if node.holds:
        if node.state is DrainState.DRAINED:
            return node, []
        causes = sorted(node.holds, key=lambda cause: _order(node, cause))
        said = reason(node.owner, [node.holds[cause] for cause in causes])
        return replace(node, state=DrainState.DRAINING, retry_at=now + RETRY), [DrainNode(node.name, said)]
    if node.state in {DrainState.DRAINED, DrainState.DRAINING, DrainState.RESUMING}:
        return replace(node, state=DrainState.RESUMING, retry_at=now + RETRY), [ResumeNode(node.name)]
    return replace(node, retry_at=None), []


def _order(node: SlurmNodeHold, cause: str) -> tuple[float, str]:
    """What a start learns from the reason alone comes first, and of that what lasts longest: it stands for the rest."""
    return -max((one.grace_s for one in removals_in(node.holds[cause])), default=-1), cause
