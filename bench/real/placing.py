"""From the creation of a Pod to its Binding: one at a time on an idle cluster, and many at once."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bench.figures import summary
from bench.real.fleet import ALONE, BARE, EXTERNAL, MODE, OURS, PARTITION, PLAIN
from bench.real.jobs import a_job, settled, together
from bench.real.load import Load
from lab.clock import now
from slurmclient import SlurmClient

Json = dict[str, Any]
SETTINGS = {
    "external": {MODE: "external", PARTITION: EXTERNAL},
    "allocation": {MODE: "allocation", PARTITION: PLAIN},
}


async def idle(load: Load, count: int, scheduler: str, settings: Mapping[str, str], *, gated: bool) -> list[float]:
    """Seconds from creation to Binding of so many Pods, one after the other."""
    seconds = []
    for _ in range(count):
        name = await load.create(scheduler, settings, gated=gated)
        life = load.lives[name]
        seconds.append(await asyncio.wait_for(life.bound, 120) - life.created)
    await load.clear()
    return seconds


async def burst(load: Load, count: int, scheduler: str, settings: Mapping[str, str], *, gated: bool) -> float:
    """Pods a second, from the first creation to the last Binding."""
    names = await load.burst(count, scheduler, settings, gated=gated)
    lives = [load.lives[name] for name in names]
    bound = await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), 300)
    rate = count / (max(bound) - min(life.created for life in lives))
    await load.clear()
    return rate


async def slurm_alone(slurm: SlurmClient, count: int, partition: str, *, submit: bool) -> tuple[float, list[float]]:
    """External jobs a second with eight requests at once, and seconds of each request; all are cancelled then."""
    wishes = a_job("floor", partition, external=True, immediate=None if submit else True)
    seconds: list[float] = []

    async def one() -> int:
        began = now()
        made = await (slurm.submit(wishes) if submit else slurm.allocate(wishes))
        seconds.append(now() - began)
        return made.job_id

    began = now()
    jobs = await together([one] * count)
    rate = count / (now() - began)
    for start in range(0, count, 100):
        await slurm.cancel(jobs[start : start + 100])
    return rate, seconds


async def measure_idle(load: Load, slurm: SlurmClient, mode: str, rounds: int, count: int) -> Json:
    """Ours beside the bare pipeline, gated."""
    arms: dict[str, list[list[float]]] = {OURS: [], BARE: []}
    for number in range(rounds):
        for scheduler in order_of_round(arms, number):
            arms[scheduler].append(await idle(load, count, scheduler, SETTINGS[mode], gated=True))
            await settled(slurm)
    ours, bare = summary(arms[OURS]), summary(arms[BARE])
    return {
        "ours_s": ours,
        "bare_s": bare,
        "ratio_p50": _ratio(ours, bare, "p50"),
        "ratio_p99": _ratio(ours, bare, "p99"),
    }


async def measure_ungated(load: Load, slurm: SlurmClient, count: int) -> Json:
    """Ours without a gate, with kube-scheduler as it is shipped."""
    seconds = await idle(load, count, OURS, SETTINGS["external"], gated=False)
    await settled(slurm)
    return {"ours_s": summary([seconds])}


async def measure_burst(load: Load, slurm: SlurmClient, rounds: int, count: int) -> Json:
    """Pods a second: ours, the bare pipeline, kube-scheduler alone, Slurm alone."""
    settings = SETTINGS["external"]

    async def allocate() -> float:
        return (await slurm_alone(slurm, count, EXTERNAL, submit=False))[0]

    arms: dict[str, Callable[[], Awaitable[float]]] = {
        OURS: lambda: burst(load, count, OURS, settings, gated=True),
        BARE: lambda: burst(load, count, BARE, settings, gated=True),
        ALONE: lambda: burst(load, count, ALONE, {}, gated=False),
        "allocate": allocate,
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in order_of_round(rates, number):
            rates[name].append(await arms[name]())
            await settled(slurm)
    median = {name: statistics.median(found) for name, found in rates.items()}
    slower = min(median[ALONE], median["allocate"])
    return {
        "per_s": rates,
        "median_per_s": median,
        "ratio": median[OURS] / median[BARE],
        "bare_to_slower_part": median[BARE] / slower,
        "valid": median[BARE] >= 0.9 * slower,
    }


def order_of_round(arms: Mapping[str, object], number: int) -> list[str]:
    """Another one begins each round."""
    names = list(arms)
    return names[number % len(names) :] + names[: number % len(names)]


def _ratio(ours: Json, floor: Json, key: str) -> float:
    return float(ours[key]) / float(floor[key])
