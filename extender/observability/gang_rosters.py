"""List the members of gangs for users and operators: rank, slot, phase, vote, and everything that is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.events import PodEnd
from extender.domain.gangs.membership import Membership
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.printable import shortened
from extender.domain.views import PodView
from extender.observability.gangs import GangState, gang_state

MOST_MEMBERS = 2000
"""Members of one gang that are listed; how many more there are is a number."""

NAMED = 5
"""Pods and ranks that a sentence names."""


class MemberState(StrEnum):
    """Name how far a Pod of a gang is."""

    WAITING = "waiting"
    """It has no node, or kube-scheduler has not accepted it there."""

    VOTED = "voted"
    """kube-scheduler accepts it on its node; it is bound with all others."""

    BINDING = "binding"
    BOUND = "bound"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The API server did not show the Pod of this rank at a start; it may run."""

    UNNEEDED = "unneeded"
    """The gang has all of its Pods without this one."""


@dataclass(frozen=True, slots=True)
class RosterRow:
    """One Pod of a gang. `rank` is `None` for a Pod without a slot; nodes are "" before the allocation."""

    pod: str
    """`namespace/name`."""

    uid: str
    rank: int | None
    slurm_node: str
    node: str
    phase: str
    state: MemberState


@dataclass(frozen=True, slots=True)
class GangRoster:
    """One gang with its members in the order of ranks."""

    key: str
    namespace: str
    name: str
    source: str
    state: GangState
    job_id: int | None
    size: int
    """How many members it has when it is complete; 0: not known yet."""

    bound: int
    missing: str
    """What keeps it from running as a whole, in one sentence; "" for nothing."""

    rows: tuple[RosterRow, ...]
    empty: tuple[tuple[int, str], ...] = ()
    """Ranks without a live Pod while the job has its nodes, each with the Slurm node that is kept for it."""

    left_out: int = 0
    """Pods beyond `MOST_MEMBERS`."""


def roster(
    key: str,
    memberships: Mapping[str, Membership],
    p: Placeholder | None,
    lacks: str,
    *,
    absent: str = "",
    pod: Callable[[str], PodView | None],
    voted: Collection[str],
) -> GangRoster:
    """Return the roster of one gang.

    `memberships` are what its Pods say, by UID. `lacks`: why it has no job yet; `absent`: which Pods do not exist
    although it has its nodes; "" for nothing. `voted` are the UIDs of the members that kube-scheduler has accepted.
    """
    members = {} if p is None else {member.ref.uid: (slot, member) for slot, member in p.by_slot}
    uids = [*members, *(uid for uid in memberships if uid not in members)]
    rows = [_row(uid, members.get(uid), p, pod(uid), voted) for uid in uids[:MOST_MEMBERS]]
    rows.sort(key=lambda one: (one.rank is None, one.rank or 0, one.pod))
    first = next(iter(memberships.values()), None)
    expected = 0 if first is None or first.expected is None else first.expected
    empty = _empty(p)
    return GangRoster(
        key,
        first.namespace if first is not None else p.refs[0].namespace if p is not None and p.refs else "",
        first.name if first is not None else "" if p is None else p.title,
        str(first.source) if first is not None else "",
        gang_state(lacks, p),
        None if p is None else p.job_id,
        max(expected, 0 if p is None or p.request is None else p.request.members),
        sum(one.state is MemberState.BOUND for one in rows),
        lacks or absent or _unvoted(p, rows) or _vacant(p, empty),
        tuple(rows),
        empty,
        max(0, len(uids) - MOST_MEMBERS),
    )


def _row(
    uid: str, place: tuple[int, Member] | None, p: Placeholder | None, pod: PodView | None, voted: Collection[str]
) -> RosterRow:
    name = place[1].ref.full_name if place is not None else uid if pod is None else pod.full_name
    phase = "" if pod is None else pod.phase
    if place is None or p is None:
        unneeded = p is not None and p.state in {State.GRANTED, State.BOUND}
        return RosterRow(name, uid, None, "", "", phase, MemberState.UNNEEDED if unneeded else MemberState.WAITING)
    slot, member = place
    node = member.node or p.node_of(uid)
    return RosterRow(name, uid, slot, member.slurm_node or p.slurm_node_of(uid), node, phase, _state(member, voted))


def _state(member: Member, voted: Collection[str]) -> MemberState:
    if member.end is not None:
        return MemberState.ENDED
    if member.unknown:
        return MemberState.UNKNOWN
    if member.ending:
        return MemberState.ENDING
    if member.binding:
        return MemberState.BINDING
    if member.node:
        return MemberState.BOUND
    return MemberState.VOTED if member.ref.uid in voted else MemberState.WAITING


def _empty(p: Placeholder | None) -> tuple[tuple[int, str], ...]:
    if p is None or p.state not in {State.GRANTED, State.BOUND} or p.job is None:
        return ()
    taken = {slot for slot, member in p.by_slot if member.end is None}
    slots = p.job.slots or p.job.slurm_nodes
    return tuple((slot, slots[slot] if slot < len(slots) else "") for slot in range(p.size) if slot not in taken)


def _unvoted(p: Placeholder | None, rows: Collection[RosterRow]) -> str:
    """Name the members that kube-scheduler has not accepted; none is bound before it has."""
    if p is None or p.state is not State.GRANTED:
        return ""
    waiting = [one.pod for one in rows if one.state is MemberState.WAITING]
    if not waiting:
        return ""
    return f"kube-scheduler has not accepted {shortened(waiting, NAMED)} on a node; none is bound before all are."


def _vacant(p: Placeholder | None, empty: Collection[tuple[int, str]]) -> str:
    if p is None or not empty:
        return ""
    succeeded = {slot for slot, member in p.by_slot if member.end is PodEnd.SUCCEEDED}
    ranks = [str(rank) for rank, _ in empty if rank not in succeeded]
    if not ranks:
        return ""
    named = shortened(ranks, NAMED)
    return f"{len(ranks)} of {p.size} slots of Slurm job {p.job_id} wait for their Pods: rank {named}."
