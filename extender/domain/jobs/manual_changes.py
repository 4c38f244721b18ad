"""Report changes that an administrator or a job's owner made to a placeholder job, if they end nothing.

A change of state (held, requeued, suspended, moved, ended) is an event of its workload and not reported here.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.domain.jobs.identity import decode_mark, have_one_suffix
from extender.domain.jobs.job import JobRequest, JobView


def changes(request: JobRequest | None, job: JobView, name: str) -> Iterator[tuple[str, str]]:
    """Yield a word and a sentence for each change. `request` is that of the workload, `name` the name of its jobs."""
    if not have_one_suffix(job.name, name):
        yield "renamed", f"Slurm job {job.job_id} was renamed to {job.name!a}. The extender recognises it by its mark."
    marks = {"admin_comment": job.admin_comment, "extra": job.extra}
    missing = [place for place, text in marks.items() if decode_mark(text) is None]
    if missing:
        by = "its name" if len(missing) == len(marks) else "its other mark"
        text = f"Slurm job {job.job_id} lost its mark in {' and '.join(missing)}. The extender recognises it by {by}."
        yield "unmarked", text
    if request is None:
        return
    if request.partition and not _words(job.partition) <= _words(request.partition):
        text = f"Slurm job {job.job_id} is in partition {job.partition}; the Pod requests {request.partition}."
        yield "partition", text
    most = max(request.members, request.min_nodes or 0, request.max_nodes or 0)
    if len(job.nodes) > most:
        held = ", ".join(job.nodes)
        yield "nodes", f"Slurm job {job.job_id} holds {held}; the Pod requests {most} and leaves the others idle."
    least = request.time_limit_least or request.time_limit_minutes
    if least and job.time_limit_minutes and job.time_limit_minutes < least:
        limit = f"may run {job.time_limit_minutes} min; the Pod requests {least}"
        yield "time-limit", f"Slurm job {job.job_id} {limit}. Slurm ends it then, and the Pod with it."


def _words(partitions: str) -> set[str]:
    return set(partitions.split(","))
