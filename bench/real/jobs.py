"""Slurm without Pods: the job that every arm asks for, many requests at a time, and waiting for states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from lab.clock import now
from slurmclient import JobDescription, JobStates, SlurmClient

T = TypeVar("T")

AT_ONCE = 8
"""Requests to slurmrestd, as our own connections to it."""

LATE_S = 300.0
"""What has not come about by then has failed."""


def a_job(name: str, partition: str, **more: Any) -> JobDescription:
    """One CPU and 1 GiB, as the Pods of the fleet; `more` adds fields or replaces them."""
    wishes: dict[str, Any] = {
        "name": name,
        "partition": partition,
        "tasks": 1,
        "cpus_per_task": 1,
        "memory_per_node_mb": 1024,
        "current_working_directory": "/",
    }
    return JobDescription(**wishes | more)


async def together(calls: Iterable[Callable[[], Awaitable[T]]], at_once: int = AT_ONCE) -> list[T]:
    """Make all calls, so many at a time; their results in order."""
    slots = asyncio.Semaphore(at_once)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return list(await asyncio.gather(*map(one, calls)))


async def until(
    slurm: SlurmClient, done: Callable[[JobStates], bool], otherwise: str, within_s: float = LATE_S
) -> None:
    """Wait until the states of all jobs say so. Raises RuntimeError(`otherwise`)."""
    deadline = now() + within_s
    while now() < deadline:
        if done(await slurm.job_states()):
            return
        await asyncio.sleep(0.2)
    raise RuntimeError(otherwise)


async def settled(slurm: SlurmClient) -> None:
    """Wait until Slurm has nothing to do any more."""
    busy = {"PENDING", "RUNNING", "COMPLETING"}
    await until(slurm, lambda states: not any(busy & words for words in states.values()), "jobs are left", 120)


async def emptied(slurm: SlurmClient) -> None:
    """End what a measurement left behind that failed."""
    left = [job for job, words in (await slurm.job_states()).items() if {"PENDING", "RUNNING"} & words]
    if left:
        await slurm.cancel(left)
        await settled(slurm)
