"""Give Pods that come after the grant the slots of a gang that are free, or say why they get none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from extender.domain.events import MemberRef
from extender.domain.gangs.agreement import misfit
from extender.domain.gangs.completeness import GangCandidate
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Placeholder
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class Seating:
    """Hold the Pod of each slot of the job."""

    slots: Mapping[int, MemberRef]
    """The live members that keep their slot, and the later Pods that get one."""

    changed: bool
    """A later Pod gets a slot, or one has to leave a slot whose node the job does not have any more."""

    waiting: tuple[GangCandidate, ...] = ()
    """Later Pods for which no slot is free."""

    refused: tuple[tuple[GangCandidate, str], ...] = ()
    """Later Pods that fit into no slot, each with a sentence."""


def came_later(p: Placeholder, pods: Mapping[str, PodView]) -> bool:
    """Return whether the members that want a node came when others ran on the job, which continue without them.

    The times of the Pods, `pods` by UID, prove that after a start, too: members that start together exist before the
    first of them is bound.
    """
    running = [pods.get(one.ref.uid) for one in p.members if p.occupies_job(one)]
    first = min((pod.bound_at for pod in running if pod is not None and pod.bound_at is not None), default=None)
    wanting = [pods.get(one.ref.uid) for one in p.members if one.wanting]
    return first is not None and all(pod is not None and pod.created_at > first for pod in wanting)


def seating(
    p: Placeholder,
    request: JobRequest,
    candidates: Sequence[GangCandidate],
    requests: Mapping[str, JobRequest],
    own_gates: Collection[str],
) -> Seating:
    """Return the slots of a gang whose job, for `request`, has its nodes.

    `requests` are what Pods request, by UID; Pods without one get no slot. A Pod takes the slot of its index if that is
    free, else the first free one. A start does not know which Pods had no slot because they fit into none: such a
    member leaves, where others of its gang run.
    """
    slotless = [one.ref.uid for one in p.members if one.slot is None and not one.placed]
    misfits: set[str] = set()
    if slotless and p.job_occupied:
        misfits = {uid for uid in slotless if uid in requests and misfit(request, requests[uid])}
    stays = {
        slot: member.ref
        for slot, member in sorted(p.by_slot, key=lambda one: one[1].unknown)  # it comes before one that waits
        if not member.end and (member.placed or p.has_node_for(slot)) and member.ref.uid not in misfits
    }
    seated = {ref.uid for ref in stays.values()}
    displaced = any(member.wanting and member.ref.uid not in seated for member in p.members)
    places = max(p.size, request.members)
    free = [slot for slot in range(places) if slot not in stays and p.has_node_for(slot)]
    refused: list[tuple[GangCandidate, str]] = []
    waiting: list[GangCandidate] = []
    slots = dict(stays)
    late = [
        one
        for one in candidates
        if one.pod.uid not in seated
        and one.pod.uid in requests
        and one.pod.deleted_at is None
        and set(one.pod.gates) <= set(own_gates)
    ]
    for one in sorted(late, key=lambda one: _turn(one, free)):
        pod = one.pod
        if why := misfit(request, requests[pod.uid]):
            refused.append((one, why))
            continue
        index = one.membership.order.index
        slot = index[0] if len(index) == 1 and index[0] in free else next(iter(free), None)
        if slot is None:
            waiting.append(one)
            continue
        free.remove(slot)
        slots[slot] = MemberRef.of(pod)
    return Seating(slots, displaced or len(slots) > len(stays), tuple(waiting), tuple(refused))


def _turn(one: GangCandidate, free: Collection[int]) -> tuple[object, ...]:
    """Return the order in which Pods get slots: first those whose own slot is free, which no other one takes."""
    order = one.membership.order
    own = len(order.index) == 1 and order.index[0] in free
    return not own, order.key, one.pod.created_at, one.pod.uid
