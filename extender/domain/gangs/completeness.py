"""Decide whether the Pods of a gang exist, so that a job may be submitted for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.domain.gangs.membership import SHARED_NAMES, GangSource, Membership
from extender.domain.views import PodView


@dataclass(frozen=True, slots=True)
class GangCandidate:
    """A Pod that says that it belongs to the gang."""

    pod: PodView
    membership: Membership


@dataclass(frozen=True, slots=True)
class Complete:
    """The gang can start. `members` are in order of rank; `size` is how many slots its job has."""

    members: tuple[GangCandidate, ...]
    size: int
    beyond: tuple[GangCandidate, ...] = ()
    """Pods beyond the size: the gang is full without them."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Say what is missing, in one text for every member."""

    text: str
    absent: frozenset[str] = frozenset()
    """UIDs of Pods that the API server lacks although no end of them is known, as after a restore of etcd."""

    few: bool = False
    """Fewer Pods exist than the gang needs."""


Completeness = Complete | Incomplete

ALIKE = "alike"
"""The settings of Pods that are not compared."""


def completeness(
    candidates: Sequence[GangCandidate],
    own_gates: Collection[str],
    absent: Mapping[str, Membership] | None = None,
    settings: Callable[[PodView], str] = lambda _pod: ALIKE,
) -> Completeness:
    """Return the members, or what is missing. The candidates have one key; `own_gates` are those of the extender.

    `settings`: those that members must have alike, as one text; "" for a Pod that is refused. Of more Pods than the
    gang has places, the first by order, creation and UID are its members; under a controller, see `_of_owner`. A Pod
    that ends counts as no Pod. A Pod of a gang whose owner needs none any more is a gang of one. `absent` are Pods that
    the API server lacks although no end of them is known, by UID: a gang that is complete without them does not wait
    for them. Raises `ValueError` where there are neither candidates nor such Pods.
    """
    if candidates:
        found = _of_existing(candidates, own_gates, settings)
        return replace(found, absent=frozenset(absent)) if absent and isinstance(found, Incomplete) else found
    if not absent:
        raise ValueError("a gang has at least one Pod")
    gang = next(iter(absent.values())).name
    text = f"The API server has no Pod of {gang} at the moment. No further job is submitted until they are back."
    return Incomplete(text, frozenset(absent))


def _of_existing(
    candidates: Sequence[GangCandidate], own_gates: Collection[str], settings: Callable[[PodView], str]
) -> Completeness:
    first = candidates[0].membership
    if unknown := next((one.membership.unknown for one in candidates if one.membership.unknown), ""):
        return Incomplete(unknown)
    sizes = sorted({max(1, one.membership.expected or 0) for one in candidates})
    if len(sizes) > 1:
        return Incomplete(
            f"The Pods of {first.name} state different sizes: {', '.join(map(str, sizes[:5]))}. Set one size on all."
        )
    live = [one for one in candidates if one.pod.deleted_at is None and not one.pod.finished]
    size = sizes[0]
    like: Sequence[GangCandidate] = live
    if first.source not in SHARED_NAMES and len(live) > size:
        live, like = _of_owner(live, size, settings)
    else:
        live.sort(key=_turn)
    if first.source is GangSource.JOB_SET:  # of a Job that was created again, earlier successes were counted
        size = max(size, min(first.most or size, len(like)))
    if lacks_members(first, size, len(live)):
        return Incomplete(f"{len(live)} of {size} Pods of {first.name} exist.", few=True)
    members, beyond = sorted(live[:size], key=_turn), live[size:]
    for one in members:
        gate = next((gate for gate in one.pod.gates if gate not in own_gates), None)
        if gate is not None:
            return Incomplete(f"Pod {one.pod.full_name} of {first.name} still has the scheduling gate {gate}.")
    return Complete(tuple(members), size, tuple(beyond))


def lacks_members(gang: Membership, size: int, live: int) -> bool:
    """Return whether a gang of this size cannot start with so many Pods: its leader may complete it alone."""
    return live < size and not (gang.by_leader and live)


def waits_for_slot(gang: str) -> str:
    """Return why a Pod beyond the size of its gang has no node, as a sentence."""
    return f"{gang} has all of its Pods; this Pod waits until a slot of its job is free."


def _of_owner(
    live: Sequence[GangCandidate], size: int, settings: Callable[[PodView], str]
) -> tuple[list[GangCandidate], Sequence[GangCandidate]]:
    """Return the Pods in the order in which they get places, and those of the settings that count.

    Any author of Pods in the namespace can name the owner. So Pods count whose settings were the first that enough Pods
    had; of these, the older one of two with the same index, then the older ones.
    """
    by_age = sorted(live, key=lambda one: (one.pod.created_at, _turn(one)))
    alike: dict[str, list[GangCandidate]] = {}
    counting = ""
    for one in by_age:
        text = settings(one.pod)
        alike.setdefault(text, []).append(one)
        if text and not counting and len(alike[text]) == size:
            counting = text
    like = alike.get(counting, by_age) if counting else by_age
    first, again, seen = list[GangCandidate](), list[GangCandidate](), set[tuple[int, ...]]()
    for one in like:
        index = one.membership.order.index
        (again if index and index in seen else first).append(one)
        seen.add(index)
    chosen = {one.pod.uid for one in like}
    return [*first, *again, *(one for one in by_age if one.pod.uid not in chosen)], like


def _turn(one: GangCandidate) -> tuple[object, float, str]:
    return one.membership.order.key, one.pod.created_at, one.pod.uid
