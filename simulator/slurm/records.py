"""Nodes, partitions and jobs as the simulated slurmctld keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
"""Base states after which nothing runs any more."""

FORGOTTEN = "FORGOTTEN"
"""No state of Slurm's: slurmctld has lost the record."""


@dataclass(slots=True)
class SimNode:
    """A node. `gres` counts by name with optional type: `gpu:h100`. `draining_reason` "" is no drain."""

    name: str
    cpus: int = 64
    memory_mb: int = 512_000
    gres: Mapping[str, int] = field(default_factory=dict)
    threads_per_core: int = 0
    """0: the node shows no cores, which is faster."""

    features: tuple[str, ...] = ()
    external: bool = False
    made: bool = False
    """By `POST /new/node`, not by slurm.conf."""

    address: str = "127.0.0.1"
    extra: str = ""
    comment: str = ""
    topology: str = ""
    sets: tuple[str, ...] | None = None
    """The features that it had when node sets were worked out last; `None`: those that it has."""
    drained: bool = False
    down: bool = False
    silent: bool = False
    """NOT_RESPONDING: just resumed and not pinged yet, or external and asked for an answer. Takes no jobs."""

    failing: bool = False
    """FAIL: an administrator expects it to break. Takes no jobs; those that run go on."""

    maintenance: bool = False
    """MAINT: in a maintenance reservation that is active, which excludes all other jobs."""

    reason: str = ""

    @property
    def unavailable(self) -> bool:
        """Return whether an administrator or slurmctld made the node unavailable (`is_node_avail` in `node_mgr.c`)."""
        return self.down or self.drained or self.failing or self.maintenance


@dataclass(slots=True)
class SimPartition:
    """A partition. `nodes` `None` is every node, also those made later. `preempt_mode` "" cannot be preempted.

    With `node_set` those with that feature (`NodeSet=x Feature=x`), and `nodes` says nothing.
    """

    name: str
    nodes: tuple[str, ...] | None = None
    node_set: str = ""
    default: bool = False
    priority_tier: int = 1
    grace_time_s: int = 0
    preempt_mode: str = "CANCEL"
    max_time_minutes: int | None = None
    up: bool = True


@dataclass(slots=True)
class SimJob:
    """A job. Times are epoch seconds, 0.0 where unset; `time_limit_s` `None` is no limit."""

    job_id: int
    name: str
    user_id: int
    group_id: int
    user_name: str
    partition: str
    submit_time: float
    cpus_per_node: int
    node_count: int
    memory_mb: int | None
    gres: Mapping[str, int]
    """On each node. CPUs, memory and GRES are those of each task where the job is `packed`."""

    tres_per_node: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    wckey: str = ""
    comment: str = ""
    admin_comment: str = ""
    extra: str = ""
    mcs_label: str = ""
    features: str = ""
    prefer: str = ""
    licenses: str = ""
    dependency: str = ""
    shared: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    begin_time: float = 0.0
    deadline: float = 0.0
    time_limit_s: float | None = None
    priority: int = 1000
    nice: int = 0
    held_by: str = ""
    """"" or the reason: JobHeldUser, JobHeldAdmin."""

    requeue: bool = True
    external: bool = False
    outlives_nodes: bool = False
    """`kill_on_node_fail` is false: a node that fails leaves the job."""

    tasks: int = 1
    packed: bool = False
    """Its memory is by CPU, and its tasks share nodes."""

    tasks_on: Mapping[str, int] = field(default_factory=dict)
    """Of a packed job: the tasks on each node that it was given."""

    script: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    warns_script: bool = False
    """`kill_warning_flags` has BATCH_JOB."""

    state: str = "PENDING"
    flags: set[str] = field(default_factory=set)
    reason: str = "None"
    nodes: tuple[str, ...] = ()
    start_time: float = 0.0
    end_time: float = 0.0
    preempt_time: float = 0.0
    restart_count: int = 0
    exit_code: int = 0
    devices: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Numbers of the devices that it was given, by node and by GRES as asked for."""

    cores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of the cores that it was given, by node."""

    completing_on: set[str] = field(default_factory=set)
    preempted_at: float = float("-inf")
    """When this waiting job last preempted a job."""

    @property
    def pending(self) -> bool:
        """Return whether the job waits."""
        return self.state == "PENDING"

    @property
    def running(self) -> bool:
        """Return whether the job holds nodes and CPUs."""
        return self.state == "RUNNING"

    @property
    def ended(self) -> bool:
        """Return whether the job is over, perhaps still completing."""
        return self.state in ENDED

    @property
    def words(self) -> list[str]:
        """Return state words as slurmrestd lists them."""
        return [self.state, *sorted(self.flags)]

    def times(self, node: str) -> int:
        """Return how many times the job holds on a node what it asks for."""
        return self.tasks_on.get(node, 1)

    @property
    def cpus(self) -> int:
        """Return the CPUs that it holds, or asks for."""
        if not self.packed:
            return self.cpus_per_node * self.node_count
        return self.cpus_per_node * (sum(self.times(node) for node in self.nodes) if self.nodes else self.tasks)

    @property
    def exclusive(self) -> bool:
        """Return whether no other job may be on its nodes. `topo` keeps a block of topology/block; there is none."""
        return "none" in self.shared
