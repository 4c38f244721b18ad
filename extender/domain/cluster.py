"""Represent Slurm as the rules need it: nodes, partitions, and the features of the connected Slurm."""

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
    """The user that set the reason."""

    partitions: tuple[str, ...] = ()
    cpus: int = 0
    """As configured; 0: not known."""

    memory_mb: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    """Name, with its type if it has one -> count: `gpu:h100`."""

    features: tuple[str, ...] = ()
    """AvailableFeatures."""
    topology: str = ""
    registered_for: str = ""
    """The Node that this extender made it for (`nodes.external_nodes`); "": it made no such node."""

    size: Amount | None = None
    """The part of it that jobs may use; `None`: not known."""

    used: Amount = field(default_factory=Amount)
    """The part that jobs hold. slurmctld reports only GRES for a node that is read by itself (26.05.5)."""

    @property
    def external(self) -> bool:
        """Return whether it is a node without slurmd (`State=EXTERNAL`)."""
        return "EXTERNAL" in self.flags

    @property
    def drained(self) -> bool:
        """Return whether DRAIN or FAIL keeps new jobs off it: slurmctld treats both alike (`node_mgr.c`).

        A FAIL under the reason of an extender is not counted: the reason of the FAIL is lost.
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
    """Upper-case words joined by a comma, as slurmctld reports them: `CANCEL`, `GANG,SUSPEND`, `OFF` ..."""

    max_time_minutes: int | None = None
    """`MaxTime`; `None` is no limit."""

    reserved_for: tuple[str, ...] = ()
    """Its access lists, such as `AllowGroups=a,b`; empty: every user may use it."""


@dataclass(frozen=True, slots=True)
class SlurmFeatures:
    """Hold the features of the connected Slurm, some of them as the site configured them."""

    release: tuple[int, int, int] = (0, 0, 0)
    allocate: bool = False
    external: bool = False
    external_anywhere: bool = False
    """The site allows external jobs on nodes with slurmd, where they have no Epilog and nothing holds the node."""

    send_user_signal: bool = False
    """`PreemptParameters=send_user_signal`, from the site's configuration: no API before 26.05 shows it."""

    preempting_qos: frozenset[str] = frozenset()
    """QOS names that may preempt, from the site's configuration."""

    register: bool = False
    """External nodes can be made, and used."""

    gres_types: frozenset[str] | None = None
    """slurm.conf's GresTypes: slurmctld silently drops any other GRES of a new node. `None`: not shown."""

    renew: bool = False
    """A node that was deleted can be made again under its name."""

    qos_preempts: bool = False
    """`PreemptType=preempt/qos`, as far as Slurm shows it (from 26.05 on)."""


@dataclass(frozen=True, slots=True)
class SlurmSnapshot:
    """Hold all that the rules read of Slurm at one instant. `known` is False until the first complete read."""

    nodes: Mapping[str, SlurmNode] = field(default_factory=dict)
    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)
    features: SlurmFeatures = field(default_factory=SlurmFeatures)
    known: bool = False

    def partition_names(self, requested: str) -> tuple[str, ...]:
        """Return the partitions of a job that asks for `requested`: a comma-separated list, "" for the default."""
        if requested:
            return tuple(part.strip() for part in requested.split(",") if part.strip())
        return tuple(p.name for p in self.partitions.values() if p.default)
