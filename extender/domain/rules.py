"""Decide what concerns more than one placeholder job, as pure functions over small summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from extender.domain import commands as c
from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.nodes.fence_evidence import NO_FENCE, FencedNodes
from extender.domain.placing.mode import chosen_mode


@dataclass(frozen=True, slots=True)
class SubmissionPlan:
    """Hold mode and call for the submission of one workload."""

    mode: Mode
    immediate: bool
    excluded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoPlan:
    """Report that the workload cannot be submitted now; `permanent`: no change of the cluster alone can help."""

    text: str
    permanent: bool = False


REFUSED_FOR = 10.0
"""Seconds for which no immediate allocation is tried in a partition that has refused one.

Each refused try leaves a FAILED record in slurmctld for MinJobAge, and records count against MaxJobCount.
"""


@dataclass(frozen=True, slots=True)
class QueuedPlaceholders:
    """Hold the placeholder jobs that wait in Slurm, by partition, and the partitions that refused one just now."""

    by_partition: Mapping[str, int] = field(default_factory=dict)
    refused: Set[str] = frozenset()


def may_preempt(slurm: SlurmSnapshot, partition: str, qos: str) -> bool:
    """Return whether a job of this partition and QOS could preempt another.

    There even a *refused* immediate allocation preempts a job, each time it is tried. A job that names no QOS gets that
    of its association or partition, which the API does not show.
    """
    features = slurm.features
    # Of several the highest is taken, and their case does not matter (`assoc_mgr.c`).
    preempting = {name.lower() for name in features.preempting_qos}
    if preempting and (not qos or not preempting.isdisjoint(qos.lower().split(","))):
        return True
    if features.qos_preempts and not features.preempting_qos:
        return True  # the site's configuration does not name the QOS that preempt
    own = slurm.partitions.get(partition)
    if own is None:
        return True
    return any(
        other.priority_tier < own.priority_tier and other.nodes & own.nodes
        for other in slurm.partitions.values()
        if other.name != partition
    )


def may_be_preempted(slurm: SlurmSnapshot, partition: str) -> bool:
    """Return whether jobs of a higher tier share this partition's nodes."""
    own = slurm.partitions.get(partition)
    if own is None or own.preempt_mode in {"", "OFF", "DISABLED"}:
        return False
    return any(
        other.priority_tier > own.priority_tier and other.nodes & own.nodes for other in slurm.partitions.values()
    )


def _queued_ahead(slurm: SlurmSnapshot, partition: str, waiting: QueuedPlaceholders) -> bool:
    own = slurm.partitions.get(partition)
    nodes = own.nodes if own else frozenset()
    for name, count in waiting.by_partition.items():
        other = slurm.partitions.get(name)
        if count > 0 and (name == partition or (other is not None and not nodes.isdisjoint(other.nodes))):
            return True
    return False


def must_queue(request: JobRequest, slurm: SlurmSnapshot, waiting: QueuedPlaceholders) -> bool:
    """Return whether an immediate allocation would pass a waiting placeholder job, or was refused just now."""
    partitions = slurm.partition_names(request.partition)
    return any(name in waiting.refused or _queued_ahead(slurm, name, waiting) for name in partitions)


