"""The answer to kube-scheduler: a pure function of a placeholder and the nodes that kube-scheduler offers.

Texts are constant while nothing changes: a text that changes makes kube-scheduler patch the Pod's condition, which
wakes the Pod again (kube-scheduler schedule_one.go, 1.32 and later).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from extender.domain.placeholder import Placeholder, State

WAITING_TEXT = "waiting for Slurm to allocate a node"
REFUSED_TEXT = "not submitted to Slurm; the Pod's Events say why"
ENDING_TEXT = "its Slurm allocation is ending"
NOT_OFFERED_TEXT = (
    "kube-scheduler excluded the Node that Slurm allocated; check the taints of the Node and the affinity of the Pod"
)
UNREADY_TEXT = "the extender has not read the cluster's state yet"
REJECTIONS = (WAITING_TEXT, REFUSED_TEXT, ENDING_TEXT, NOT_OFFERED_TEXT)
"""Texts in a Pod's PodScheduled condition: kube-scheduler asked the extender, and did not reject the Pod by itself."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The extender does not place this Pod: every node stays."""

    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Place:
    """This node and no other."""

    node: str


@dataclass(frozen=True, slots=True)
class Wait:
    """No node yet; `text` is constant while nothing changes."""

    text: str


@dataclass(frozen=True, slots=True)
class Unready:
    """The extender has not read the clusters yet: kube-scheduler has to retry."""

    text: str


FilterVerdict = Pass | Place | Wait | Unready


def filter_verdict(p: Placeholder | None, uid: str, offered: Collection[str]) -> FilterVerdict:
    """Return the answer for member `uid`: a node only in GRANTED (cleared) or BOUND, and only one that was offered."""
    if p is None:
        return Wait(WAITING_TEXT)
    if p.state is State.REFUSED:
        # Events are kept for an hour; kube-scheduler writes this answer on the Pod, where it stays.
        return Wait(p.cancelled.text if p.cancelled is not None else REFUSED_TEXT)
    if p.state in {State.LOST, State.GONE}:
        return Wait(ENDING_TEXT)
    node = "" if _has_ended(p, uid) else p.node_of(uid)
    if not node or not (p.state is State.BOUND or (p.state is State.GRANTED and p.cleared)):
        return Wait(WAITING_TEXT)
    return Place(node) if node in offered else Wait(NOT_OFFERED_TEXT)


def bind_refusal(p: Placeholder | None, uid: str, node: str) -> str:
    """Return why this member may not be bound to `node` now; "" if it may."""
    if p is None or p.state not in {State.GRANTED, State.BOUND}:
        return "Slurm has no allocation for this Pod"
    if _has_ended(p, uid):
        return "this Pod has ended before: a restored etcd shows it without a node"
    if p.node_of(uid) != node:
        return f"Slurm allocated {p.node_of(uid) or 'no node'} to this Pod, not {node}"
    if p.state is State.GRANTED and not p.cleared:
        return f"Slurm allocated Node {node}, which is not free of earlier Pods yet"
    return ""


def _has_ended(p: Placeholder, uid: str) -> bool:
    """Return whether the end of this member was seen. Where it comes back, its slot is found out first."""
    member = p.member(uid)
    return member is not None and member.end is not None
