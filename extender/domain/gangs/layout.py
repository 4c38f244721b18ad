"""Give each member of a gang its rank, and each rank its slot of the allocation.

Slurm lists the nodes of a job in the order of its node table, whatever was asked (sbatch(1), tried on 24.11 and 26.05).
Slots are in that order, so that consecutive ranks are on neighbouring nodes where slurm.conf lists them so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from extender.domain.gangs.membership import MemberOrder


class GangLayout(StrEnum):
    """Say how members share nodes."""

    SPREAD = "spread"
    """Each on a node of its own."""

    PACK = "pack"
    """On as few nodes as Slurm chooses."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place of an allocation."""

    rank: int
    node: str
    """Slurm's name of the node."""


def ranks(orders: Mapping[str, MemberOrder], size: int) -> dict[str, int]:
    """Return the rank of each member, by UID; no two have the same.

    Where every member has an index of its own below `size`, that is its rank, also before all members exist. Otherwise
    ranks count the members in their order.
    """
    indexes = [order.index[0] for order in orders.values() if len(order.index) == 1]
    if len(indexes) == len(orders) and len(set(indexes)) == len(indexes) and all(index < size for index in indexes):
        return {uid: order.index[0] for uid, order in orders.items()}
    turns = sorted(orders, key=lambda uid: (orders[uid].key, uid))
    return {uid: rank for rank, uid in enumerate(turns)}


def slots(nodes: Sequence[str], size: int, places: Mapping[str, int] | None = None) -> tuple[Slot, ...]:
    """Return the slots of an allocation: `nodes` in Slurm's order, with so many `places` on each (default one).

    Fewer than `size` slots: the allocation is too small for the gang, and the caller releases it.
    """
    given = [node for node in nodes for _ in range(min(size, 1 if places is None else places.get(node, 0)))]
    return tuple(Slot(rank, node) for rank, node in enumerate(given[:size]))


def placed(orders: Mapping[str, MemberOrder], given: Sequence[Slot], size: int) -> dict[str, Slot]:
    """Return the slot of each member by UID; members whose rank has no slot are left out."""
    by_rank = {slot.rank: slot for slot in given}
    return {uid: by_rank[rank] for uid, rank in ranks(orders, size).items() if rank in by_rank}
