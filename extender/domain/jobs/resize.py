"""In-place resize of a Pod (KEP-1287) whose job has its node: Slurm changes the size of no job that runs."""

from __future__ import annotations

from extender.domain.jobs.job import JobRequest


def outgrown(was: JobRequest, now: JobRequest) -> str:
    """Return as a clause the resources that a Pod requests beyond those of its job `was`; "" if there are none."""
    if was.whole_node:
        return ""
    more = []
    if was.cpus and now.cpus > was.cpus:
        more.append(f"{now.cpus} CPUs instead of {was.cpus}")
    if was.cpus and now.memory_mb > was.memory_mb:
        more.append(f"{now.memory_mb} MiB of memory instead of {was.memory_mb}")
    return ", ".join(more)
