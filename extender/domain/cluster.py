"""Slurm's side of the picture, as the rules need it: nodes, partitions, and what this Slurm can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extender.domain.amount import Amount
from extender.domain.wellknown import DRAIN_PREFIX


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node of slurmctld. `flags` are its state flags (DRAIN, EXTERNAL, NOT_RESPONDING ...)."""

    name: str
    hostname: str = ""
    address: str = ""
    state: str = "IDLE"
    flags: frozenset[str] = frozenset()
    reason: str = ""
    reason_user: str = ""
    """Who gave the reason."""

    partitions: tuple[str, ...] = ()
    cpus: int = 0
    """As configured; 0 is not known."""

    memory_mb: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    """Name, with its type if it has one -> count: `gpu:h100`."""

    features: tuple[str, ...] = ()
    """Those that it may have (AvailableFeatures)."""
    topology: str = ""
    registered_for: str = ""
    """The Node that this extender made it for (`nodes.external_nodes`); "": somebody else made it."""

    size: Amount | None = None
    """What of it jobs may have; `None`: not known."""

    used: Amount = field(default_factory=Amount)
    """What of that jobs hold; of a node that was read by itself slurmctld tells only GRES (26.05.5)."""

    @property
    def external(self) -> bool:
        """A node without slurmd (`State=EXTERNAL`)."""
        return "EXTERNAL" in self.flags

    @property
    def drained(self) -> bool:
        """Somebody said that it takes no new jobs: a drain, or FAIL, which slurmctld honours alike (`node_mgr.c`).

        Where a FAIL stands under the words of an extender, whose reason it gave is lost: there is no drain to see.
        """
        return "DRAIN" in self.flags or ("FAIL" in self.flags and not self.reason.startswith(DRAIN_PREFIX))


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """A partition; `nodes` are expanded names."""

    name: str
    nodes: frozenset[str] = frozenset()
    default: bool = False
    priority_tier: int = 1
    grace_time_s: int = 0
    preempt_mode: str = ""
    """Upper-case words joined by a comma, as slurmctld says them: `CANCEL`, `GANG,SUSPEND`, `OFF` ..."""

    max_time_minutes: int | None = None
    """`MaxTime`; `None` is no limit."""

    reserved_for: tuple[str, ...] = ()
    """Whom Slurm lets use it, such as `AllowGroups=a,b`; empty: everybody."""


@dataclass(frozen=True, slots=True)
class SlurmFeatures:
    """What the connected Slurm offers and what the site has told us about it."""

    release: tuple[int, int, int] = (0, 0, 0)
    allocate: bool = False
    external: bool = False
    external_anywhere: bool = False
    """The site allows external jobs on nodes with slurmd, where they have no Epilog and nothing holds the node."""

    send_user_signal: bool = False
    """`PreemptParameters=send_user_signal`: said by the site's configuration, no API before 26.05 tells it."""

    preempting_qos: frozenset[str] = frozenset()
    """QOS names that may preempt, from the site's configuration."""

    register: bool = False
    """External nodes can be made, and used."""

    gres_types: frozenset[str] | None = None
    """slurm.conf's GresTypes: of a new node slurmctld leaves out any other, without a word. `None`: not shown."""

    renew: bool = False
    """A node that was deleted can be made again under its name."""

    qos_preempts: bool = False
    """`PreemptType=preempt/qos`, as far as Slurm shows it (from 26.05 on)."""


@dataclass(frozen=True, slots=True)
class SlurmSnapshot:
    """Everything the rules read of Slurm at one instant. `known` is False until the first complete read."""

    nodes: Mapping[str, SlurmNode] = field(default_factory=dict)
    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)
    features: SlurmFeatures = field(default_factory=SlurmFeatures)
    known: bool = False

    def partition_names(self, requested: str) -> tuple[str, ...]:
        """The partitions that a job asking for `requested` (a comma-separated list, "" for the default) may run in."""
        if requested:
            return tuple(part.strip() for part in requested.split(",") if part.strip())
        return tuple(p.name for p in self.partitions.values() if p.default)
