"""A node as Slurm reports it, changes to it, and new nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

from slurmclient.errors import InvalidRequestError
from slurmclient.models.state import NodeState
from slurmclient.number import Infinite
from slurmclient.tres import Gres

# The words of slurm.conf(5) and scontrol(1) that POST /node takes; a mistyped one must not reach slurmctld half
# understood.
_UPDATE_STATES: Final = frozenset(
    {
        "DRAIN", "UNDRAIN", "RESUME", "DOWN", "IDLE", "FAIL", "FUTURE", "CLOUD", "CANCEL_REBOOT", "REBOOT_CANCELED",
        "NOT_RESPONDING", "NO_RESPOND", "PLANNED", "POWER_UP", "POWERING_UP", "POWER_DOWN", "POWERING_DOWN",
        "POWER_DOWN_ASAP", "POWER_DOWN_FORCE", "REBOOT_REQUESTED", "REBOOT_ISSUED",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Describe a node.

    Attributes:
        name: in Slurm.
        hostname: NodeHostName.
        address: NodeAddr.
        state: base state.
        flags: the other words: DRAIN, NOT_RESPONDING, COMPLETING, RESERVED, MAINTENANCE, EXTERNAL (from v0.0.44 on) …
        reason: why it is drained, down or failing; empty otherwise, since Slurm may keep an old text after a RESUME.
        reason_user: the user who set the reason.
        reason_time: when, epoch seconds.
        cpus: configured.
        effective_cpus: of these usable by jobs.
        real_memory_mb: configured.
        specialized_memory_mb: kept for the system.
        allocated_cpus: held by jobs.
        allocated_memory_mb: held by jobs.
        free_memory_mb: as slurmd reports it; None if it never did.
        gres: configured.
        gres_used: held by jobs.
        features: available ones.
        active_features: of these active.
        partitions: it is in.
        comment: text of operators.
        extra: text of operators.
        topology: its units, `topo-switch:s1,topo-block:b1`; shown from v0.0.43 on.
        weight: lower is chosen first.
        version: of slurmd; empty if it never registered.
        boot_time: epoch seconds.
        last_busy: epoch seconds.
        reservation: active on it.
        mcs_label: in use on it.
        owner: user with exclusive use.
        latest_reason: the last reason that was set, whatever the state is.
        latest_reason_time: when, epoch seconds.
    """

    name: str
    hostname: str
    address: str
    state: NodeState
    flags: frozenset[str]
    reason: str
    reason_user: str
    reason_time: int | None
    cpus: int
    effective_cpus: int
    real_memory_mb: int
    specialized_memory_mb: int
    allocated_cpus: int
    allocated_memory_mb: int
    free_memory_mb: int | Infinite | None
    gres: tuple[Gres, ...]
    gres_used: tuple[Gres, ...]
    features: tuple[str, ...]
    active_features: tuple[str, ...]
    partitions: tuple[str, ...]
    comment: str
    extra: str
    topology: str
    weight: int | None
    version: str
    boot_time: int | None
    last_busy: int | None
    reservation: str
    mcs_label: str
    owner: str
    latest_reason: str = ""
    latest_reason_time: int | None = None

    @property
    def drained(self) -> bool:
        """Return whether it gets no new jobs: drained, or draining while jobs still run."""
        return "DRAIN" in self.flags

    @property
    def responding(self) -> bool:
        """Return whether its slurmd answers. False after each RESUME until slurmctld has pinged it."""
        return "NOT_RESPONDING" not in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpdate:
    """Describe changes to a node; None changes nothing. For root, SlurmUser and Administrators only.

    Attributes:
        state: words of scontrol(1): DRAIN, RESUME, UNDRAIN, DOWN, IDLE, POWER_DOWN …
        reason: goes with DRAIN and DOWN, which need one.
        resume_after_s: RESUME by itself after so long.
        comment: text.
        extra: text.
        address: NodeAddr.
        features: available ones; those that are active must be among them, or go with it in the same update (2031).
        active_features: active ones.
        gres: text as in slurm.conf.
        topology: units, `topo-switch:s1,topo-block:b1`; from v0.0.43 on.
        weight: lower is chosen first.
    """

    state: tuple[str, ...] | None = None
    reason: str | None = None
    resume_after_s: int | None = None
    comment: str | None = None
    extra: str | None = None
    address: str | None = None
    features: tuple[str, ...] | None = None
    active_features: tuple[str, ...] | None = None
    gres: str | None = None
    topology: str | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        for word in self.state or ():
            if word not in _UPDATE_STATES:
                raise InvalidRequestError(
                    f"node state {word!r} cannot be set; allowed: {', '.join(sorted(_UPDATE_STATES))}"
                )
        if {"DRAIN", "DOWN", "FAIL"} & set(self.state or ()) and not self.reason:
            raise InvalidRequestError(f"node state {self.state} needs a reason, which sinfo shows to all users")
        if all(getattr(self, field.name) is None for field in fields(self)):
            raise InvalidRequestError("node update: nothing to change")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """Describe a new node (`POST /new/node`), by default an external one. One node, never a range.

    Attributes:
        name: one plain name.
        address: an IP address; slurmctld resolves a name at every job start, with locks held.
        cpus: threads in all; Slurm treats each as a socket if the three fields below are None.
        sockets: number of sockets.
        cores_per_socket: cores of each.
        threads_per_core: threads of each core.
        real_memory_mb: memory.
        features: available ones.
        gres: `gpu:h100:8`; several separated by commas.
        gres_conf: the line of gres.conf, e.g. `name=gpu,type=h100,count=8,file=/dev/nvidia[0-7]`; needed with
            `gres`; several joined with `+`.
        topology: units, `topo-switch:s1,topo-block:b1`; switches below an existing one are created, others not.
        state: EXTERNAL, CLOUD or FUTURE.
        weight: lower is chosen first.
    """

    name: str
    cpus: int
    address: str | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    real_memory_mb: int | None = None
    features: tuple[str, ...] = ()
    gres: str | None = None
    gres_conf: str | None = None
    topology: str | None = None
    state: str = "EXTERNAL"
    weight: int | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]+", self.name):
            raise InvalidRequestError(f"node name {self.name!r}: one plain name of letters, digits, '.', '_' and '-'")
        if self.state not in ("EXTERNAL", "CLOUD", "FUTURE"):
            raise InvalidRequestError(f"state {self.state!r} of a new node: EXTERNAL, CLOUD or FUTURE")
        if self.gres and not self.gres_conf:
            raise InvalidRequestError(
                f"gres {self.gres!r} of a new node needs a gres_conf, without it slurmctld refuses (22)"
            )
        for key, value in self._settings():
            if re.search(r"\s", value) or not value:
                raise InvalidRequestError(f"{key}={value!r} of a new node: not empty and without white space")

    def conf(self) -> str:
        """Return the line in the format of slurm.conf(5)."""
        return " ".join(f"{key}={value}" for key, value in self._settings())

    def _settings(self) -> Iterator[tuple[str, str]]:
        for key, value in (
            ("NodeName", self.name),
            ("NodeAddr", self.address),
            ("CPUs", self.cpus),
            ("Sockets", self.sockets),
            ("CoresPerSocket", self.cores_per_socket),
            ("ThreadsPerCore", self.threads_per_core),
            ("RealMemory", self.real_memory_mb),
            ("Feature", ",".join(self.features) if self.features else None),
            ("Gres", self.gres),
            ("GresConf", self.gres_conf),
            ("Topology", self.topology),
            ("Weight", self.weight),
            ("State", self.state),
        ):
            if value is not None:
                yield key, str(value)
