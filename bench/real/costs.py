"""What one placed Pod costs: requests to Slurm and CPU of the extender, one at a time and after a wait."""

from __future__ import annotations

import asyncio
from typing import Any

from bench.real.counts import look
from bench.real.fleet import OURS, ROOM
from bench.real.jobs import LATE_S, settled
from bench.real.load import Load
from bench.real.placing import SETTINGS
from bench.real.waiting import WAITING, fill, pending
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]


async def measure_cost(load: Load, slurm: SlurmClient, site: Site, count: int) -> Json:
    """Requests and CPU from creation to Binding of Pods that are placed at once, and of others that wait first."""
    before = look(site)
    names = await load.burst(count, OURS, SETTINGS["external"], gated=True)
    await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
    await asyncio.sleep(5)
    at_once = look(site).since(before)
    await load.clear()
    await settled(slurm)
    full = await fill(slurm)
    before = look(site)
    names = await load.burst(ROOM, OURS, WAITING, gated=True)
    await pending(slurm, ROOM)
    await slurm.cancel(full)
    await asyncio.wait_for(asyncio.gather(*(load.lives[name].bound for name in names)), LATE_S)
    await asyncio.sleep(5)
    waited = look(site).since(before)
    await load.clear()
    await settled(slurm)
    return {"at_once": _each(at_once, count), "waited": _each(waited, ROOM)}


def _each(cost: Json, count: int) -> Json:
    return cost | {"asked_per_pod": cost["asked"] / count, "cpu_ms_per_pod": cost["cpu_s"] / count * 1000}
