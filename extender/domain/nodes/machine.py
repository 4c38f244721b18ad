"""Drain a Slurm node while there is a drain hold, and lift the extender's own drain afterwards.

`holds` are the drain reasons, by cause: the UID of a Pod that outlived its job, a cordon, an administrator's request.
The other input is the node's state in slurmctld. A drain without the extender's prefix in its reason, or with the name
of another extender, is foreign: it is neither lifted nor overwritten, and the holds wait behind it.

Slurm's own "Epilog error" is foreign too, even after a placeholder job: slurmctld sets it for any failure of the site's
Epilog, such as a health check that found a broken GPU, and its text names neither the job nor the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from extender.domain.nodes.drain_reasons import is_own_drain, reason
from extender.domain.nodes.removals import removals_in


class DrainState(StrEnum):
    """Name the state of the extender's drain of a Slurm node."""

    FREE = "FREE"
    """No hold, no drain by the extender."""

    DRAINING = "DRAINING"
    """A drain is requested and not seen yet."""

    DRAINED = "DRAINED"
    """The extender's drain is seen."""

    RESUMING = "RESUMING"
    """The extender's drain has to be lifted."""

    FOREIGN = "FOREIGN"
    """A foreign drain is on it; the holds, if any, wait."""


@dataclass(frozen=True, slots=True)
class SlurmNodeHold:
    """Hold the state of one Slurm node. `holds` maps a cause to a sentence; `owner` is a `drains.drainer`."""

    name: str
    state: DrainState = DrainState.FREE
    holds: Mapping[str, str] = field(default_factory=dict)
    retry_at: float | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class HoldRequested:
    """Report a new drain reason: Slurm must start nothing on the node."""

    cause: str
    text: str


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """Report that a drain reason is gone."""

    cause: str


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """Report the node's state in slurmctld: whether it is drained, and the reason."""

    drained: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DrainAnswered:
    """Report the answer to a drain or a resume. `accepted` False: refused or unknown."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class NodeTimer:
    """Report that the requested instant has passed."""


NodeEvent = HoldRequested | HoldReleased | NodeSeen | DrainAnswered | NodeTimer


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Drain the node, with this reason."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResumeNode:
    """Lift the extender's drain."""

    node: str


NodeCommand = DrainNode | ResumeNode
RETRY = 2.0
"""Seconds before a drain or resume that is not seen yet is requested again."""

Stepped = tuple[SlurmNodeHold, list[NodeCommand]]


def step(node: SlurmNodeHold, event: NodeEvent, now: float) -> Stepped:
    """Apply an event to `node`; return the node afterwards and the commands."""
    match event:
        case HoldRequested():
            if node.holds.get(event.cause) == event.text:
                return node, []
            # The reason has to name every cause: a restarted extender knows them only from there.
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
    own = event.drained and is_own_drain(event.reason, node.owner)
    if event.drained and not own:
        return replace(node, state=DrainState.FOREIGN, retry_at=None), []
    if own:
        if node.holds:
            return replace(node, state=DrainState.DRAINED, retry_at=None), []
        return (
            (node, []) if node.state is DrainState.RESUMING else _settle(replace(node, state=DrainState.DRAINED), now)
        )
    if node.state in {DrainState.FOREIGN, DrainState.DRAINED, DrainState.RESUMING}:
        # An administrator lifted it, or the extender's resume arrived: with a cause left it is drained again.
        return _settle(replace(node, state=DrainState.FREE, retry_at=None), now)
    return node, []


def _settle(node: SlurmNodeHold, now: float) -> Stepped:
    """Request the drain or resume that the holds demand, unless a foreign drain is on the node."""
    if node.state is DrainState.FOREIGN:
        return node, []
    if node.holds:
        if node.state is DrainState.DRAINED:
            return node, []
        causes = sorted(node.holds, key=lambda cause: _order(node, cause))
        drain_reason = reason(node.owner, [node.holds[cause] for cause in causes])
        return replace(node, state=DrainState.DRAINING, retry_at=now + RETRY), [DrainNode(node.name, drain_reason)]
    if node.state in {DrainState.DRAINED, DrainState.DRAINING, DrainState.RESUMING}:
        return replace(node, state=DrainState.RESUMING, retry_at=now + RETRY), [ResumeNode(node.name)]
    return replace(node, retry_at=None), []


def _order(node: SlurmNodeHold, cause: str) -> tuple[float, str]:
    """Order causes: those that a restart knows only from the reason first, among them the one that lasts longest."""
    return -max((one.grace_s for one in removals_in(node.holds[cause])), default=-1), cause
