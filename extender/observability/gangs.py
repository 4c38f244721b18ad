"""Count gangs by state, and the slots of their jobs that no member has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from extender.domain.placeholder import Placeholder, State


class GangState(StrEnum):
    """The states by which gangs are counted."""

    INCOMPLETE = "incomplete"
    """Members are missing, so that no job exists."""

    WAITING = "waiting"
    """Complete, without nodes."""

    GRANTED = "granted"
    """The job has nodes, and not every member is bound."""

    BOUND = "bound"
    ENDING = "ending"
    """The job or the Pods on it are being ended."""

    REFUSED = "refused"


_OF = {
    State.GRANTED: GangState.GRANTED,
    State.BOUND: GangState.BOUND,
    State.LOST: GangState.ENDING,
    State.RELEASING: GangState.ENDING,
    State.REFUSED: GangState.REFUSED,
}
"""All other states are `waiting`."""


def gangs_by_state(gangs: Mapping[str, str], workloads: Mapping[str, Placeholder]) -> dict[str, float]:
    """Return how many gangs are in each state. `gangs`: by key why each lacks a member; "" if it is complete."""
    found = Counter[str]()
    for key, missing in gangs.items():
        found[gang_state(missing, workloads.get(key))] += 1
    return {state: found[state] for state in GangState}


def gang_state(missing: str, p: Placeholder | None) -> GangState:
    """Return the state of one gang. `missing`: why it lacks a member; "" if it is complete."""
    state = State.ABSENT if p is None else p.state
    return GangState.INCOMPLETE if missing else _OF.get(state, GangState.WAITING)


def empty_slots(gangs: Iterable[str], workloads: Mapping[str, Placeholder]) -> int:
    """Return how many slots whose nodes are in the job have no live member."""
    count = 0
    for key in gangs:
        p = workloads.get(key)
        if p is None or p.state not in {State.GRANTED, State.BOUND} or p.request is None:
            continue
        used = {slot for slot, member in p.by_slot if not member.end}
        count += sum(1 for slot in range(p.size) if slot not in used and p.has_node_for(slot))
    return count
