"""A Pod with one ResourceClaim beside a Pod without: how much later it is bound, also by kube-scheduler alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.figures import summary
from bench.real.fleet import ALONE, GPUS, NODES_WITH_SLURMD, OURS
from bench.real.jobs import settled
from bench.real.load import Load
from bench.real.placing import SETTINGS, order_of_round
from lab.devices import GRES, MAP, grant_devices, publish, template
from lab.site import Site
from slurmclient import SlurmClient

Json = dict[str, Any]
WITH_RESOURCE_CLAIM = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "of-1"}]}
ARMS: Mapping[str, Mapping[str, Any]] = {"with": WITH_RESOURCE_CLAIM, "without": {}}
PER_ROUND = NODES_WITH_SLURMD * GPUS // 2
"""Pods of each arm before all are removed: half of the devices stay free."""


async def measure_resource_claim(load: Load, slurm: SlurmClient, site: Site, rounds: int, count: int) -> Json:
    """Pods of both arms in turn, one at a time; the first of each is not counted.

    Pods of the extender are gated. Pods of a kube-scheduler without an extender are the floor. They have rounds of
    their own, because it chooses devices that Slurm may give to other Pods.
    """
    with _devices(site):
        template(site, load.namespace, "of-1", 1)
        for scheduler in (OURS, ALONE):
            for spec in ARMS.values():
                await _bound(load, scheduler, spec)
        await _cleared(load, slurm)
        found: dict[str, dict[str, list[list[float]]]] = {
            scheduler: {name: [] for name in ARMS} for scheduler in (OURS, ALONE)
        }
        for number in range(rounds):
            for scheduler in order_of_round(found, number):
                for name, seconds in (await _round(load, scheduler, min(count, PER_ROUND))).items():
                    found[scheduler][name].append(seconds)
                await _cleared(load, slurm)
    having, lacking = summary(found[OURS]["with"]), summary(found[OURS]["without"])
    return {
        "with_s": having,
        "without_s": lacking,
        "later_p50_s": _later(having, lacking),
        "floor_later_p50_s": _later(summary(found[ALONE]["with"]), summary(found[ALONE]["without"])),
    }


async def _round(load: Load, scheduler: str, count: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ARMS}
    for number in range(count):
        for name in order_of_round(ARMS, number):
            times[name].append(await _bound(load, scheduler, ARMS[name]))
    return times


async def _cleared(load: Load, slurm: SlurmClient) -> None:
    await load.clear()
    await settled(slurm)


def _later(having: Mapping[str, object], lacking: Mapping[str, object]) -> float:
    return float(str(having["p50"])) - float(str(lacking["p50"]))


async def _bound(load: Load, scheduler: str, spec: Mapping[str, Any]) -> float:
    """Create one Pod; return the seconds until its Binding."""
    ours = scheduler == OURS
    settings = SETTINGS["allocation"] if ours else {}
    life = load.lives[await load.create(scheduler, settings, gated=ours, spec=spec)]
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
