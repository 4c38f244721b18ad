"""Preemption with GraceTime: how soon a warned Pod is told to go, and how soon the other job runs when it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import summary
from bench.real.fleet import MODE, OURS, PARTITION, READ, SIGNALLED, Contested
from bench.real.jobs import LATE_S, a_job, settled, until
from bench.real.load import Life, Load
from lab.clock import now
from lab.instants import slurm_instants
from lab.site import Site
from slurmclient import JobDescription, SlurmClient

Json = dict[str, Any]
REST_S = 1.0
"""Between two preemptions."""


async def measure_preempted(load: Load, slurm: SlurmClient, site: Site, count: int, running: int) -> Json:
    """By a signal to the batch script, and by reading jobs without one while `running` run; the same without Pods."""
    found: Json = {}
    for key, where, mode, victims in (
        ("signal", SIGNALLED, "batch", SIGNALLED.cpus),
        ("read", READ, "external", running + count),
    ):
        names = await load.burst(victims, OURS, {MODE: mode, PARTITION: where.warned}, gated=True)
        lives = [load.lives[name] for name in names]
        await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
        filler = await _fill(slurm, where, victims)
        await asyncio.sleep(5)
        urgent = [await _preempt(slurm, where, mode, lives) for _ in range(count)]
        found[key] = {"running": victims, **_figures(site.slurm.daemon("slurmctld").log, urgent, lives)}
        await slurm.cancel([*urgent, *filler])
        await load.clear()
        await settled(slurm)
    plain = await _without_pods(slurm, site, count)
    return {
        "what": f"{count} preemptions of each kind, one after the other, by jobs of 1 CPU",
        **found,
        "plain_given_s": summary([plain]),
    }


async def _fill(slurm: SlurmClient, where: Contested, taken: int) -> list[int]:
    """A job of the higher tier that takes what the Pods leave of the node."""
    left = where.cpus - taken
    if not left:
        return []
    wishes = _wishes("batch" if where is SIGNALLED else "external", where.urgent, cpus_per_task=left)
    job = (await slurm.submit(wishes)).job_id
    await until(slurm, partial(_in_state, job, "RUNNING"), f"job {job} is not RUNNING")
    return [job]


async def _preempt(slurm: SlurmClient, where: Contested, mode: str, lives: list[Life]) -> int:
    gone = sum(life.gone.done() for life in lives)
    job = (await slurm.submit(_wishes(mode, where.urgent))).job_id
    await until(slurm, partial(_in_state, job, "RUNNING"), f"job {job} is not RUNNING")
    deadline = now() + LATE_S
    while sum(life.gone.done() for life in lives) == gone:
        if now() > deadline:
            raise RuntimeError(f"job {job} runs, and no Pod went for it")
        await asyncio.sleep(0.05)
    await asyncio.sleep(REST_S)
    return job


def _wishes(mode: str, partition: str, **more: Any) -> JobDescription:
    if mode == "external":
        return a_job("urgent", partition, external=True, **more)
    script = {"script": "#!/bin/sh\nexec sleep 3600\n", "environment": ("PATH=/usr/bin:/bin",)}
    return a_job("urgent", partition, standard_output="/dev/null", standard_error="/dev/null", **script, **more)


def _in_state(job: int, state: str, states: Mapping[int, Any]) -> bool:
    return state in states.get(job, ())


def _figures(log: Path, urgent: list[int], lives: list[Life]) -> Json:
    """Of each preemption: warning to the deletion's being asked, and the Pod's end to the other job's nodes."""
    instants = slurm_instants(log)
    of_job = {life.job_id: life for life in lives}
    told, ran = [], []
    for job in urgent:
        warned_at, victim = instants.warned[job]
        life = of_job[victim]
        told.append(life.ending.result() - warned_at)
        ran.append(instants.given[job] - life.gone.result())
    return {"told_s": summary([told]), "given_s": summary([ran])}


async def _without_pods(slurm: SlurmClient, site: Site, count: int) -> list[float]:
    """Seconds from the cancel of a warned job to the nodes of the job that it was warned for."""
    log = site.slurm.daemon("slurmctld").log
    # A warning by any other way makes slurmctld ask the node, which has no slurmd and counts as silent from then on.
    warned_as_ours = {"kill_warning_signal": "USR1", "kill_warning_flags": ("BATCH_JOB",), "kill_warning_delay_s": 60}
    whole = _wishes("external", READ.warned, cpus_per_task=READ.cpus, **warned_as_ours)
    cancelled: dict[int, float] = {}
    for _ in range(count):
        victim = (await slurm.submit(whole)).job_id
        await until(slurm, partial(_in_state, victim, "RUNNING"), f"job {victim} is not RUNNING")
        job = (await slurm.submit(_wishes("external", READ.urgent))).job_id
        deadline = now() + LATE_S
        while job not in slurm_instants(log).warned:
            if now() > deadline:
                raise RuntimeError(f"nobody was warned for job {job}")
            await asyncio.sleep(0.1)
        cancelled[job] = now()
        await slurm.cancel([victim])
        await until(slurm, partial(_in_state, job, "RUNNING"), f"job {job} is not RUNNING")
        await slurm.cancel([job])
        await settled(slurm)
    given = slurm_instants(log).given
    return [given[job] - at for job, at in cancelled.items()]
