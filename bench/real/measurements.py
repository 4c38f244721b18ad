"""Every measurement on the real parts by its name, with its counts, in the order in which they are run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.real.adversary import measure_adversary
from bench.real.cordoning import measure_cordoned
from bench.real.costs import measure_cost
from bench.real.ending import measure_finishing, measure_many, measure_one
from bench.real.fleet import EXTERNAL, OURS, PLAIN, another_scheduler
from bench.real.gangs import (
    measure_gang,
    measure_gangs_in_a_burst,
    measure_large_gang,
    measure_waiting_gangs,
)
from bench.real.load import Load
from bench.real.placing import measure_burst, measure_idle, measure_ungated
from bench.real.polled import measure_polled
from bench.real.preempting import measure_preempted
from bench.real.push import pushing
from bench.real.resource_claims import PER_ROUND, measure_resource_claim
from bench.real.submitting import measure_batch, measure_submitted
from bench.real.waiting import measure_granted, measure_still, measure_turnover
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
CREATIONS = 1000
"""Of these a p99 is worth something."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much is measured. The usual rounds of all take half an hour on 2 idle cores, 5 of each twice as long.

    `quick`: few rounds show that it runs. `rounds` replaces every usual number of rounds.
    """

    quick: bool = False
    rounds: int = 0

    def of_rounds(self, usual: int, quick: int = 1) -> int:
        """So many rounds of each arm."""
        return quick if self.quick else self.rounds or usual

    def some(self, usual: int, quick: int) -> int:
        """So many in each round."""
        return quick if self.quick else usual


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measurement is given. `parts`: the processes of each part of the site."""

    load: Load
    slurm: SlurmClient
    site: Site
    parts: Mapping[str, list[int]]
    counts: Counts


async def _external(bench: Bench) -> Json:
    return await _idle(bench, "external")


async def _allocation(bench: Bench) -> Json:
    return await _idle(bench, "allocation")


