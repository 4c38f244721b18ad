"""Submit placeholder jobs to a Slurm, and read what becomes of them."""

from __future__ import annotations

from typing import TypeVar

from extender.domain.events import SubmitAccepted, SubmitRefused
from extender.domain.job_outcomes.slurm_states import (
    Observation,
    observe,
)
from extender.domain.jobs.job import JobOrder, JobView, RunAs
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.placeholder_script import HookSettings
from slurmclient import SlurmClient
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import until

T = TypeVar("T")

KEY = b"hook key"

ALICE = RunAs(2001, 2001)


def jobs_of(client: SlurmClient, hooks: HookSettings | None = None) -> SlurmrestdJobs:
    return SlurmrestdJobs(client, LoopClock(), hooks=hooks)


async def accepted(jobs: SlurmrestdJobs, order: JobOrder) -> int:
    (event,) = await jobs.submit(order)
    assert isinstance(event, SubmitAccepted), event
    assert event.attempt == order.mark.attempt
    return event.job_id


async def refused(jobs: SlurmrestdJobs, order: JobOrder) -> SubmitRefused:
    (event,) = await jobs.submit(order)
    assert isinstance(event, SubmitRefused), event
    return event


async def seen(jobs: SlurmrestdJobs, job_id: int) -> Observation:
    job = await jobs.read(job_id)
    assert job is not None
    return observe(job)


async def observed(jobs: SlurmrestdJobs, job_id: int, kind: type[T]) -> T:
    """Wait until the job is seen as `kind`."""
    found = await until(lambda: seen(jobs, job_id), lambda seen: isinstance(seen, kind), kind.__name__)
    assert isinstance(found, kind)
    return found


async def read(jobs: SlurmrestdJobs, job_id: int) -> JobView:
    job = await jobs.read(job_id)
    assert job is not None
    return job
