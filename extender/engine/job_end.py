"""How a job of ours is ended: first the outcome of its Pods goes into its comment, then its script or Slurm ends it."""

from __future__ import annotations

from extender.domain.events import CancelAnswered
from extender.domain.fates import outcomes as o
from extender.domain.jobs.job import JobView
from extender.domain.pods.outcome import with_note
from extender.domain.ports import SlurmJobs

NOTE_WITHIN = 5.0
"""Seconds for which the end of a job waits for its comment; who reads it learns the same from the Pod."""


async def end_job(jobs: SlurmJobs, job: JobView, note: str, exit_code: int | None) -> CancelAnswered:
    """End a job that was just read, and is known to be ours. Never raises.

    `exit_code`: how its script may end by itself; `None`: it is cancelled.
    """
    if note:
        await _append(jobs, job, note)
    return await (jobs.cancel(job.job_id) if exit_code is None else jobs.finish(job.job_id, exit_code))


async def _append(jobs: SlurmJobs, job: JobView, note: str) -> None:
    """Append to the comment of a job, once. The job's end does not wait for it for long.

    It is the request that ends then, and not only the wait for it: requests that nobody waits for would keep those to
    Slurm that matter, a drain among them, from their connections.
    """
    text = with_note(job.comment, note)
    if isinstance(o.observe(job), o.Ended) or text is None:
        return
    await jobs.comment(job.job_id, text, within_s=NOTE_WITHIN)
