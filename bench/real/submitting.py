"""Jobs that queue first: in a partition that may preempt, and batch jobs; beside the same jobs without Pods."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from bench.figures import ratio, summary
from bench.real.fleet import MODE, OURS, PARTITION, PLAIN, READ
from bench.real.jobs import LATE_S, a_job, settled, until
from bench.real.load import Load
from bench.real.placing import idle, order_of_round
from lab.clock import now
from lab.instants import slurm_instants
from lab.site import Site
from lab.slurm_conf import HOME
from slurmclient import SlurmClient

Json = dict[str, Any]
URGENT = {MODE: "external", PARTITION: READ.urgent}
BATCH = {MODE: "batch", PARTITION: PLAIN}
BEGAN = "run/began-"
"""What a script makes first, with the id of its job behind it, in the folder of the cluster."""

SCRIPT = f"#!/bin/sh\n: > {HOME}/{BEGAN}$SLURM_JOB_ID\nexec sleep 600\n"
LOOK_EVERY_S = 0.02
REST_S = 1.0
"""Most time between two."""


Arm = Callable[[], Awaitable[list[float]]]


async def measure_submitted(load: Load, slurm: SlurmClient, site: Site, rounds: int, count: int) -> Json:
    """Creation to Binding, and submission to RUNNING by slurmctld's log, where a job could preempt somebody."""
    return await _beside(
        slurm,
        rounds,
        ours=lambda: idle(load, count, OURS, URGENT, gated=True, rest_s=REST_S),
        plain=partial(_plain_external, slurm, site, count),
    )


async def measure_batch(load: Load, slurm: SlurmClient, site: Site, rounds: int, count: int) -> Json:
    """Creation to Binding, and submission to the first thing that a script does, by the time of a file."""
    return await _beside(
        slurm,
        rounds,
        ours=lambda: idle(load, count, OURS, BATCH, gated=True, rest_s=REST_S),
        plain=partial(_plain_batch, slurm, site, count),
    )


async def _beside(slurm: SlurmClient, rounds: int, *, ours: Arm, plain: Arm) -> Json:
    arms: Mapping[str, Arm] = {"ours": ours, "plain": plain}
    seconds: dict[str, list[list[float]]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in order_of_round(arms, number):
            seconds[name].append(await arms[name]())
            await settled(slurm)
    found = {name: summary(rounds_of) for name, rounds_of in seconds.items()}
    return {
        "ours_s": found["ours"],
        "plain_s": found["plain"],
        "ratio_p50": ratio(found["ours"], found["plain"], "p50"),
    }


async def _plain_external(slurm: SlurmClient, site: Site, count: int) -> list[float]:
    submitted: dict[int, float] = {}
    for _ in range(count):
        await asyncio.sleep(random.uniform(0, REST_S))
        began = now()
        job = (await slurm.submit(a_job("plain", READ.urgent, external=True))).job_id
        submitted[job] = began
        await until(slurm, partial(_runs, job), f"job {job} is not RUNNING")
    await slurm.cancel(list(submitted))
    given = slurm_instants(site.slurm.daemon("slurmctld").log).given
    return [given[job] - began for job, began in submitted.items()]


def _runs(job: int, states: Mapping[int, Any]) -> bool:
    return "RUNNING" in states.get(job, ())


async def _plain_batch(slurm: SlurmClient, site: Site, count: int) -> list[float]:
    wishes = a_job(
        "plain",
        PLAIN,
        environment=("PATH=/usr/bin:/bin",),
        script=SCRIPT,
        standard_output="/dev/null",
        standard_error="/dev/null",
    )
    seconds, jobs = [], []
    for _ in range(count):
        await asyncio.sleep(random.uniform(0, REST_S))
        began = now()
        job = (await slurm.submit(wishes)).job_id
        mark = site.slurm.home / f"{BEGAN}{job}"
        deadline = began + LATE_S
        while not mark.exists():
            if now() > deadline:
                raise RuntimeError(f"the script of job {job} has not begun within {LATE_S:g} s")
            await asyncio.sleep(LOOK_EVERY_S)
        seconds.append(mark.stat().st_mtime - began)
        jobs.append(job)
    await slurm.cancel(jobs)
    return seconds
