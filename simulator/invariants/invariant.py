"""The invariants, and for how long each may appear violated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
    """The invariants, with the text that is printed."""

    ONE_JOB = "no Pod has two live jobs, except after a lost response"
    ONE_GRANT = "no two jobs of one workload are allocated to its Pods"
    NO_ORPHAN = "no placeholder job lives without its Pod"
    SETTLES = "the job of a deleted Pod ends soon, as long as etcd was not restored"
    NO_STRAY = "no Pod runs without its job"
    PROGRESS = "no Pod waits forever while resources are free"
    TRUTH = "nothing is cancelled or deleted because information is missing"
    FENCE = "no next job or Pod starts on a node before the ended Pod is gone"
    ROOM = "no Pod is bound to a node where kubelet would refuse it"
    MASS_DELETION_GUARD = "the mass-deletion guard limits evictions for missing jobs"
    NO_DRAIN_LEFT = "no node stays drained by the extender without cause"
    FOREIGN_DRAINS = "drains by others remain"
    FOREIGN_CORDONS = "cordons and taints by others remain"
    SAME_NODE_STATE = "Slurm and Kubernetes show the same state of a node"
    NODES = "no node with a Pod, of others, or drained by others is deleted from Slurm"
    NATIVE_JOBS = "the extender never ends native jobs"
    WHOLE_GANGS = "no gang stays bound in part"
    GANG_NODES = "no gang keeps nodes for members that are not bound"
    RANKS = "the members of a gang are on the nodes of its job in the order of ranks"
    SLOTS = "no slot of a gang has two Pods"
    GANG_LOOP = "no gang is given nodes repeatedly without being bound"
    HELD = "a job holds the resources of each foreign Pod, or its node is drained"
    POLICY = "a waiting Pod has a job if and only if the policy allows it"
    ALIVE = "the extender does not fail"
    REST = "the healed cluster becomes quiet"


BOUNDS_S = {
    Invariant.ONE_JOB: 180.0,
    Invariant.NO_ORPHAN: 900.0,
    Invariant.SETTLES: 60.0,
    Invariant.NO_STRAY: 180.0,
    Invariant.PROGRESS: 600.0,
    Invariant.NO_DRAIN_LEFT: 180.0,
    Invariant.FOREIGN_DRAINS: 0.0,
    Invariant.SAME_NODE_STATE: 120.0,
    Invariant.WHOLE_GANGS: 12.0,
    Invariant.GANG_NODES: 95.0,
    Invariant.HELD: 60.0,
    Invariant.POLICY: 120.0,
}
"""Undisturbed seconds for which an invariant may appear violated: a lost response settles in 60.

A gang is bound in part while its Bindings are under way. kube-scheduler repeats one that the API server refused after
a back-off of at most 10 s. A gang keeps nodes without a bound member for `gangs.bindWithin` and `gangs.replaceWithin`,
90 s by default. The rest is the time between two checks, and 0.1 s for each member.
"""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant. `events` lists the events of the objects concerned."""

    invariant: Invariant
    at: float
    subjects: tuple[str, ...]
    text: str
    events: tuple[str, ...]
