"""`python -m bench.real [--quick] [NAME ...]`: build the parts if need be, measure, write `bench/results/*.json`."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.figures import write
from bench.real.costs import measure_cost
from bench.real.ending import measure_finishing, measure_many, measure_one
from bench.real.fleet import ALONE, BARE, EXTERNAL, PLAIN, ROOM, another_scheduler, site
from bench.real.load import Load, load
from bench.real.placing import measure_burst, measure_idle, measure_ungated
from bench.real.waiting import measure_granted, measure_still, measure_turnover
from lab.cache import cache_folder
from lab.ports import Ports
from lab.site import Site
from slurmclient import MintedToken, SlurmClient

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measurement is given."""

    load: Load
    slurm: SlurmClient
    site: Site
    quick: bool

    def some(self, rounds: int, quick: int) -> int:
        """How many: few are enough to show that it runs."""
        return quick if self.quick else rounds


async def _idle(bench: Bench, mode: str) -> Json:
    return await measure_idle(bench.load, bench.slurm, mode, bench.some(5, 2), bench.some(200, 10))


async def _external(bench: Bench) -> Json:
    return await _idle(bench, "external")


async def _allocation(bench: Bench) -> Json:
    return await _idle(bench, "allocation")


async def _ungated(bench: Bench) -> Json:
    return await measure_ungated(bench.load, bench.slurm, bench.some(50, 5))


async def _bursts(bench: Bench) -> Json:
    sizes = (20,) if bench.quick else (300, 1000)
    return {str(size): await measure_burst(bench.load, bench.slurm, bench.some(5, 1), size) for size in sizes}


async def _granted(bench: Bench) -> Json:
    one = await measure_granted(bench.load, bench.slurm, bench.site, bench.some(100, 2), 1)
    many = await measure_granted(bench.load, bench.slurm, bench.site, bench.some(5, 1), ROOM)
    return {"one": one, "many": many}


async def _still(bench: Bench) -> Json:
    count, seconds = bench.some(1000, 50), bench.some(60, 5)
    gated = await measure_still(bench.load, bench.slurm, bench.site, count, seconds, gated=True)
    ungated = await measure_still(bench.load, bench.slurm, bench.site, count, seconds, gated=False)
    return {"gated": gated, "ungated": ungated}


async def _turnover(bench: Bench) -> Json:
    return await measure_turnover(bench.load, bench.slurm, bench.some(3, 1), bench.some(1000, 50))


async def _cancelled(bench: Bench) -> Json:
    return {
        "one": await measure_one(bench.load, bench.slurm, bench.some(100, 5)),
        "many": await measure_many(bench.load, bench.slurm, bench.some(5, 1), bench.some(300, 20)),
    }


async def _finishing(bench: Bench) -> Json:
    return await measure_finishing(bench.load, bench.slurm, bench.some(5, 1), bench.some(300, 20))


async def _cost(bench: Bench) -> Json:
    return await measure_cost(bench.load, bench.slurm, bench.site, bench.some(200, 10))


MEASUREMENTS: dict[str, Callable[[Bench], Awaitable[Json]]] = {
    "placing-external": _external,
    "placing-allocation": _allocation,
    "placing-ungated": _ungated,
    "bursts": _bursts,
    "granted": _granted,
    "waiting": _still,
    "turnover": _turnover,
    "cancelled": _cancelled,
    "finishing": _finishing,
    "cost": _cost,
}
BARE_OF = {"placing-external": ("external", EXTERNAL), "placing-allocation": ("allocation", PLAIN)}
BARE_OF["bursts"] = BARE_OF["placing-external"]
"""Those that are compared with the bare pipeline."""


@contextmanager
def bare_pipeline(found: Site, mode: str, partition: str) -> Iterator[None]:
    """The bare pipeline as a process, with a kube-scheduler of its own."""
    with Ports(cache_folder() / "ports") as ports:
        port = ports.take()
        command = [sys.executable, "-m", "bench.real.bare", str(port), str(found.kube.kubeconfig), found.slurm.rest_url]
        command += [str(found.home / "slurm.token"), mode, partition]
        process = subprocess.Popen(command)
        try:
            scheduler = another_scheduler(found, BARE, f"http://127.0.0.1:{port}/scheduler")
            try:
                yield
            finally:
                scheduler.stop()
        finally:
            process.terminate()
            process.wait(30)


async def _measured(found: Site, name: str, quick: bool) -> Json:
    token = MintedToken(found.slurm.jwt_key_path, user="root")
    async with (
        SlurmClient([found.slurm.rest_url], token, connections=8) as slurm,
        load(str(found.kube.kubeconfig), found.namespace(f"bench-{name}")) as pods,
    ):
        return await MEASUREMENTS[name](Bench(pods, slurm, found, quick))


def main() -> None:
    """Everything that is asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, and writes nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; none: all")
    asked = parser.parse_args()
    unknown = set(asked.names) - MEASUREMENTS.keys()
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    with site() as found:
        alone = another_scheduler(found, ALONE)
        try:
            for name in asked.names or MEASUREMENTS:
                if name in BARE_OF:
                    with bare_pipeline(found, *BARE_OF[name]):
                        result = asyncio.run(_measured(found, name, asked.quick))
                else:
                    result = asyncio.run(_measured(found, name, asked.quick))
                print(name, result if asked.quick else write(name, result), flush=True)
        finally:
            alone.stop()


if __name__ == "__main__":
    main()
