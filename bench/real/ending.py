"""Jobs that are cancelled under their Pods, and Pods that finish: how soon the other is told, one and many at once."""

from __future__ import annotations

import asyncio
import random
import statistics
from functools import partial
from typing import Any

from bench.figures import summary
from bench.real.fleet import ALONE, EXTERNAL, OURS
from bench.real.jobs import AT_ONCE, LATE_S, a_job, settled, together
from bench.real.load import Load
from bench.real.placing import SETTINGS
from lab.clock import now
from lab.pods import RUN_FOR
from slurmclient import JobDescription, SlurmClient

Json = dict[str, Any]
FINISH = {RUN_FOR: "1s"}
"""kwok lets the Pod succeed a second later."""

TOLD_S = 30
"""After so long the Events of 300 placed Pods have been sent, at 20 a second, and are not counted among the ends."""

CONDITION = {
    "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "SlurmJobCancelled", "message": "It was cancelled."}
    ]
}


async def measure_one(load: Load, slurm: SlurmClient, count: int) -> Json:
    """Seconds from a cancel, as scancel sends it, to the Pod's deletion being asked for."""
    names = await load.burst(count, OURS, SETTINGS["external"], gated=True)
    await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
    await asyncio.sleep(5)
    seconds = []
    for name in names:
        life = load.lives[name]
        # Whoever cancels as soon as the one before is told always does so just after a poll.
        await asyncio.sleep(random.uniform(0, 1))
        began = now()
        await slurm.cancel([life.job_id])
        seconds.append(await asyncio.wait_for(life.ending, LATE_S) - began)
    await load.clear()
    await settled(slurm)
    return {"what": "one scancel to the Pod's deletion", "s": summary([seconds])}


async def measure_many(load: Load, slurm: SlurmClient, rounds: int, count: int) -> Json:
    """Seconds until the deletion of each Pod whose job was cancelled is asked, beside the same calls in a bare loop."""
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        names = await load.burst(count, OURS, SETTINGS["external"], gated=True)
        lives = [load.lives[name] for name in names]
        await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
        await asyncio.sleep(TOLD_S)
        began = now()
        await slurm.cancel([life.job_id for life in lives])
        ours.append(max(await asyncio.wait_for(asyncio.gather(*(life.ending for life in lives)), LATE_S)) - began)
        await load.clear()
        await settled(slurm)
        bare.append(await _bare_ends(load, slurm, count))
        await settled(slurm)
    return {"ours_s": ours, "bare_s": bare, "ratio": statistics.median(ours) / statistics.median(bare)}


async def measure_finishing(load: Load, slurm: SlurmClient, rounds: int, count: int) -> Json:
    """Seconds until every job is over whose Pod finished, beside a bare loop.

    That waits for the end of each Pod, too, and reads, notes and cancels its job then.
    """
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        names = await load.burst(count, OURS, SETTINGS["external"], gated=True)
        await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
        await asyncio.sleep(TOLD_S)
        began = now()
        await together([partial(load.annotate, name, FINISH) for name in names], 2 * AT_ONCE)
        await settled(slurm)
        ours.append(now() - began)
        await load.clear()
        bare.append(await _bare_cancels(load, slurm, count))
    return {"ours_s": ours, "bare_s": bare, "ratio": statistics.median(ours) / statistics.median(bare)}


async def _jobs(slurm: SlurmClient, count: int) -> list[int]:
    wishes = a_job("bare", EXTERNAL, external=True, immediate=True)
    return [made.job_id for made in await together([lambda: slurm.allocate(wishes)] * count)]


async def _bare_ends(load: Load, slurm: SlurmClient, count: int) -> float:
    """Cancel, read each job, evict its Pod, set its condition: eight at a time."""
    names = await load.burst(count, ALONE, {}, gated=False)
    lives = [load.lives[name] for name in names]
    await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
    jobs = await _jobs(slurm, count)
    began = now()
    await slurm.cancel(jobs)
    await slurm.job_states()

    async def end(name: str, job: int) -> None:
        await slurm.job(job)
        await load.evict(name)
        await load.status(name, CONDITION)

    await together([partial(end, name, job) for name, job in zip(names, jobs, strict=True)])
    ended = max(await asyncio.wait_for(asyncio.gather(*(life.ending for life in lives)), LATE_S)) - began
    await load.clear()
    return ended


async def _bare_cancels(load: Load, slurm: SlurmClient, count: int) -> float:
    """The same annotations; when a Pod has finished, a read, a note and a cancel of its job: eight at a time."""
    names = await load.burst(count, ALONE, {}, gated=False)
    await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
    jobs = await _jobs(slurm, count)
    began, slots = now(), asyncio.Semaphore(AT_ONCE)

    async def finish(name: str, job: int) -> None:
        await load.lives[name].finished
        async with slots:
            await slurm.job(job)
            await slurm.update_job(job, JobDescription(comment="Pod Succeeded"))
            await slurm.cancel([job])

    finished = [finish(name, job) for name, job in zip(names, jobs, strict=True)]
    await asyncio.gather(together([partial(load.annotate, name, FINISH) for name in names], 2 * AT_ONCE), *finished)
    await settled(slurm)
    seconds = now() - began
    await load.clear()
    return seconds
