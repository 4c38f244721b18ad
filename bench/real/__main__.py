"""`python -m bench.real [--quick] [--rounds N] [--print] [NAME ...]`: measure on the real parts.

It writes `bench/results/*.json`, but not with `--quick` or `--print`. A quick try of one measurement:
`python -m bench.real adversary --rounds 1 --print`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.figures import write
from bench.real.cpu import processes
from bench.real.fleet import ALONE, BARE, EXTERNAL_NODES, WIDE_NODES, another_scheduler, site
from bench.real.jobs import emptied
from bench.real.load import load
from bench.real.measurements import BARE_OF, MEASUREMENTS, WIDE, Bench, Counts, cooled
from lab.cache import cache_folder
from lab.clock import now, wait_until
from lab.ports import Ports
from lab.probe import answers_ok
from lab.site import Site
from slurmclient import MintedToken, SlurmClient

Json = dict[str, Any]


@contextmanager
def bare_pipeline(found: Site, mode: str, partition: str) -> Iterator[dict[str, int]]:
    """The bare pipeline as a process, with a kube-scheduler of its own; their processes."""
    with Ports(cache_folder() / "ports") as ports:
        port = ports.take()
        url = f"http://127.0.0.1:{port}"
        slurmrestd = f"{found.slurm.rest_url}/slurm/{found.slurm.release.parser}"
        command = [sys.executable, "-m", "bench.real.bare", str(port), str(found.kube.kubeconfig), slurmrestd]
        command += [str(found.home / "slurm.token"), mode, partition]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            wait_until(lambda: _answers(f"{url}/ready"), "the bare pipeline watches", timeout_s=60)
            scheduler = another_scheduler(found, BARE, f"{url}/scheduler")
            try:
                yield {"bare pipeline": process.pid, "its kube-scheduler": scheduler.pid}
            finally:
                scheduler.stop()
        finally:
            process.communicate(timeout=30)  # it ends with its input


def _answers(url: str) -> bool:
    try:
        return answers_ok(url)
    except OSError:
        return False


async def _measured(found: Site, name: str, counts: Counts, more: Mapping[str, int]) -> Json:
    token = MintedToken(found.slurm.jwt_key_path, user="root")
    async with (
        SlurmClient([found.slurm.rest_url], token, connections=8) as slurm,
        load(str(found.kube.kubeconfig), found.namespace(f"bench-{name}")) as pods,
    ):
        await emptied(slurm)
        await cooled()
        return await MEASUREMENTS[name](Bench(pods, slurm, found, processes(found, more), counts))


def measure(found: Site, name: str, counts: Counts, alone: int) -> Json:
    """One, with the versions and the command that give it."""
    more = {"kube-scheduler alone": alone}
    began = now()
    if name in BARE_OF:
        with bare_pipeline(found, *BARE_OF[name]) as pids:
            result = asyncio.run(_measured(found, name, counts, more | pids))
    else:
        result = asyncio.run(_measured(found, name, counts, more))
    return result | {
        "took_s": round(now() - began),
        "parts": f"Slurm {found.slurm.version}, Kubernetes {found.kube.version.removeprefix('v')}",
        "command": f"python -m bench.real {name}",
    }


def _measure_all(names: Sequence[str], counts: Counts, external_nodes: int, *, only_print: bool) -> list[str]:
    """Measure one after the other on one site; return the names of those that failed or missed their goal."""
    failed: list[str] = []
    if not names:
        return failed
    with site(external_nodes) as found:
        alone = another_scheduler(found, ALONE)
        try:
            for name in names:
                try:
                    result = measure(found, name, counts, alone.pid)
                except Exception as error:  # the others are measured all the same
                    failed.append(name)
                    print(f"{name}: failed: {error!r}", flush=True)
                    continue
                print(name, result if counts.quick or only_print else write(name, result), flush=True)
                if "verdict" in result:
                    print(result["verdict"], flush=True)
                if result.get("met") is False and not counts.quick:
                    failed.append(name)
        finally:
            alone.stop()
    return failed


def main() -> None:
    """Everything that is asked for, one after the other; what fails is told, and does not hold up the others."""
    parser = argparse.ArgumentParser(prog="python -m bench.real", description="Measure on the real parts.")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it runs, and writes nothing")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of each arm in place of the usual 1 to 5")
    parser.add_argument("--print", action="store_true", help="print the figures, and write nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASUREMENTS)}; none: all")
    options = parser.parse_args()
    unknown = set(options.names) - MEASUREMENTS.keys()
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    if options.rounds < 0:
        parser.error(f"--rounds {options.rounds}: a number of rounds, 1 or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no process is left
    names = [one for one in MEASUREMENTS if not options.names or one in options.names]
    counts = Counts(options.quick, options.rounds)
    failed = _measure_all([one for one in names if one not in WIDE], counts, EXTERNAL_NODES, only_print=options.print)
    failed += _measure_all([one for one in names if one in WIDE], counts, WIDE_NODES, only_print=options.print)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
