"""A job as Slurm reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurmclient.models.description import Shared
from slurmclient.models.state import JobState
from slurmclient.number import Infinite
from slurmclient.tres import Gres


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """Describe the end of a job, or of its failed step.

    Attributes:
        status: Slurm's words: SUCCESS, ERROR, SIGNALED, PENDING …
        return_code: of the process.
        signal: number of the signal that ended it.
    """

    status: frozenset[str] = frozenset()
    return_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocation:
    """Describe the resources of a job on one node.

    Attributes:
        node: name.
        cpus: allocated; whole cores, so it may be more than was asked for.
        memory_mb: allocated.
        cores: allocated, numbered from 0 over all sockets of the node; empty in v0.0.40.
        node_cores: all cores of the node; 0 in v0.0.40.
    """

    node: str
    cpus: int
    memory_mb: int
    cores: tuple[int, ...] = ()
    node_cores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Describe a job. Times are epoch seconds, None where unset or never.

    Attributes:
        job_id: never 0.
        name: as submitted; the owner may change it.
        state: base state.
        flags: the other state words: CONFIGURING, COMPLETING, REQUEUED …
        state_reason: why it waits or ended, one word (`None`, `Priority`, `Resources`, `Prolog` …).
        state_description: the reason as a text; often empty.
        nodes: allocated nodes. Empty for a moment while an external job is CANCELLED and COMPLETING.
        batch_host: the node that runs the script.
        scheduled_nodes: where the scheduler means to start it.
        node_count: allocated, or asked for while pending.
        cpus: asked for while pending, allocated afterwards (rounded up to whole cores).
        tasks: asked for.
        cpus_per_task: asked for.
        memory_per_node_mb: asked for; None if memory was asked for by CPU or not at all.
        memory_per_cpu_mb: asked for by CPU.
        allocations: its resources, by node; only of a running job.
        gres_detail: its generic resources, one tuple for each node, in the order of `nodes`.
        tres_requested: counts by name; memory in MiB.
        tres_allocated: counts by name; memory in MiB; empty while pending.
        tres_per_node: as asked for, text.
        tres_per_job: as asked for, text.
        tres_per_task: as asked for, text.
        partition: or several, separated by commas, while pending.
        account: may be empty without accounting.
        qos: may be empty without accounting.
        reservation: name.
        wckey: a `*` before it marks a default.
        user_id: numeric; None if the reply had none.
        group_id: numeric; None if the reply had none.
        user_name: as slurmctld resolves it.
        group_name: as slurmctld resolves it.
        comment: the owner may change it.
        admin_comment: only operators may change it.
        extra: the owner may change it.
        system_comment: written by Slurm.
        mcs_label: label of multi-category security.
        as_of: the clock of Slurm at the reply; None if the reply does not contain it.
        start_time: start, or the estimate while pending.
        end_time: end, or the time limit's moment while running (None without limit); after preemption the kill's.
        submit_time: of the submission, or of the requeue.
        eligible_time: from when on it may start (dependencies, begin time).
        preempt_time: set once Slurm has decided to preempt it: its GraceTime runs.
        suspend_time: of the last suspension or resumption.
        deadline: by which it must have ended.
        time_limit_minutes: INFINITE, or None for the partition's default.
        time_minimum_minutes: to which the scheduler may shorten it.
        restart_count: times it was requeued.
        exit_code: of the job.
        derived_exit_code: the worst of its steps.
        failed_node: the node whose failure ended it.
        required_nodes: expanded.
        excluded_nodes: expanded.
        constraints: features asked for; of a started job whose preference was met, the preferred ones.
        prefer: features preferred; empty once the job has started with them.
        required_switches: switch count asked for.
        priority: 0 is held.
        nice: added to the priority, inverted.
        hold: held by its owner or an operator.
        requeue: whether Slurm may requeue it.
        dependency: as Slurm reports it.
        licenses: as asked for.
        shared: how it shares nodes; None where it was not asked for, and always from v0.0.45 on.
        batch: has a script.
        job_flags: e.g. EXTERNAL_JOB, JOB_WAS_RUNNING.
        current_working_directory: of the script.
        standard_input: path.
        standard_output: path.
        standard_error: path.
        cluster: name.
        array_job_id: of an array's task; None otherwise.
        array_task_id: of an array's task; None otherwise.
    """

    job_id: int
    name: str
    state: JobState
    flags: frozenset[str]
    state_reason: str
    state_description: str
    nodes: tuple[str, ...]
    batch_host: str
    scheduled_nodes: tuple[str, ...]
    node_count: int | None
    cpus: int | None
    tasks: int | None
    cpus_per_task: int | None
    memory_per_node_mb: int | Infinite | None
    memory_per_cpu_mb: int | Infinite | None
    allocations: tuple[NodeAllocation, ...]
    gres_detail: tuple[tuple[Gres, ...], ...]
    tres_requested: Mapping[str, int]
    tres_allocated: Mapping[str, int]
    tres_per_node: str
    tres_per_job: str
    tres_per_task: str
    partition: str
    account: str
    qos: str
    reservation: str
    wckey: str
    user_id: int | None
    group_id: int | None
    user_name: str
    group_name: str
    comment: str
    admin_comment: str
    extra: str
    system_comment: str
    mcs_label: str
    as_of: int | None = None
    start_time: int | None
    end_time: int | None
    submit_time: int | None
    eligible_time: int | None
    preempt_time: int | None
    suspend_time: int | None
    deadline: int | None
    time_limit_minutes: int | Infinite | None
    time_minimum_minutes: int | Infinite | None
    restart_count: int
    exit_code: ExitCode
    derived_exit_code: ExitCode
    failed_node: str
    required_nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]
    constraints: str
    prefer: str
    required_switches: int | None
    priority: int | Infinite | None
    nice: int | None
    hold: bool
    requeue: bool
    dependency: str
    licenses: str
    shared: Shared | None
    batch: bool
    job_flags: frozenset[str]
    current_working_directory: str
    standard_input: str
    standard_output: str
    standard_error: str
    cluster: str
    array_job_id: int | None
    array_task_id: int | None

    @property
    def state_words(self) -> frozenset[str]:
        """Return base state and flags together, as `GET /jobs/state` gives them."""
        return self.flags | {self.state.value} if self.state is not JobState.UNKNOWN else self.flags

    @property
    def external(self) -> bool:
        """Return whether it is an external job: Slurm starts no process for it."""
        return "EXTERNAL_JOB" in self.job_flags


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNode:
    """Describe the resources of a running job on one node, down to cores and devices (`GET /resources/{job_id}`).

    Attributes:
        node: name.
        sockets: of the node.
        cores_per_socket: of the node.
        memory_mb: allocated.
        core_bitmap: allocated cores of the node, hexadecimal, lowest core in the lowest bit.
        gres: allocated, with device numbers.
    """

    node: str
    sockets: int
    cores_per_socket: int
    memory_mb: int
    core_bitmap: str
    gres: tuple[Gres, ...]
