"""From a job as slurmclient reads it to the view that the rules know. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extender.domain.gangs.layout import shared_places
from extender.domain.jobs.devices import Cores, Device
from extender.domain.jobs.job import JobView
from extender.domain.translation.gres import requested_gres
from slurmclient import Gres, Infinite, Job, JobState, NodeAllocation


def job_view(job: Job) -> JobView:
    """Carry a job over. What Slurm calls infinite or unset is `None` or 0.0, as `JobView` says."""
    return JobView(
        job_id=job.job_id,
        name=job.name,
        state="" if job.state is JobState.UNKNOWN else job.state.value,
        flags=job.flags,
        reason=job.state_reason,
        nodes=job.nodes,
        cpus=job.cpus or 0,
        memory_mb=_finite(job.memory_per_node_mb),
        gres=held_gres(job),
        devices=given_devices(job),
        places=task_places(job),
        partition=job.partition,
        extra=job.extra,
        admin_comment=job.admin_comment,
        comment=job.comment,
        excluded=job.excluded_nodes,
        user_id=job.user_id or 0,
        as_of=float(job.as_of or 0),
        start_time=float(job.start_time or 0),
        end_time=float(job.end_time or 0),
        preempt_time=float(job.preempt_time or 0),
        time_limit_minutes=_finite(job.time_limit_minutes),
        priority=_finite(job.priority) or 0,
        restart_count=job.restart_count,
        exit_code=job.exit_code.return_code,
    )


def held_gres(job: Job) -> Mapping[str, int]:
    """Return the GRES that the job holds on all of its nodes together, by name and, where it has one, type: `gpu:h100`.

    `gres_detail` is there on every site. The TRES of a job count GRES only where AccountingStorageTRES names them, so
    they are the second choice. Empty while the job waits.
    """
    if job.gres_detail:
        held: Counter[str] = Counter()
        for gres in (one for node in job.gres_detail for one in node):
            held[_name(gres)] += gres.count
        return dict(held)
    counted = {name.removeprefix("gres/"): n for name, n in job.tres_allocated.items() if name.startswith("gres/")}
    # `gres/gpu=2` stands beside `gres/gpu:h100=2` and counts the same devices.
    return {name: n for name, n in counted.items() if ":" in name or not any(o.startswith(f"{name}:") for o in counted)}


def given_devices(job: Job) -> Mapping[str, tuple[Device, ...]]:
    """Return the devices and cores of a job by node."""
    cores = {one.node: (_cores(one),) for one in job.allocations if one.cores}
    found = {
        node: (*(Device(one.name, one.type or "", one.count, one.index) for one in there), *cores.get(node, ()))
        for node, there in zip(job.nodes, _gres_by_node(job), strict=True)
    }
    return {node: there for node, there in found.items() if there}


def _gres_by_node(job: Job) -> tuple[tuple[Gres, ...], ...]:
    """Return the entries of `gres_detail`, one for each node in the order of their names; empty ones if some lack."""
    return job.gres_detail if len(job.gres_detail) == len(job.nodes) else ((),) * len(job.nodes)


def _cores(allocation: NodeAllocation) -> Device:
    threads = max(1, allocation.cpus // len(allocation.cores))
    return Cores(allocation.node_cores, threads, allocation.cores).as_device()


def task_places(job: Job) -> Mapping[str, int]:
    """Return how many tasks each node of a packed job holds; empty for a job with a node for each member.

    Only packed jobs have their memory by CPU. Slurm reports the CPUs and GRES of each node, and no numbers of tasks.
    """
    if not isinstance(job.memory_per_cpu_mb, int) or (job.tasks or 0) < 2 or not job.nodes:
        return {}
    cpus = {one.node: one.cpus // max(job.cpus_per_task or 1, 1) for one in job.allocations}
    requested = requested_gres(job.tres_per_task)
    counted = [(name, count) for name, count in requested.items() if count]
    room = {
        node: min([cpus.get(node, 1), *(_held(name, there) // count for name, count in counted if there)])
        for node, there in zip(job.nodes, _gres_by_node(job), strict=True)
    }
    return shared_places(job.nodes, job.tasks or 0, room)


def _held(requested: str, there: tuple[Gres, ...]) -> int:
    return sum(one.count for one in there if requested in (one.name, _name(one)))


def _name(gres: Gres) -> str:
    return f"{gres.name}:{gres.type}" if gres.type else gres.name


def _finite(limit: int | Infinite | None) -> int | None:
    return limit if isinstance(limit, int) else None