def plan(
    request: JobRequest,
    slurm: SlurmSnapshot,
    excluded: Sequence[str],
    queue: bool,
    waiting: QueuedPlaceholders,
    *,
    fenced: FencedNodes = NO_FENCE,
) -> SubmissionPlan | NoPlan:
    """Choose mode and call for one submission.

    `excluded` are the Slurm nodes that the workload must not use. `queue`: an immediate try was refused already.
    `fenced`: the nodes with a working fence; mode `auto` makes a job without a script on no other.
    An immediate allocation is tried only if it can preempt no job, passes no placeholder job and was not refused just
    now; and only for jobs that run as the caller, since `job/allocate` ignores `user_id` (slurmrestd). It passes no
    other job either: slurmctld refuses it (2013) while a job of the partition waits, or one of another partition of no
    lower tier that shares nodes with it (`_top_priority` in `job_mgr.c`).
    Sent as another user it could run as that user, but could not write the mark into `admin_comment`, nor use an
    administrator's rights.
    """
    queue = queue or must_queue(request, slurm, waiting)
    partitions = slurm.partition_names(request.partition)
    unknown = [name for name in partitions if name not in slurm.partitions]
    nodes = {n for name in partitions if name in slurm.partitions for n in slurm.partitions[name].nodes}
    if not partitions:  # the default partition is not known (before 26.05): the job may run anywhere
        nodes = set(slurm.nodes)
    usable = nodes - set(excluded)
    mode = request.mode
    if mode is Mode.EXTERNAL and not slurm.features.external:
        return NoPlan("mode external needs Slurm 25.05 or later", permanent=True)
    if mode is Mode.ALLOCATION and not slurm.features.allocate:
        return NoPlan("mode allocation needs Slurm 24.05 or later", permanent=True)
    external = {name for name in usable if name in slurm.nodes and slurm.nodes[name].external}
    at_once = not queue and _immediate(request, slurm, partitions)
    avoid, unfenced = set[str](), frozenset[str]()
    if mode is Mode.AUTO:
        warned = slurm.features.send_user_signal and any(may_be_preempted(slurm, name) for name in partitions)
        without_script = at_once and not warned and not unknown
        mode, unfenced = chosen_mode(request, usable, external, fenced, at_once=without_script)
    if mode is not Mode.EXTERNAL:
        avoid = external | unfenced
    elif not slurm.features.external_anywhere:
        avoid = usable - external
    left = usable - avoid
    if not left and not unknown:
        where = f"partition {request.partition}" if request.partition else "the default partition"
        text = f"none of the nodes that this Pod may use is a Slurm node of {where} for mode {mode}"
        if mode is Mode.EXTERNAL and not external:
            text += "; nodes with slurmd are for it with jobs.externalAnywhere, and Slurm before 25.11 shows no others"
        return NoPlan(text)
    immediate = at_once and mode in {Mode.ALLOCATION, Mode.EXTERNAL}
    if mode is Mode.ALLOCATION and not immediate:
        # A job without a script starts at once or not at all; a queued placeholder job has a script.
        mode = Mode.BATCH
    return SubmissionPlan(mode, immediate, tuple(sorted(set(excluded) | avoid)))


def mode_of(request: JobRequest, slurm: SlurmSnapshot, excluded: Sequence[str]) -> Mode:
    """Return the mode of a queued job that is not tracked: external if it may use only nodes without slurmd."""
    if request.mode is not Mode.AUTO:
        return Mode.BATCH if request.mode is Mode.ALLOCATION else request.mode
    names = slurm.partition_names(request.partition)
    nodes = {n for name in names if name in slurm.partitions for n in slurm.partitions[name].nodes}
    left = [slurm.nodes[name] for name in nodes - set(excluded) if name in slurm.nodes]
    return Mode.EXTERNAL if left and all(node.external for node in left) else Mode.BATCH


def _immediate(request: JobRequest, slurm: SlurmSnapshot, partitions: Sequence[str]) -> bool:
    """Return whether the job may be an immediate allocation, if no placeholder job waits before it."""
    return (
        slurm.features.allocate
        and len(partitions) == 1
        and request.run_as is None
        and not (request.begin or request.dependency)
        and not may_preempt(slurm, partitions[0], request.qos)
    )


RANKS = 4
"""The number of ranks of commands; the work queue defines their meaning."""


def rank(command: c.Command) -> int:
    """Return the rank of a command in the queue: ends before starts, reads before new work."""
    match command:
        case c.CancelJob() | c.EndPod():
            return 0
        case c.ProbeJob() | c.ReadJob():
            return 1
        case c.SubmitJob():
            return 3
        case _:
            return 2
