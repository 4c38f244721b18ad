"""Represent a placeholder job: its request, and its state as Slurm reports it.

`JobRequest` is the translation of a workload; `JobOrder` adds what is decided at submission; `JobView` is a job as
slurmctld reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.jobs.devices import Device
from extender.domain.wellknown import DEFAULT_GRACE_S


class Mode(StrEnum):
    """Name the form of a placeholder job in Slurm."""

    BATCH = "batch"
    """A script that reports its start, sleeps, and on a warning calls `/hooks` and waits. Nodes with slurmd."""

    ALLOCATION = "allocation"
    """`POST /job/allocate`, immediate: no script and no process. Nodes with slurmd."""

    EXTERNAL = "external"
    """Flag EXTERNAL_JOB: no slurmd is involved. Slurm 25.05 and later."""

    AUTO = "auto"
    """Decided for each job from its candidate nodes and its partition."""


class Exclusive(StrEnum):
    """Say which jobs may share a node with the job."""

    NONE = "none"
    """None: Slurm's `--exclusive`."""

    OK = "ok"
    """All: `--oversubscribe` is allowed."""

    USER = "user"
    """Jobs of the same user."""

    MCS = "mcs"
    """Jobs that ask the same and have the same label; without MCSPlugin=mcs/label all (24.11, 26.05)."""

    TOPO = "topo"
    """None, in the whole block of nodes; without topology/block all (24.11, 26.05)."""


class OnNodeFailure(StrEnum):
    """Say what becomes of a gang when one of its nodes fails."""

    END = "end"
    """Slurm ends the whole job, as it does where nothing is said."""

    KEEP = "keep"
    """The node leaves the job, and the members on the others go on (`--no-kill`)."""


class GangLayout(StrEnum):
    """Say how the members of a gang share nodes."""

    SPREAD = "spread"
    """Each member has a node of its own, as where nothing is said."""

    PACK = "pack"
    """Members are tasks of the job, on as few nodes as Slurm chooses."""


class GangRestart(StrEnum):
    """Say what becomes of the job of a gang when all members have ended."""

    NEW_JOB = "new-job"
    """It ends, as where nothing is said; the next incarnation of the gang gets another job."""

    KEEP_ALLOCATION = "keep-allocation"
    """It runs on for a limited time, and the next incarnation takes it over."""


@dataclass(frozen=True, slots=True)
class RunAs:
    """Hold user and group of a job as numbers, never one without the other.

    Given a user alone, slurmctld makes a job with the group of the token's owner; slurmrestd up to 25.05.2 crashes on a
    group that is no number.
    """

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Charge:
    """To whom a job is charged."""

    run_as: RunAs | None
    account: str
    qos: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Hold the request of a workload. `None` and "" mean: not set, so Slurm's own default holds.

    `cpus` and `memory_mb` are per member; `gres` maps a GRES name with optional type (`gpu`, `gpu:h100`) to a count
    per member.
    """

    title: str
    """The readable part of the job's name."""

    cpus: int
    memory_mb: int
    """0 with `whole_node`: all memory of the node."""

    members: int = 1
    gres: Mapping[str, int] = field(default_factory=dict)
    tres_per_node: str = ""
    """GRES as the user wrote them (`gres/gpu:a100:2`); overrides `gres`."""

    mode: Mode = Mode.AUTO
    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    wckey: str = ""
    comment: str = ""
    constraints: str = ""
    prefer: str = ""
    licenses: str = ""
    dependency: str = ""
    mcs_label: str = ""
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    min_nodes: int | None = None
    max_nodes: int | None = None
    exclusive: Exclusive | None = None
    run_as: RunAs | None = None
    """`None` runs the job as the token's user."""

    working_dir: str = ""
    time_limit_minutes: int | None = None
    time_limit_least: int | None = None
    """The least that the limit may be lowered to, if it has room that the partition may not allow."""

    time_limit_by_site: bool = False
    """The site sets the limit, not the Pod: a change of it does not lower the limit of a running job."""

    priority: int | None = None
    nice: int | None = None
    begin: int | str | None = None
    """Earliest start: seconds since the epoch, or a form that slurmctld knows (`now+1hour`)."""

    deadline: int | None = None
    """Latest end, seconds since the epoch."""

    switches: int | None = None
    switches_wait_s: int | None = None
    """How long the job may wait for nodes on so few switches."""
    segment: int | None = None
    on_node_failure: OnNodeFailure | None = None
    """Of a gang alone: a Pod by itself has one node."""
    layout: GangLayout | None = None
    """Of a gang alone."""
    restart: GangRestart | None = None
    """Of a gang alone."""
    whole_node: bool = False
    """The job shares its nodes with no other, whatever `exclusive` says; a member requests no CPU or no memory."""

    @property
    def packed(self) -> bool:
        """Return whether several members may be on one node of the job."""
        return self.layout is GangLayout.PACK and self.members > 1

    @property
    def fewest_nodes(self) -> int:
        """Return how many nodes the job has at least."""
        return max(1 if self.packed else self.members, self.min_nodes or 0)