async def _idle(bench: Bench, mode: str) -> Json:
    counts = bench.counts
    rounds = counts.of_rounds(5, 2)
    each = counts.some(-(-CREATIONS // rounds), 10)
    return await measure_idle(bench.load, bench.slurm, mode, rounds, each)


async def _submitted(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_submitted(bench.load, bench.slurm, bench.site, counts.of_rounds(3), counts.some(6, 3))


async def _batch(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_batch(bench.load, bench.slurm, bench.site, counts.of_rounds(3), counts.some(6, 3))


async def _preempted(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_preempted(bench.load, bench.slurm, bench.site, counts.some(8, 2), counts.some(100, 10))


async def _resource_claim(bench: Bench) -> Json:
    counts = bench.counts
    rounds, each = counts.of_rounds(5), counts.some(PER_ROUND, 4)
    return await measure_resource_claim(bench.load, bench.slurm, bench.site, rounds, each)


async def _ungated(bench: Bench) -> Json:
    shipped = await measure_ungated(bench.load, bench.slurm, bench.counts.some(20, 4))
    with _popping(bench.site):
        popping = await measure_ungated(bench.load, bench.slurm, bench.counts.some(20, 4))
    return {"shipped": shipped, "popping": popping}


@contextmanager
def _popping(site: Site) -> Iterator[None]:
    """Our kube-scheduler with SchedulerPopFromBackoffQ on."""
    site.scheduler.stop()
    url = f"http://127.0.0.1:{site.addresses.scheduling}/scheduler"
    scheduler = another_scheduler(site, OURS, url, "SchedulerPopFromBackoffQ=true")
    try:
        yield
    finally:
        scheduler.stop()
        site.scheduler.start()


async def _burst_300(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_burst(bench.load, bench.slurm, bench.parts, counts.of_rounds(3), counts.some(300, 20))


async def _burst_1000(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_burst(bench.load, bench.slurm, bench.parts, counts.of_rounds(1), counts.some(1000, 30))


async def _granted(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_granted(bench.load, bench.slurm, bench.site, counts.of_rounds(5), counts.some(200, 20))


async def _waiting(bench: Bench) -> Json:
    count, seconds = bench.counts.some(1000, 50), bench.counts.some(60, 5)
    gated = await measure_still(bench.load, bench.slurm, bench.site, count, seconds, gated=True)
    ungated = await measure_still(bench.load, bench.slurm, bench.site, count, seconds, gated=False)
    return {"gated": gated, "ungated": ungated}


async def _turnover(bench: Bench) -> Json:
    return await measure_turnover(bench.load, bench.slurm, bench.counts.of_rounds(1), bench.counts.some(1000, 50))


async def _cancelled(bench: Bench) -> Json:
    counts = bench.counts
    with pushing(bench.site):
        pushed = await measure_one(bench.load, bench.slurm, counts.some(30, 5))
    return {
        "one": await measure_one(bench.load, bench.slurm, counts.some(30, 5)),
        "pushed": pushed,
        "many": await measure_many(bench.load, bench.slurm, counts.of_rounds(2), counts.some(300, 20)),
    }


async def _cordoned(bench: Bench) -> Json:
    return await measure_cordoned(bench.load, bench.slurm, bench.counts.of_rounds(2), bench.counts.some(150, 5))


async def _finishing(bench: Bench) -> Json:
    return await measure_finishing(bench.load, bench.slurm, bench.counts.of_rounds(2), bench.counts.some(300, 20))


async def _adversary(bench: Bench) -> Json:
    rounds, count = bench.counts.of_rounds(5), bench.counts.some(100, 10)
    return await measure_adversary(bench.slurm, bench.site, parts=bench.parts, rounds=rounds, count=count)


async def _cost(bench: Bench) -> Json:
    return await measure_cost(bench.load, bench.slurm, bench.site, bench.counts.some(200, 10))


async def _gang(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_gang(bench.load, bench.slurm, counts.of_rounds(5, 2), counts.some(40, 4), 8)


async def _large_gang(bench: Bench) -> Json:
    rounds, size = bench.counts.of_rounds(3), bench.counts.some(512, 64)
    return await measure_large_gang(bench.load, bench.slurm, bench.site, rounds, size)


async def _gangs_in_a_burst(bench: Bench) -> Json:
    counts = bench.counts
    return await measure_gangs_in_a_burst(bench.load, bench.slurm, counts.of_rounds(3), counts.some(300, 40), 4)


async def _waiting_gangs(bench: Bench) -> Json:
    gangs, seconds = bench.counts.some(1000, 20), bench.counts.some(60, 5)
    return await measure_waiting_gangs(bench.load, bench.slurm, bench.site, gangs=gangs, size=8, seconds=seconds)


async def _polled(bench: Bench) -> Json:
    jobs, seconds = bench.counts.some(10_000, 100), bench.counts.some(20, 5)
    return await measure_polled(bench.load, bench.slurm, bench.site, parts=bench.parts, jobs=jobs, seconds=seconds)


MEASUREMENTS: Mapping[str, Callable[[Bench], Awaitable[Json]]] = {
    "placing-external": _external,
    "placing-allocation": _allocation,
    "placing-submit": _submitted,
    "placing-batch": _batch,
    "placing-ungated": _ungated,
    "placing-claim": _resource_claim,
    "burst-300": _burst_300,
    "burst-1000": _burst_1000,
    "preempted": _preempted,
    "granted": _granted,
    "turnover": _turnover,
    "cancelled": _cancelled,
    "finishing": _finishing,
    "cordoned": _cordoned,
    "adversary": _adversary,
    "cost": _cost,
    "waiting": _waiting,
    "gang-8": _gang,
    "gang-512": _large_gang,
    "gangs-burst": _gangs_in_a_burst,
    "gangs-waiting": _waiting_gangs,
    "polled": _polled,
}
"""`polled` is the last: it leaves 10,000 jobs behind."""

BARE_OF = {
    "placing-external": ("external", EXTERNAL),
    "placing-allocation": ("allocation", PLAIN),
    "burst-300": ("external", EXTERNAL),
    "burst-1000": ("external", EXTERNAL),
    "gang-8": ("external", EXTERNAL),
    "gang-512": ("external", EXTERNAL),
}
"""Those that are compared with the bare pipeline, and which job that asks for."""


WIDE = frozenset({"gang-512"})
"""Those that need a node for each member of a large gang, and so a site of their own."""


async def cooled() -> None:
    """Let what is left of the measurement before come to rest."""
    await asyncio.sleep(2)
