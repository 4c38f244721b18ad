"""`python -m bench.real [--quick]`: build the parts if need be, measure, write `bench/results/*.json`."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import write
from bench.real.fleet import ALONE, BARE, EXTERNAL, PLAIN, another_scheduler, site
from bench.real.load import load
from bench.real.placing import measure_burst, measure_idle
from lab.cache import cache_folder
from lab.ports import Ports
from lab.site import Site
from slurmclient import MintedToken, SlurmClient


@contextmanager
def bare_pipeline(found: Site, mode: str, partition: str) -> Iterator[None]:
    """The bare pipeline as a process, with a kube-scheduler of its own."""
    with Ports(cache_folder() / "ports") as ports:
        port = ports.take()
        command = [sys.executable, "-m", "bench.real.bare", str(port), str(found.kube.kubeconfig), found.slurm.rest_url]
        command += [str(found.home / "slurm.token"), mode, partition]
        process = subprocess.Popen(command)
        scheduler = another_scheduler(found, BARE, f"http://127.0.0.1:{port}/scheduler")
        try:
            yield
        finally:
            scheduler.stop()
            process.terminate()
            process.wait(30)


async def measured(found: Site, mode: str, quick: bool) -> dict[str, object]:
    """One mode, idle; and bursts of the external one."""
    rounds, count = (2, 20) if quick else (5, 200)
    token = MintedToken(found.slurm.jwt_key_path, user="root")
    async with (
        SlurmClient([found.slurm.rest_url], token, connections=8) as slurm,
        load(str(found.kube.kubeconfig), found.namespace(f"bench-{mode}")) as pods,
    ):
        result: dict[str, object] = {"idle": await measure_idle(pods, slurm, mode, rounds, count)}
        if mode == "external":
            sizes = (50,) if quick else (300, 1000)
            result["burst"] = {str(size): await measure_burst(pods, slurm, rounds, size) for size in sizes}
        return result


def main() -> None:
    """Everything, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, and no more")
    quick: bool = parser.parse_args().quick
    with site() as found:
        alone = another_scheduler(found, ALONE)
        try:
            for mode, partition in (("external", EXTERNAL), ("allocation", PLAIN)):
                with bare_pipeline(found, mode, partition):
                    result = asyncio.run(measured(found, mode, quick))
                print(write(f"placing-{mode}", result | {"quick": quick}))
        finally:
            alone.stop()


if __name__ == "__main__":
    main()