RequestDigests = tuple[tuple[str, str], ...]
"""The digests of the fields of a job request, by the name of the field (`domain/jobs/request_digests`)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Identify a placeholder job and its workload. Stored in the job's `extra` and repeated in `admin_comment`."""

    cluster: str
    scheduler: str
    workload: str
    attempt: int
    epoch: int = 0
    request_digests: RequestDigests = ()
    """The last request of the job; empty in marks of earlier releases."""

    grace_s: int | None = None
    """The grace period of its Pods, kept here when they are gone; `None` in marks of earlier releases."""

    pod: str = ""
    """`namespace/name` of its Pod, whatever the job's name; "" in marks of earlier releases."""

    checkpoint: Checkpoint | None = None
    """The one that was written to Kubernetes before the job was submitted; `None` in marks of earlier releases."""

    slots: int | None = None
    """For a gang: no slot with this number or a higher one had a Pod yet; `None`: not known, or no gang."""

    members: str = ""
    """For a gang: names some of its first members, which are bound together (`identity.named_members`)."""

    @property
    def longest_grace_s(self) -> int:
        """Return the grace period that a Pod of the workload has at most; Kubernetes' default where none is named."""
        return DEFAULT_GRACE_S if self.grace_s is None else self.grace_s


@dataclass(frozen=True, slots=True)
class JobOrder:
    """Hold one submission: the request and the decisions about it."""

    request: JobRequest
    name: str
    mark: Mark
    mode: Mode
    """Never AUTO."""

    immediate: bool
    """True: `POST /job/allocate` now or not at all. False: `POST /job/submit`, queued."""

    excluded: tuple[str, ...] = ()
    """Slurm node names, sorted."""


@dataclass(frozen=True, slots=True)
class JobView:
    """Hold a job as slurmctld reports it. Times are seconds since the epoch, 0.0 where unset or infinite."""

    job_id: int
    name: str
    state: str
    """The base state, for example `RUNNING`."""

    flags: frozenset[str] = frozenset()
    reason: str = ""
    nodes: tuple[str, ...] = ()
    cpus: int = 0
    memory_mb: int | None = None
    gres: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """By Slurm node, if Slurm reports them."""

    places: Mapping[str, int] = field(default_factory=dict)
    """How many members each Slurm node holds; empty: one each."""

    partition: str = ""
    extra: str = ""
    admin_comment: str = ""
    comment: str = ""
    excluded: tuple[str, ...] = ()
    user_id: int = 0
    as_of: float = 0.0
    """Slurm's clock at this report: durations until its times count from here, not by the extender's clock."""

    start_time: float = 0.0
    end_time: float = 0.0
    preempt_time: float = 0.0
    time_limit_minutes: int | None = None
    priority: int = 0
    """0: held, or not reported."""

    restart_count: int = 0
    exit_code: int | None = None
