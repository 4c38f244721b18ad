"""Gangs: from the first creation of a member to the last Binding, in bursts, of a large one, and while they wait."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from bench.figures import ratio, summary
from bench.real.counts import check
from bench.real.fleet import BARE, OURS
from bench.real.jobs import settled, together
from bench.real.load import CREATING, Load
from bench.real.placing import SETTINGS, STARTS_IN_S, all_bound, burst, order_of_round
from bench.real.waiting import SETTLED_S, WAITING, fill, pending
from extender.domain.wellknown import GANG, GANG_SIZE
from lab.clock import now
from lab.pods import START_IN
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]


async def create_gang(load: Load, name: str, size: int, scheduler: str, settings: Mapping[str, str]) -> list[str]:
    """Create all members of one gang at once; return their names."""
    return await load.burst(size, scheduler, {**settings, GANG: name, GANG_SIZE: str(size)}, gated=True)


async def measure_gang(load: Load, slurm: SlurmClient, rounds: int, count: int, size: int) -> Json:
    """Gangs one after the other on an idle cluster, ours beside the bare loop of the same calls."""
    arms: dict[str, list[list[float]]] = {OURS: [], BARE: []}
    for number in range(rounds):
        for scheduler in order_of_round(arms, number):
            seconds = []
            for one in range(count):
                names = await create_gang(load, f"gang-{one}", size, scheduler, SETTINGS["external"])
                seconds.append(await all_bound(load, names))
                await load.clear()
            arms[scheduler].append(seconds)
            await settled(slurm)
    ours, bare = summary(arms[OURS]), summary(arms[BARE])
    return {"size": size, "ours_s": ours, "bare_s": bare, "ratio_p50": ratio(ours, bare, "p50")}


async def measure_large_gang(load: Load, slurm: SlurmClient, site: Site, rounds: int, size: int) -> Json:
    """One gang of many members, on so many nodes, beside the bare loop of the same calls and as many single Pods."""
    settings = SETTINGS["external"] | {START_IN: f"{STARTS_IN_S}s"}
    seconds: dict[str, list[float]] = {"gang": [], BARE: [], "single": []}
    barriers: list[Json] = []
    for number in range(rounds):
        for arm in order_of_round(seconds, number):
            before = check(site)
            if arm == "single":
                names = await load.burst(size, OURS, settings, gated=True)
            else:
                scheduler = BARE if arm == BARE else OURS
                names = await create_gang(load, f"large-{number}", size, scheduler, settings)
            seconds[arm].append(await all_bound(load, names))
            if arm == "gang":
                barriers.append(dict(check(site).barriers - before.barriers))
            await load.clear()
            await settled(slurm)
    gang, bare = statistics.median(seconds["gang"]), statistics.median(seconds[BARE])
    return {
        "size": size,
        "s": seconds["gang"],
        "bare_s": seconds[BARE],
        "single_s": seconds["single"],
        "barriers": barriers,
        "ratio": gang / bare,
    }


async def measure_gangs_in_a_burst(load: Load, slurm: SlurmClient, rounds: int, count: int, size: int) -> Json:
    """Pods a second of a burst: in gangs of this size, and one by one."""
    settings = SETTINGS["external"] | {START_IN: f"{STARTS_IN_S}s"}

    async def gangs() -> float:
        made = [create_gang(load, f"burst-{one}", size, OURS, settings) for one in range(count // size)]
        names = [name for gang in await asyncio.gather(*made) for name in gang]
        return len(names) / await all_bound(load, names)

    arms: dict[str, Callable[[], Awaitable[float]]] = {
        "gangs": gangs,
        "single": lambda: burst(load, count, OURS, settings, gated=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        for name in order_of_round(rates, number):
            rates[name].append(await arms[name]())
            await load.clear()
            await settled(slurm)
    median = {name: statistics.median(found) for name, found in rates.items()}
    return {"size": size, "per_s": rates, "median_per_s": median, "ratio": median["gangs"] / median["single"]}


async def measure_waiting_gangs(
    load: Load, slurm: SlurmClient, site: Site, *, gangs: int, size: int, seconds: float
) -> Json:
    """What so many gangs cost that wait, beside as many single Pods as there are gangs: each has one job."""
    found: dict[str, Json] = {}
    for arm in ("gangs", "single"):
        full = await fill(slurm)
        if arm == "gangs":
            made = [partial(create_gang, load, f"waits-{one}", size, OURS, WAITING) for one in range(gangs)]
            await together(made, CREATING // size)
        else:
            await load.burst(gangs, OURS, WAITING, gated=True)
        await pending(slurm, gangs)
        await asyncio.sleep(SETTLED_S)
        before, began = check(site), now()
        await asyncio.sleep(seconds)
        found[arm] = dict(check(site).since(before)) | {"waited_s": now() - began}
        await load.clear()
        await slurm.cancel(full)
        await settled(slurm)
    return {"count": gangs, "size": size, **found}
