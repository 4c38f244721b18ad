"""Print which files of `extender` and `slurmclient` one Pod's life executes: created, bound, its job ended, gone.

Run at the top of the repository: `python -m bench.pod_life [--list]`. The Pod lives in the simulator, on virtual time.
What an idle process executes anyway (polls, watches, the Lease) is recorded first and left out: a file counts if one of
its functions runs for the Pod and did not run without it. How deep the stack is when `/filter` is answered is printed
besides.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from simulator.cluster import SimCluster, simulated_cluster
from simulator.virtual_time import run_virtual

TOP = Path(__file__).parents[1]
ROOMS = (str(TOP / "extender"), str(TOP / "slurmclient"))
IDLE_S = 90.0
"""Seconds of an idle process: long enough for each of its loops."""


class Recorder:
    """Record the functions that run, and how deep the stack was when the verdict of `/filter` was made."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        self.depth = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record while inside."""
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _about: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOMS):
            return
        self.seen.add(code)
        if code.co_name == "filter_verdict":
            self.depth = max(self.depth, sum(1 for _ in _ours(frame)))


def _ours(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOMS):
            yield frame
        frame = frame.f_back


async def _life() -> tuple[set[CodeType], set[CodeType], int]:
    idle, busy = Recorder(), Recorder()
    async with simulated_cluster(SimCluster) as cluster, cluster.running():
        with idle.recording():
            await asyncio.sleep(IDLE_S)
        with busy.recording():
            cluster.kube.add_pod("web", cpu="1")
            await cluster.until(lambda: bool(_node_of(cluster)), "the Pod is bound")
            await asyncio.sleep(5.0)
            for job in list(cluster.slurm.controller.jobs.values()):
                if not job.ended:
                    cluster.slurm.controller.cancel(job.job_id)
            await cluster.until(lambda: cluster.kube.pod("web") is None, "the Pod is gone")
            await asyncio.sleep(IDLE_S)
    return idle.seen, busy.seen, busy.depth


def _node_of(cluster: SimCluster) -> str:
    pod = cluster.kube.pod("web")
    return "" if pod is None else str(pod["spec"].get("nodeName", ""))


def _file(code: CodeType) -> str:
    return str(Path(code.co_filename).relative_to(TOP))


def main() -> None:
    """Print the figures, and the files if they are asked for."""
    parser = argparse.ArgumentParser(description="Print which files one Pod's life executes.")
    parser.add_argument("--list", action="store_true", help="print each file, and how many of its functions run")
    args = parser.parse_args()
    idle, busy, depth = run_virtual(_life())
    files = Counter(_file(code) for code in busy - idle)
    rooms = Counter("/".join(name.split("/")[:2]) for name in files)
    print(f"files that run for one Pod: {len(files)}, functions: {sum(files.values())}")
    print(f"frames of ours when /filter is answered: {depth}")
    print("by room: " + ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    if args.list:
        for name, count in sorted(files.items()):
            print(f"{count:4} {name}")


if __name__ == "__main__":
    main()
