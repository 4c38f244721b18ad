"""Pods that wait: what they cost, how soon they are bound once Slurm gives them nodes, how fast they pass through."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Iterable
from functools import partial
from typing import Any

from bench.figures import summary
from bench.real.counts import check
from bench.real.fleet import MODE, NARROW, NARROW_ROOM, OURS, PARTITION, TURNOVER
from bench.real.jobs import LATE_S, a_job, settled, together, until
from bench.real.load import Load
from bench.real.placing import order_of_round
from extender.config.limits import LimitSettings
from lab.clock import now
from lab.instants import slurm_instants
from lab.pods import RUN_FOR
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
SETTLED_S = 150
"""After so long nothing is left to be said about a thousand Pods: Events go out at 20 a second, conditions at 10.

And kube-scheduler's back-off of each is at podMaxBackoffSeconds. It counts the rejections of a Pod, from one second on
and twice as long each time (`getBackoffTime`, `calculateBackoffDuration` in `backend/queue/backoff_queue.go`), never
back to zero; so a Pod that is woken all the time is asked about seven times in its first 63 s, and then once a minute.
"""

ONE_PASS_S = 0.05
"""Nodes that slurmctld gives in one pass of its scheduler are closer together than that, and passes farther apart."""

GRANTS_PER_S = {"s": 10, "busy_s": 25}
"""How fast room is made for those that wait: a job ends, one begins. The second is near to what two cores can do."""

WAITING = {MODE: "external", PARTITION: NARROW}
PASSING = {MODE: "batch", PARTITION: TURNOVER, RUN_FOR: "2s"}


async def fill(slurm: SlurmClient, count: int = 2) -> list[int]:
    """So many jobs of one size that take all the room of `NARROW`; the nodes in turn."""
    wishes = [
        a_job(
            "fills",
            NARROW,
            required_nodes=(f"narrow-{number % 2}",),
            cpus_per_task=NARROW_ROOM // count,
            external=True,
        )
        for number in range(count)
    ]
    jobs = [made.job_id for made in await together([partial(slurm.submit, wish) for wish in wishes])]
    await until(
        slurm,
        lambda states: all("RUNNING" in states.get(job, ()) for job in jobs),
        f"not all of {len(jobs)} jobs are RUNNING",
    )
    return jobs


async def pending(slurm: SlurmClient, count: int) -> None:
    """Wait until so many jobs are."""
    await until(
        slurm,
        lambda states: sum("PENDING" in words for words in states.values()) >= count,
        f"there are not {count} jobs pending",
    )


async def measure_granted(load: Load, slurm: SlurmClient, site: Site, rounds: int, count: int) -> Json:
    """Seconds from slurmctld's allocation, by its log, to the Binding, seen on a watch."""
    found: dict[str, list[list[float]]] = {arm: [] for arm in GRANTS_PER_S}
    polls: dict[str, list[float]] = {arm: [] for arm in GRANTS_PER_S}
    bunches: dict[str, list[int]] = {arm: [] for arm in GRANTS_PER_S}
    for number in range(rounds):
        for arm in order_of_round(GRANTS_PER_S, number):
            seconds, polls_per_s, sizes = await _granted(load, slurm, site, count, GRANTS_PER_S[arm])
            found[arm].append(seconds)
            polls[arm].append(polls_per_s)
            bunches[arm] += sizes
    rates = " or ".join(map(str, GRANTS_PER_S.values()))
    what = f"{count} Pods wait and {rates} jobs a second end for them: allocation to Binding"
    poll_s = {arm: 1 / statistics.median(rate) for arm, rate in polls.items()}
    at_once = {arm: {"p50": statistics.median(sizes), "most": max(sizes)} for arm, sizes in bunches.items()}
    arms = {arm: summary(values) for arm, values in found.items()}
    return {"what": what, "poll_s": poll_s, "given_at_once": at_once, **arms}


