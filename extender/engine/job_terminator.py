"""End Slurm jobs. No other module cancels a job, and these modules alone have jobs ended here:

* `extender.engine.command_executor`: the placeholder job of a workload, when the state machine commands `CancelJob`
  (`extender.domain`), for example because the Pods are gone or the job is a duplicate.
* `extender.controllers.orphans`: a placeholder job without a Pod, as far as the mass-deletion guard allows it.
* `extender.controllers.foreign_pods.requests`: a job for a foreign Pod that is gone, or a duplicate of such a job.
* `extender.cli.uninstall.jobs`: every placeholder job of this cluster, for `slurm-extender uninstall`.
* `extender.doctor.gather.probe`: the job that the doctor's probe has submitted.

A job is read again right before it is ended, since slurmctld gives ids out again after it lost its state, and it is
ended only if this proves that it belongs to this extender (`domain.jobs.ownership`, `domain.foreign_pods.mark`).
Between the two requests lie milliseconds, at most some seconds where slurmctld is slow (`slurm.signals.FRESH_S`); Slurm
offers no precondition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from extender.domain.events import CancelAnswered
from extender.domain.job_outcomes import slurm_states as o
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.jobs.job import JobView
from extender.domain.pods.outcome import with_note
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import WorkloadEnded

NOTE_WITHIN = 5.0
"""Seconds for which the end of a job waits for its comment; who reads it learns the same from the Pod."""

JobProof = Callable[[JobView], bool]
"""Whether what was read of a job proves that it may be ended."""


class JobEnds(Protocol):
    """Read and end jobs: the part of `ports.SlurmJobs` that is used here."""

    async def read(self, job_id: int) -> JobView | None:
        """Return one job; `None`: slurmctld answered that it knows no such job. Raises `PortError`."""
        ...

    async def cancel(self, job_id: int) -> CancelAnswered:
        """End one job. Never raises; an unknown outcome is `job_ended=False`."""
        ...

    async def finish(self, job_id: int, exit_code: int) -> CancelAnswered:
        """Have the script of a job end by itself, and cancel a job without one. Never raises."""
        ...

    async def comment(self, job_id: int, text: str, *, within_s: float | None = None) -> bool:
        """Replace the comment of a live job. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class ProvedJob:
    """A job that was just read, and is proved to be the extender's. Only `JobTerminator.prove` makes one."""

    job: JobView


@dataclass(frozen=True, slots=True)
class UnprovedJob:
    """A job that was just read, without a proof of its owner. It must not be touched."""

    job: JobView


class JobTerminator:
    """Prove jobs, and end those that are proved. `events`: gets the ends that the accounting of Slurm should show."""

    def __init__(self, jobs: JobEnds, events: EventBus | None = None) -> None:
        self._jobs = jobs
        self._events = events

    async def prove(self, job_id: int, proof: JobProof) -> ProvedJob | UnprovedJob | None:
        """Read a job now, and apply the proof. `None`: slurmctld knows no such job. Raises `PortError`."""
        job = await self._jobs.read(job_id)
        if job is None:
            return None
        return ProvedJob(job) if proof(job) else UnprovedJob(job)

    async def end(
        self, proved: ProvedJob, *, note: str = "", exit_code: int | None = None, wait_status: int | None = None
    ) -> CancelAnswered:
        """End a job that was just proved. Never raises.

        `note` is appended to its comment first. `exit_code`: how its script may end by itself; `None`: it is cancelled.
        `wait_status`: the end of its Pods, for the accounting of Slurm; `None`: they did not end by themselves.
        """
        job = proved.job
        if wait_status is not None and self._events is not None:
            self._events.publish(WorkloadEnded(WorkloadEnd(job.job_id, job.name, wait_status, note)))
        if note:
            await self._append(job, note)
        if exit_code is None:
            return await self._jobs.cancel(job.job_id)
        return await self._jobs.finish(job.job_id, exit_code)

    async def _append(self, job: JobView, note: str) -> None:
        """Append to the comment of a job, once. The job's end does not wait for it for long.

        The request itself ends after that time, and not only the wait for it: otherwise abandoned requests would keep
        more important ones, a drain among them, from their connections.
        """
        text = with_note(job.comment, note)
        if isinstance(o.observe(job), o.Ended) or text is None:
            return
        await self._jobs.comment(job.job_id, text, within_s=NOTE_WITHIN)
