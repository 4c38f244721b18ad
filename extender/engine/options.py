"""How the engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.domain.placeholder import Timing
from extender.domain.pods.claim import Claims


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """`lane_workers` bounds the requests under way to Slurm and, separately, to Kubernetes."""

    cluster: str
    """Tells this Kubernetes cluster's jobs from another's: the UID of its `kube-system` namespace by default."""

    scheduler: str
    claims: Claims
    """Writes and reads what Pods say about their jobs."""

    epoch: int = 0
    """How often the right to write has changed hands before this process got it; see `Author.epoch`."""

    timing: Timing = field(default_factory=Timing)
    lane_workers: int = 8
    validate: bool = False
    """Hold the invariants after every step; for tests."""

    caller: int | None = None
    """The user of Slurm in whose name we ask, if the site says who that is; see `Author.caller`."""
