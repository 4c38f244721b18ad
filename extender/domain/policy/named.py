"""Names that a Pod may give where no rule of the policy decides: partitions, accounts, QOS, reservations, MCS labels.

The extender asks Slurm with an administrator's token, so that Slurm's own limits on who may use a partition, an account
or a QOS do not hold for what a Pod names. The site lists what Pods may name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.domain.cluster import SlurmPartition, SlurmSnapshot


@dataclass(frozen=True, slots=True)
class Nameable:
    """Patterns of names that any Pod may give; each `*` matches any characters. An empty one: no Pod may."""

    partitions: tuple[str, ...] = ()
    """In addition to the partitions that all users may use: see `restricted_partitions`."""

    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    reservations: tuple[str, ...] = ()
    mcs_labels: tuple[str, ...] = ()


def restricted_partitions(slurm: SlurmSnapshot) -> Mapping[str, str] | None:
    """Return the partitions that not all users may use, each with the reason; `None`: Slurm was not read yet.

    A partition is restricted if it has AllowGroups, AllowAccounts or AllowQos, or a PriorityTier above that of the
    default partition. The default partition is open. Without a known default partition, the lowest tier counts instead.
    """
    if not slurm.known:
        return None
    every = slurm.partitions.values()
    defaults = [one.priority_tier for one in every if one.default]
    base = max(defaults) if defaults else min((one.priority_tier for one in every), default=1)
    return {one.name: why for one in every if not one.default and (why := _restriction(one, base))}


def _restriction(partition: SlurmPartition, base: int) -> str:
    reasons = list(partition.reserved_for)
    if partition.priority_tier > base:
        reasons.append(f"PriorityTier={partition.priority_tier} above {base}")
    return ", ".join(reasons)
