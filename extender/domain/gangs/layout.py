"""Give each member of a gang its rank, and each rank its slot of the allocation.

Slurm lists the nodes of a job in the order of its node table, whatever was asked (sbatch(1), tried on 24.11 and 26.05).
Slots are in that order, so that consecutive ranks are on neighbouring nodes where slurm.conf lists them so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from extender.domain.gangs.membership import MemberOrder
from extender.domain.jobs.devices import Device, numbers


def ranks(orders: Mapping[str, MemberOrder], size: int, kept: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the rank of each member, by UID; no two have the same.

    `kept` are ranks that members have already, since they are bound. Where every other member has an index of its own
    below `size`, that is its rank, also before all members exist. Otherwise they take the free ranks in their order.
    """
    has = dict(kept or {})
    others = {uid: order for uid, order in orders.items() if uid not in has}
    indexes = [order.index[0] for order in others.values() if len(order.index) == 1]
    taken = set(has.values())
    own = len(indexes) == len(others) and len(set(indexes)) == len(indexes) and not taken & set(indexes)
    if own and all(index < size for index in indexes):
        return has | {uid: order.index[0] for uid, order in others.items()}
    turns = sorted(others, key=lambda uid: (others[uid].key, uid))
    free = (rank for rank in range(len(turns) + len(taken)) if rank not in taken)
    return has | dict(zip(turns, free, strict=False))


def assigned(
    nodes: Sequence[str], size: int, kept: Mapping[int, str], places: Mapping[str, int] | None = None
) -> tuple[str, ...]:
    """Return the node of each of `size` slots, by Slurm's names; "" for a slot without one.

    `nodes` are in Slurm's order, with so many `places` on each (default one). `kept` are slots whose nodes are known.
    """
    used = Counter(kept.values())
    free = [node for node in nodes for _ in range((1 if places is None else places.get(node, 0)) - used[node])]
    open_slots = [slot for slot in range(size) if slot not in kept]
    found = dict(kept)
    if len(free) < len(open_slots):
        # The job has given up nodes. Those that it has are in the order of slots, which says whose they may be.
        at = {node: index for index, node in enumerate(nodes)}
        known = [(slot, at[node]) for slot, node in kept.items() if node in at]
        for node in free:
            last_before = max((slot for slot, index in known if index < at[node]), default=-1)
            first_after = min((slot for slot, index in known if index > at[node]), default=size)
            between = (slot for slot in open_slots if last_before < slot < first_after)
            slot = next(between, open_slots[0])
            open_slots.remove(slot)
            found[slot] = node
    else:
        found |= zip(open_slots, free, strict=False)
    return tuple(found.get(slot, "") for slot in range(size))


def shared_places(nodes: Sequence[str], members: int, room: Mapping[str, int]) -> dict[str, int]:
    """Return how many of so many members each node of a packed job holds. `room`: how many fit on each.

    Nodes are filled in Slurm's order, so that consecutive ranks are together; one member stays for each later node.
    Where Slurm rounded up to whole cores, a node has room for more members than Slurm meant it for.
    """
    places: dict[str, int] = {}
    for index, node in enumerate(nodes):
        left = members - sum(places.values()) - (len(nodes) - index - 1)
        places[node] = max(1, min(room.get(node, 1), left))
    return places


def shared_devices(devices: Sequence[Device], place: int, places: int) -> tuple[Device, ...]:
    """Return the devices of one of the members that share a node; `place` counts them from 0 in order of rank.

    Slurm says which devices of the node the job has, and not which task has which: each member gets consecutive ones.
    """
    if places < 2:
        return tuple(devices)
    given = []
    for one in devices:
        count = one.count // places
        own = numbers(one.index)
        each = len(own) // places
        index = ",".join(map(str, own[place * each : (place + 1) * each]))
        given.append(Device(one.name, one.type, count, index))
    return tuple(one for one in given if one.count)
