"""What one poll costs slurmctld, slurmrestd and the extender with many jobs of others in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.real.counts import check
from bench.real.cpu import spent
from bench.real.fleet import NARROW, OURS
from bench.real.jobs import a_job, together
from bench.real.load import Load
from bench.real.waiting import SETTLED_S, WAITING, fill, pending
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
BEGIN = "now+10days"
"""slurmctld passes such a job over when it looks at the queue."""

MEASURED = ("slurmctld", "slurmrestd", "extender")


async def measure_polled(
    load: Load, slurm: SlurmClient, site: Site, *, parts: Mapping[str, list[int]], jobs: int, seconds: float
) -> Json:
    """CPU of each a poll: while the extender polls, less what each takes while it stands still. Leaves the jobs."""
    foreign = a_job("foreign", NARROW, external=True, begin_time=BEGIN)
    await together([partial(slurm.submit, foreign)] * jobs)
    full = await fill(slurm)
    await load.create(OURS, WAITING, gated=True)  # while something of ours waits, it polls as often as it may
    await pending(slurm, jobs + 1)
    await asyncio.sleep(SETTLED_S)
    before, began = spent(parts), check(site)
    await asyncio.sleep(seconds)
    polling, counted = spent(parts).since(before), check(site).since(began)
    with site.extender.frozen():
        before = spent(parts)
        await asyncio.sleep(seconds)
        still = spent(parts).since(before)
    await load.clear()
    await slurm.cancel(full)
    polls = counted["slurm"]["states"]  # type: ignore[index]
    cpu: Json = {name: _cpu(polling, name) - _cpu(still, name) for name in MEASURED}
    return {
        "jobs": jobs,
        "polls_per_s": polls / counted["seconds"],
        "cpu_ms_per_poll": {name: 1000 * spent_s / polls for name, spent_s in cpu.items()},
        "cpu_share": {name: spent_s / seconds for name, spent_s in cpu.items()},
    }


def _cpu(spent_: Mapping[str, Any], name: str) -> float:
    return float(spent_["cpu_s"].get(name, 0.0))
