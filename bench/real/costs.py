"""What a placed Pod costs: requests to Slurm, writes to the API server, CPU of ours; at once and after a wait."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.real.counts import check
from bench.real.fleet import OURS, ROOM
from bench.real.jobs import LATE_S, settled
from bench.real.load import Load
from bench.real.placing import SETTINGS
from bench.real.waiting import WAITING, fill, pending
from lab.probe import request
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
SLOW_REFRESH_RATE = 0.01
"""Reads a second of the refresh, which are no Pod's."""

STILL_S = 5.0
"""So long it is looked at before, for what it uses by itself, and after, for what a Binding brings about."""

_WRITE = re.compile(
    r'apiserver_request_total\{.*resource="pods",scope="resource",subresource="(binding|status|)",'
    r'verb="(PATCH|POST|PUT)".*\} (\S+)'
)


async def measure_cost(load: Load, slurm: SlurmClient, site: Site, count: int) -> Json:
    """Pods that are placed at once, and others that wait until a job ends; from creation to Binding."""
    with _rarely_refreshed(site):

        async def at_once() -> None:
            await load.burst(count, OURS, SETTINGS["external"], gated=True)

        placed = await _cost(load, site, at_once)
        await settled(slurm)
        full = await fill(slurm)

        async def waits() -> None:
            await load.burst(ROOM, OURS, WAITING, gated=True)
            await pending(slurm, ROOM)
            await slurm.cancel(full)

        waited = await _cost(load, site, waits)
        await settled(slurm)
    return {"at_once": placed, "waited": waited}


@contextmanager
def _rarely_refreshed(site: Site) -> Iterator[None]:
    site.reconfigure({"limits": {"refreshRate": SLOW_REFRESH_RATE}})
    try:
        yield
    finally:
        site.reconfigure()


async def _cost(load: Load, site: Site, begin: Callable[[], Awaitable[None]]) -> Json:
    quiet = check(site)
    await asyncio.sleep(STILL_S)
    before, written = check(site), _writes(site)
    idle_share = (before.cpu_s - quiet.cpu_s) / (before.at - quiet.at)
    await begin()
    await asyncio.wait_for(asyncio.gather(*(life.bound for life in load.lives.values())), LATE_S)
    count = len(load.lives)
    await asyncio.sleep(STILL_S)
    after = check(site)
    cost, writes = after.since(before), _writes(site) - written
    cpu_s = after.cpu_s - before.cpu_s - idle_share * (after.at - before.at)
    await load.clear()
    # kwok says once of each Pod that it runs; all other words about their status are counted as ours.
    ours = writes["PATCH", ""] + writes["POST", "binding"] + max(0, writes["PATCH", "status"] - count)
    return cost | {
        "pods": count,
        "writes": {" ".join(key).strip(): number for key, number in writes.items()},
        "requests_per_pod": int(str(cost["requests"])) / count,
        "writes_per_pod": ours / count,
        "idle_cpu_share": idle_share,
        "cpu_ms_per_pod": 1000 * cpu_s / count,
    }


def _writes(site: Site) -> Counter[tuple[str, str]]:
    """What the API server was asked to change of Pods that are there, by verb and subresource; whoever asked."""
    headers = {"Authorization": f"Bearer {site.kube.token()}"}
    _, answer = request("GET", f"{site.kube.url}/metrics", headers=headers, ca_file=site.kube.ca_file)
    found: Counter[tuple[str, str]] = Counter()
    for subresource, verb, number in _WRITE.findall(answer.decode()):
        found[verb, subresource] += int(float(number))
    return found
