"""Orders for placeholders, as short as a test can say them."""

from __future__ import annotations

from dataclasses import replace

from extender.domain.jobs.identity import job_name
from extender.domain.jobs.job import JobOrder, JobRequest, Mark, Mode


def an_order(
    workload: str = "workload-1",
    *,
    attempt: int = 1,
    mode: Mode = Mode.BATCH,
    immediate: bool = False,
    excluded: tuple[str, ...] = (),
    **wishes: object,
) -> JobOrder:
    """Return an order of one CPU and 100 MB for one Pod; `wishes` are fields of the request."""
    request = replace(JobRequest(title=f"team/{workload}", cpus=1, memory_mb=100), **wishes)  # type: ignore[arg-type]  # fields by name
    mark = Mark(cluster="cluster-1", scheduler="slurm", workload=workload, attempt=attempt)
    name = job_name(request.title, mark.cluster, mark.scheduler, workload)
    return JobOrder(request, name, mark, mode, immediate, excluded)


def an_allocation(workload: str = "workload-1", **wishes: object) -> JobOrder:
    """Return the same order as an immediate allocation: granted at once or rejected."""
    return an_order(workload, mode=Mode.ALLOCATION, immediate=True, **wishes)  # type: ignore[arg-type]  # passed through
