"""Compute when Pods have to end so that they are gone by their job's time limit, and the limit for a Pod's deadline.

Slurm ends a job up to 30 s after its `end_time` (slurmctld checks every 30 s) and knows nothing of the grace of a Pod.
`end_time` follows `scontrol update TimeLimit`, up and down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.views import PodView
from extender.domain.wellknown import OWN_PREFIX

SPARE = 5.0
"""Seconds between the end of a Pod's grace and that of its job."""

HEADSTART = 60.0
"""Seconds from the start of a job within which kubelet starts its Pod and begins to count the deadline."""

LONGEST_MINUTES = 2**31 - 1
"""Longest limit that is sent; the API server bounds no Job's deadline."""

_KEY = f"{OWN_PREFIX}time-limit"


def due_in(job: JobView, graces: Iterable[int]) -> float | None:
    """Return the seconds until the Pods of a running job have to begin to end; negative: late. `None`: no limit.

    Only Slurm's clock counts: the extender's may be off. A reading without it ends no Pod before Slurm does.
    A grace takes at most the second half of the whole time of the job: a short job would have no time at all otherwise.
    """
    if not job.end_time or not job.as_of:
        return None
    lead = max(graces, default=0) + SPARE
    if job.start_time:
        lead = min(lead, (job.end_time - job.start_time) / 2)
    return job.end_time - lead - job.as_of


def minutes_for(pods: Sequence[PodView], job_deadline_s: int | None = None) -> tuple[int, int] | None:
    """Return the time limit that the deadlines of Kubernetes ask for, and the least that covers them.

    The limit for the deadlines of the Pods has room for the start of the Pod and for its grace, so that kubelet ends it
    with its own DeadlineExceeded before the extender would because of the limit. The deadline of the Job above them
    counts as slurm-bridge counts it, rounded up to minutes; the shorter limit holds. `None`: a member has no end.
    """
    job = None if job_deadline_s is None else _minutes(job_deadline_s)
    deadlines = [pod.active_deadline_s for pod in pods if pod.active_deadline_s is not None]
    if len(deadlines) < len(pods):
        return None if job is None else (job, job)
    whole = _minutes(max(deadlines) + max(pod.grace_s for pod in pods) + SPARE + HEADSTART)
    return (whole, _minutes(max(deadlines))) if job is None or whole <= job else (job, job)


def says_too_long(reason: str) -> bool:
    """Return whether a job waits because its time limit is too long."""
    return "MaxWall" in reason or reason.endswith("TimeLimit")


def whence(request: JobRequest | None, minutes: int | None) -> str:
    """Return a sentence that says where a limit comes from that the Pod's author did not set; else ""."""
    if request is None or request.time_limit_least is None or minutes is None:
        return ""
    if minutes == request.time_limit_least:
        return f"Its time limit of {minutes} min is activeDeadlineSeconds; the annotation {_KEY} sets another."
    return (
        f"Its time limit of {minutes} min leaves room for the Pod's activeDeadlineSeconds "
        f"({request.time_limit_least} min), its start and its grace; the annotation {_KEY} sets another."
    )


def within_partition(request: JobRequest, slurm: SlurmSnapshot) -> JobRequest:
    """Return the request without the room that no partition of it allows; Slurm would never start the job with it."""
    limit, least = request.time_limit_minutes, request.time_limit_least
    known = [slurm.partitions.get(name) for name in slurm.partition_names(request.partition)]
    allowed = [part.max_time_minutes for part in known if part is not None and part.max_time_minutes is not None]
    if limit is None or least is None or not allowed or len(allowed) < len(known):
        return request
    return replace(request, time_limit_minutes=min(limit, max(least, *allowed)))


def _minutes(seconds: float) -> int:
    return min(max(1, int(-(-seconds // 60))), LONGEST_MINUTES)
