"""The invariants, and for how long each may appear violated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
    """The invariants, with the text that is printed."""

    ONE_JOB = "no Pod has two live jobs, beyond the time after a lost answer"
    ONE_GRANT = "no two jobs of one unit are granted to its Pods"
    NO_ORPHAN = "no job of ours lives without its Pod"
    NO_STRAY = "no Pod runs on without its job"
    PROGRESS = "no Pod waits for ever while room is there"
    TRUTH = "nothing is cancelled or deleted because information is missing"
    FENCE = "no next job or Pod starts on a node before the ended Pod is gone"
    ROOM = "no Pod is bound to a node where kubelet would refuse it"
    BRAKE = "the brake holds"
    NO_DRAIN_LEFT = "nothing stays drained by us"
    FOREIGN_DRAINS = "drains of others stay"
    FOREIGN_CORDONS = "cordons and taints of others stay"
    SAME_PICTURE = "both sides show the same of a node"
    NODES = "no node is taken out of Slurm that a Pod is on, that others drained, or that others made"
    FOREIGN_JOBS = "jobs of others never die by us"
    HELD = "Slurm holds what Pods of other schedulers use, or is kept off their node"
    POLICY = "who waits has a job where the policy allows it, and none where it does not"
    ALIVE = "the extender does not die by itself"
    REST = "everything comes to rest"


BOUNDS_S = {
    Invariant.ONE_JOB: 180.0,
    Invariant.NO_ORPHAN: 900.0,
    Invariant.NO_STRAY: 180.0,
    Invariant.PROGRESS: 600.0,
    Invariant.NO_DRAIN_LEFT: 180.0,
    Invariant.FOREIGN_DRAINS: 0.0,
    Invariant.SAME_PICTURE: 120.0,
    Invariant.HELD: 60.0,
    Invariant.POLICY: 120.0,
}
"""Calm seconds for which the opposite may be seen: a lost answer settles in 60, orphans are held for minutes."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant. `story` lists the events of the objects concerned."""

    invariant: Invariant
    at: float
    subjects: tuple[str, ...]
    text: str
    story: tuple[str, ...]
