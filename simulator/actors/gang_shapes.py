"""Draw gangs: their source, size and settings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extender.domain.jobs.job import GangLayout, GangRestart, OnNodeFailure
from extender.domain.translation.annotation_table import ON_NODE_FAILURE
from extender.domain.wellknown import GANG_LAYOUT, GANG_RESTART, OWN_PREFIX
from simulator.kube.kubelet import STOP_FOR
from simulator.kube.objects import Json


class GangKind(StrEnum):
    """The source of a gang, and who recreates its members."""

    ANNOTATED = "annotated"
    """Pods without an owner; one that is gone is created again under its name."""

    POD_GROUP = "pod-group"
    """The same, with a PodGroup of Kubernetes."""

    COSCHEDULING = "coscheduling"
    """The same, with a PodGroup of scheduler-plugins."""

    KUEUE = "kueue"
    """The same, with a Pod group of Kueue, which is admitted once it is complete."""

    JOB = "job"
    """An Indexed Job: a member that fails or is being deleted is replaced at once, under another name."""

    JOB_SET = "jobset"
    """A failed or deleted member has all Pods of the set created again, by new Jobs."""

    WORKERS = "lws"
    """A LeaderWorkerSet: a failed or deleted member has the group recreated under the same names."""

    LEADER_READY = "lws-ready"
    """The same, whose workers are created once the leader runs."""


RESTARTED = frozenset({GangKind.JOB_SET, GangKind.WORKERS, GangKind.LEADER_READY})
"""Kinds of which all members are created again when one fails."""

SERVING = frozenset({GangKind.WORKERS, GangKind.LEADER_READY})
"""Kinds whose Pods never succeed."""

OWNED = frozenset({GangKind.JOB, *RESTARTED})
"""Kinds whose Pods have a controller."""

GROUPED = frozenset({GangKind.POD_GROUP, GangKind.COSCHEDULING})
"""Kinds whose Pods name a PodGroup."""


@dataclass(slots=True)
class Gang:
    """One gang, with its present generation of Pods."""

    name: str
    kind: GangKind
    size: int
    fields: dict[str, Any]
    fits: bool
    """An empty cluster has enough nodes for it."""

    attempt: int = 0
    made: int = 0
    restarting: bool = False
    owner: Json | None = None
    """Its controller or PodGroup."""

    done: set[int] = field(default_factory=set)
    """Places whose Pod has succeeded."""

    @property
    def expected(self) -> int:
        """Return how many Pods complete the gang."""
        if self.kind is GangKind.LEADER_READY:
            return 1
        return self.size - len(self.done) if self.kind is GangKind.JOB else self.size

    @property
    def is_packed(self) -> bool:
        """Return whether members share nodes."""
        return GANG_LAYOUT in self.fields["annotations"]

    @property
    def keeps_allocation(self) -> bool:
        """Return whether a new incarnation takes over the job of the one before."""
        return self.kind in RESTARTED and GANG_RESTART in self.fields["annotations"]


def draw_gang(rng: random.Random, number: int, widest: int, modes: Sequence[str]) -> Gang:
    """Draw gang `number`: of `widest` nodes at most, or, with a small chance, one that no cluster here has room for."""
    kind = rng.choice([GangKind.ANNOTATED, GangKind.JOB, *GangKind])
    size, fits = rng.randint(2, widest), rng.random() > 0.05
    packed = fits and rng.random() < 0.25
    annotations = {OWN_PREFIX + "mode": rng.choice(modes), STOP_FOR: str(rng.choice([0.2, 1, 3, 10]))}
    if partition := rng.choice(["", "", "batch", "graced", "requeued", "urgent"]):
        annotations[OWN_PREFIX + "partition"] = partition
    if rng.random() < 0.2:
        annotations[OWN_PREFIX + "time-limit"] = str(rng.choice([2, 5, 20]))
    if rng.random() < 0.3:
        annotations[OWN_PREFIX + ON_NODE_FAILURE.name] = OnNodeFailure.KEEP
    if kind in RESTARTED and rng.random() < 0.4:
        annotations[GANG_RESTART] = GangRestart.KEEP_ALLOCATION
    if packed:
        annotations[GANG_LAYOUT] = GangLayout.PACK
        size = rng.randint(2, 2 * widest)
    fields: dict[str, Any] = {
        "cpu": str(rng.choice([1, 2, 4] if packed else [1, 2, 4, 8, 12])),
        "memory": "1Gi" if packed else rng.choice(["1Gi", "4Gi"]),
        "grace_s": rng.choice([0, 1, 5, 30]),
        "annotations": annotations,
    }
    return Gang(f"{kind}-{number}", kind, size if fits else widest + 20, fields, fits)