def _bunches(instants: Iterable[float]) -> list[int]:
    """How many nodes slurmctld gave in each of its passes."""
    sizes: list[int] = []
    last = -math.inf
    for at in sorted(instants):
        if at - last > ONE_PASS_S:
            sizes.append(0)
        sizes[-1] += 1
        last = at
    return sizes


async def _granted(
    load: Load, slurm: SlurmClient, site: Site, count: int, per_s: float
) -> tuple[list[float], float, list[int]]:
    """One round; also how often a second Slurm was polled, and how many were given nodes in one pass of slurmctld."""
    full = await fill(slurm, NARROW_ROOM)
    names = await load.burst(count, OURS, WAITING, gated=True)
    await pending(slurm, count)
    before = check(site)
    for job in full[:count]:
        await asyncio.gather(slurm.cancel([job]), asyncio.sleep(1 / per_s))
    lives = [load.lives[name] for name in names]
    bound = await asyncio.wait_for(asyncio.gather(*(life.bound for life in lives)), LATE_S)
    polls_per_s = check(site).polls_per_s(before)
    given = slurm_instants(site.slurm.daemon("slurmctld").log).given
    seconds = [at - given[life.job_id] for life, at in zip(lives, bound, strict=True)]
    bunches = _bunches(given[life.job_id] for life in lives)
    await slurm.cancel(full[count:])
    await load.clear()
    await settled(slurm)
    return seconds, polls_per_s, bunches


async def measure_still(load: Load, slurm: SlurmClient, site: Site, count: int, seconds: float, *, gated: bool) -> Json:
    """What so many Pods cost that wait, while a bound one changes its status every second, as ever since they came."""
    full = await fill(slurm)
    busy = await load.create(OURS, {MODE: "external"}, gated=gated)
    await load.lives[busy].bound
    created = check(site)
    names = await load.burst(count, OURS, WAITING, gated=gated)
    await pending(slurm, count)
    await _stirred(load, busy, SETTLED_S)
    before = check(site)
    await _stirred(load, busy, seconds)
    cost = check(site).since(before) | {"filters_before": before.filters - created.filters}
    await load.clear()
    await slurm.cancel(full)
    await settled(slurm)
    # What the refresh may ask, whatever their number; four times as much where a preemption may be announced.
    return {
        "pods": len(names),
        "gated": gated,
        "budget": LimitSettings().refresh_rate * float(str(cost["seconds"])),
    } | cost


async def _stirred(load: Load, busy: str, seconds: float) -> None:
    """A bound Pod changes its status once a second: to kube-scheduler a reason to try every Pod again that waits."""
    began = now()
    while now() - began < seconds:
        await load.status(busy, {"message": f"at {now():.0f}"})
        await asyncio.sleep(1)


async def measure_turnover(load: Load, slurm: SlurmClient, rounds: int, count: int) -> Json:
    """Pods, or jobs of plain Slurm, a second, each 2 s long, through room for 100."""
    rates: dict[str, list[float]] = {"ours": [], "plain": []}
    for number in range(rounds):
        for arm in order_of_round(rates, number):
            began = now()
            if arm == "ours":
                names = await load.burst(count, OURS, PASSING, gated=True)
                await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
            else:
                await plain_jobs(slurm, count)
            await settled(slurm)
            rates[arm].append(count / (now() - began))
            await load.clear()
    ratio = statistics.median(rates["ours"]) / statistics.median(rates["plain"])
    return {"ours_per_s": rates["ours"], "plain_per_s": rates["plain"], "ratio": ratio}


async def plain_jobs(slurm: SlurmClient, count: int) -> None:
    """The same jobs without Pods."""
    wishes = a_job(
        "plain",
        TURNOVER,
        environment=("PATH=/usr/bin:/bin",),
        script="#!/bin/sh\nexec sleep 2\n",
        standard_output="/dev/null",
        standard_error="/dev/null",
    )
    await together([lambda: slurm.submit(wishes)] * count)
