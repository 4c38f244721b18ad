"""A Pod with one ResourceClaim beside a Pod without: how much later it is bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.figures import summary
from bench.real.fleet import GPUS, NODES_WITH_SLURMD, OURS
from bench.real.jobs import settled
from bench.real.load import Load
from bench.real.placing import SETTINGS, order_of_round
from lab.devices import GRES, MAP, grant_devices, publish, template
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
CLAIM = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "of-1"}]}
ARMS: Mapping[str, Mapping[str, Any]] = {"with": CLAIM, "without": {}}
PER_ROUND = NODES_WITH_SLURMD * GPUS // 2
"""Pods of each arm before all are removed: half of the devices stay free."""


async def measure_claiming(load: Load, slurm: SlurmClient, site: Site, rounds: int, count: int) -> Json:
    """Pods of both arms in turn, one at a time, gated; the first of each is not counted."""
    with _devices(site):
        template(site, load.namespace, "of-1", 1)
        for spec in ARMS.values():
            await _bound(load, spec)
        found: dict[str, list[list[float]]] = {name: [] for name in ARMS}
        for _ in range(rounds):
            times: dict[str, list[float]] = {name: [] for name in ARMS}
            for number in range(min(count, PER_ROUND)):
                for name in order_of_round(ARMS, number):
                    times[name].append(await _bound(load, ARMS[name]))
            for name, seconds in times.items():
                found[name].append(seconds)
            await load.clear()
            await settled(slurm)
    having, lacking = summary(found["with"]), summary(found["without"])
    later = float(str(having["p50"])) - float(str(lacking["p50"]))
    return {"with_s": having, "without_s": lacking, "later_p50_s": later}


async def _bound(load: Load, spec: Mapping[str, Any]) -> float:
    """Create one Pod; return the seconds until its Binding."""
    life = load.lives[await load.create(OURS, SETTINGS["allocation"], gated=True, spec=spec)]
    return await asyncio.wait_for(life.bound, 120) - life.created


@contextmanager
def _devices(site: Site) -> Iterator[None]:
    """Slurm chooses the devices of the nodes with slurmd."""
    grant_devices(site)
    for number in range(NODES_WITH_SLURMD):
        publish(site, f"node-{number}", GPUS)
    site.reconfigure(GRES, more=MAP)
    try:
        yield
    finally:
        site.reconfigure()
