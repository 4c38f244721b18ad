"""From the creation of a Pod to its Binding: one at a time on an idle cluster, and many at once."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bench.figures import ratio, summary
from bench.real.cpu import spent
from bench.real.fleet import ALONE, BARE, EXTERNAL, MODE, NOBODY, OURS, PARTITION, PLAIN
from bench.real.jobs import AT_ONCE, LATE_S, a_job, settled, together
from bench.real.load import Load
from lab.clock import now
from lab.pods import START_IN
from slurmclient import SlurmClient

Json = dict[str, Any]
UNGATED_EVERY_S = 0.5
STARTS_IN_S = 120
"""Kubelets run elsewhere. Here their part of the work would fall into an arm, or after its end, as fast as that is."""

SATURATED = 0.85
"""So large a share of all cores is busy where nothing is left for more."""

SETTINGS = {
    "external": {MODE: "external", PARTITION: EXTERNAL},
    "allocation": {MODE: "allocation", PARTITION: PLAIN},
}


async def idle(
    load: Load, count: int, scheduler: str, settings: Mapping[str, str], *, gated: bool, rest_s: float = 0.0
) -> list[float]:
    """Seconds from creation to Binding of so many Pods, one after the other, at most `rest_s` apart.

    slurmctld looks at its queue once a second: who asks as soon as the one before runs, always asks just after it.
    """
    seconds = []
    for _ in range(count):
        await asyncio.sleep(random.uniform(0, rest_s))
        name = await load.create(scheduler, settings, gated=gated)
        life = load.lives[name]
        seconds.append(await asyncio.wait_for(life.bound, 120) - life.created)
    await load.clear()
    return seconds


async def burst(load: Load, count: int, scheduler: str, settings: Mapping[str, str], *, gated: bool) -> float:
    """Pods a second, from the first creation to the last Binding; they stay."""
    return count / await all_bound(load, await load.burst(count, scheduler, settings, gated=gated))


async def all_bound(load: Load, names: Sequence[str]) -> float:
    """Wait for the Binding of each; return the seconds from the first creation to the last Binding."""
    lives = [load.lives[name] for name in names]
    bound = await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
    return max(bound) - min(life.created for life in lives)


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
        "ratio_p50": ratio(ours, bare, "p50"),
        "ratio_p99": ratio(ours, bare, "p99"),
    }


async def measure_ungated(load: Load, slurm: SlurmClient, count: int) -> Json:
    """Ours without a gate; Pods of their own pace, so that those that are backed off wait side by side."""
    names = []
    for _ in range(count):
        names.append(await load.create(OURS, SETTINGS["external"], gated=False))
        await asyncio.sleep(UNGATED_EVERY_S)
    lives = [load.lives[name] for name in names]
    bound = await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
    await load.clear()
    await settled(slurm)
    return {"ours_s": summary([[at - life.created for life, at in zip(lives, bound, strict=True)]])}


async def ungate(load: Load, count: int) -> float:
    """PATCHes a second that take the gate away, of Pods that nobody schedules."""
    names = await load.burst(count, NOBODY, {}, gated=True)
    began = now()
    await together([partial(load.ungate, name) for name in names], 2 * AT_ONCE)
    return count / (now() - began)


async def measure_burst(
    load: Load, slurm: SlurmClient, parts: Mapping[str, list[int]], rounds: int, count: int
) -> Json:
    """Pods a second: ours, the bare pipeline, and each of the steps alone that both consist of.

    The bare pipeline is a floor if it comes to 0.9 of the slower of an allocation and kube-scheduler alone. That can
    only be where the steps run beside each other. Where one arm after the other keeps all cores busy, no pipeline can
    do what takes the CPU of three steps in the time of one: then it is held to 0.9 of the steps one after the other.
    """
    later = {START_IN: f"{STARTS_IN_S}s"}
    settings = SETTINGS["external"] | later

    async def allocate() -> float:
        return (await slurm_alone(slurm, count, EXTERNAL, submit=False))[0]

    arms: dict[str, Callable[[], Awaitable[float]]] = {
        OURS: lambda: burst(load, count, OURS, settings, gated=True),
        BARE: lambda: burst(load, count, BARE, settings, gated=True),
        ALONE: lambda: burst(load, count, ALONE, later, gated=False),
        "allocate": allocate,
        "ungate": lambda: ungate(load, count),
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    costs: dict[str, list[Json]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in order_of_round(rates, number):
            before = spent(parts)
            rates[name].append(await arms[name]())
            costs[name].append(spent(parts).since(before))
            await load.clear()
            await settled(slurm)
    median = {name: statistics.median(found) for name, found in rates.items()}
    busy = {name: statistics.median([one["busy"] for one in found]) for name, found in costs.items()}
    slower = min(median[ALONE], median["allocate"])
    in_turn = 1 / sum(1 / median[name] for name in (ALONE, "allocate", "ungate"))
    saturated = busy[BARE] >= SATURATED
    return {
        "per_s": rates,
        "median_per_s": median,
        "ratio": median[OURS] / median[BARE],
        "bare_to_slower_part": median[BARE] / slower,
        "bare_to_parts_in_turn": median[BARE] / in_turn,
        "busy": busy,
        "cpu": costs,
        "valid": median[BARE] >= 0.9 * slower or (saturated and median[BARE] >= 0.9 * in_turn),
    }


def order_of_round(arms: Mapping[str, object], number: int) -> list[str]:
    """Another one begins each round."""
    names = list(arms)
    return names[number % len(names) :] + names[: number % len(names)]
