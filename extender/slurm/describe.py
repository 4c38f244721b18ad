"""Make the description of a job that is sent to Slurm: all its fields, the comment included. Pure.

Its name and its mark come from `domain.jobs.identity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from extender.domain.jobs.job import Exclusive, JobOrder, JobRequest, Mode, OnNodeFailure
from extender.domain.translation.annotation_table import SETTINGS
from extender.slurm.placeholder_script import SCRIPT, HookSettings, environment
from slurmclient import JobDescription, Shared

_SHARED = {
    Exclusive.NONE: Shared.NONE,
    Exclusive.OK: Shared.OVERSUBSCRIBE,
    Exclusive.USER: Shared.USER,
    Exclusive.MCS: Shared.MCS,
    Exclusive.TOPO: Shared.TOPO,
}

# slurmctld fails a job whose working directory or output file cannot be opened; these two every user has.
_DIRECTORY = "/"
_NULL = "/dev/null"

_SENT = tuple((setting.request, setting.slurm) for setting in SETTINGS if setting.request and setting.slurm)


_RESIZED = frozenset({"tasks", "minimum_cpus", "minimum_nodes", "maximum_nodes"})
"""Fields that give a pending gang another number of members; what each member has stays (24.11.5, 26.05.5)."""

_DEFAULT_COMMENT = 256
"""Characters, of at most four bytes, of the 1024 bytes that Slurm takes; whole in the job's name."""


def describe(order: JobOrder, mark: str, hooks: HookSettings) -> JobDescription:
    """Build the job description for Slurm. `mark` is the text of `order.mark`.

    Raises:
        slurmclient.InvalidRequestError: a value that Slurm is known to refuse or to misread.
    """
    request = order.request
    batch = order.mode is Mode.BATCH and not order.immediate
    several = request.members > 1 or request.fewest_nodes > 1
    warned = batch or order.mode is Mode.EXTERNAL
    decided: dict[str, Any] = {
        "name": order.name,
        "comment": _comment(request),
        **_size(request),
        "excluded_nodes": order.excluded or None,
        "shared": _shared(request),
        "wait_for_switch_s": request.switches_wait_s,
        "current_working_directory": request.working_dir or _DIRECTORY,
    }
    return JobDescription(
        **_settings(request) | decided,
        extra=mark,
        admin_comment=mark,
        user_id=request.run_as.uid if request.run_as else None,
        group_id=request.run_as.gid if request.run_as else None,
        # A requeued placeholder would come back with the same id on other nodes than its Pod's.
        requeue=False,
        kill_on_node_fail=False if several and request.on_node_failure is OnNodeFailure.KEEP else None,
        external=True if order.mode is Mode.EXTERNAL else None,
        standard_input=_NULL if batch else None,
        standard_output=_NULL if batch else None,
        standard_error=_NULL if batch else None,
        script=SCRIPT if batch else None,
        environment=environment(order.mark, hooks) if batch else None,
        # With PreemptParameters=send_user_signal also sent at the announcement of a preemption, and then at once. It
        # takes the place of SIGCONT and SIGTERM for all steps, for which slurmctld would ask a node without slurmd:
        # that is NOT_RESPONDING from then on (26.05.5). The script of an external job, which has none, needs no node.
        kill_warning_signal="USR1" if warned else None,
        kill_warning_flags=("BATCH_JOB",) if warned else None,
        kill_warning_delay_s=hooks.warning_s if warned else None,
    )


def _size(request: JobRequest) -> dict[str, Any]:
    """Return nodes, tasks and resources: one task for each member, so that all of its CPUs are on one node.

    By default each has a node. Packed members have what Slurm counts by task. A most of nodes is sent only where the
    Pods say it: with one Slurm spreads the tasks over as many nodes as it can (24.11.5, 26.05.5).
    """
    if not request.packed:
        nodes = request.fewest_nodes
        return {
            "tasks": nodes,
            "minimum_cpus": request.cpus * nodes,
            "minimum_nodes": nodes,
            "maximum_nodes": max(nodes, request.max_nodes or 0),
            "tres_per_node": tres_per_node(request),
        }
    return {
        "tasks": request.members,
        "minimum_cpus": request.cpus * request.members,
        "minimum_nodes": request.fewest_nodes,
        "maximum_nodes": request.max_nodes,
        "tres_per_node": None,
        "tres_per_task": tres_per_node(request),
        "memory_per_node_mb": None,
        "memory_per_cpu_mb": memory_per_cpu(request),
    }


def memory_per_cpu(request: JobRequest) -> int:
    """Return the memory of a packed job by CPU, in MiB: each member has at least what it requests."""
    return -(-request.memory_mb // request.cpus)


def _shared(request: JobRequest) -> Shared | None:
    if request.whole_node:
        return Shared.NONE
    return _SHARED[request.exclusive] if request.exclusive else None


def _settings(request: JobRequest) -> dict[str, Any]:
    """Return what the request says, by field of `JobDescription`, as the table of settings relates the two.

    The memory is among it always: without it Slurm gives what the partition says, or the memory of the whole node. A
    memory of 0 is all of the node's, as in `sbatch --mem=0`.
    """
    sent: dict[str, Any] = {}
    for field, slurm in _SENT:
        value = getattr(request, field)
        if value is not None and value not in ("", ()):
            sent[slurm] = value
    return sent


def describe_changes(
    request: JobRequest, names: Set[str], excluded: tuple[str, ...] | None, marks: Mapping[str, str]
) -> JobDescription:
    """Return these fields, the excluded nodes unless `None`, and the marks as an update; empty ones are removed."""
    changed = {slurm: getattr(request, field) for field, slurm in _SENT if field in names}
    if "comment" in names:
        changed["comment"] = _comment(request)
    if "nice" in names:
        changed["nice"] = request.nice or 0
    if "members" in names:
        changed |= {field: value for field, value in _size(request).items() if field in _RESIZED}
    return JobDescription(**changed | dict(marks), excluded_nodes=excluded)


def _comment(request: JobRequest) -> str:
    return request.comment or f"Kubernetes Pod {request.title}"[:_DEFAULT_COMMENT]


def tres_per_node(request: JobRequest) -> str | None:
    """Return the GRES of a node or task in the only form that every release takes: `gres/gpu:h100:2`, never `gpu:2`."""
    if request.tres_per_node:
        parts = (part.strip() for part in request.tres_per_node.split(","))
        return ",".join(part if part.startswith(("gres/", "gres:")) else f"gres/{part}" for part in parts if part)
    return _counted(request.gres)


def _counted(gres: Mapping[str, int]) -> str | None:
    return ",".join(f"gres/{name}:{count}" for name, count in sorted(gres.items()) if count > 0) or None
