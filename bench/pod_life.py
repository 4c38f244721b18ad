"""Print which files of `extender` and `slurmclient` one Pod's life executes: created, bound, its job ended, gone.

Run at the top of the repository: `python -m bench.pod_life [--list] [--stacks]`. The Pod lives in the simulator, on
virtual time. What an idle process executes anyway (polls, watches, the Lease) is recorded first and left out: a file
counts if one of its functions runs for the Pod and did not run without it.

Two stack depths are printed besides, in frames of both packages: when `/filter` is answered, and when the request of a
worker is written to the socket. The latter includes the frames of the task of the worker and of the task that
shields the request from cancellation.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from simulator.cluster import SimCluster, simulated_cluster
from simulator.virtual_time import run_virtual

TOP = Path(__file__).parents[1]
ROOMS = (str(TOP / "extender"), str(TOP / "slurmclient"))
CLIENT = ("extender/slurm/", "slurmclient/")
WORKER = "extender/runtime/controller.py"
SHIELD = "extender/assembly/in_flight_writes.py"
SOCKET = str(TOP / "simulator/network/memory.py"), "write"
"""File and function that stand for the socket."""

IDLE_S = 90.0
"""Seconds of an idle process: long enough for each of its loops."""

Stack = tuple[str, ...]
"""Functions from the outermost to the innermost, as `file: name`."""

_shielded: ContextVar[Stack] = ContextVar("_shielded", default=())
"""The functions that wait for the request which this task sends."""


class Recorder:
    """Record the functions that run, and the deepest stacks at the two places."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        self.filter: Stack = ()
        self.socket: Stack = ()

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
        if event != "call":
            return
        if (code.co_filename, code.co_name) == SOCKET:
            self._written(_functions(frame))
        if not code.co_filename.startswith(ROOMS):
            return
        self.seen.add(code)
        if code.co_name == "filter_verdict":
            self.filter = max(self.filter, _functions(frame), key=len)
        elif code.co_filename.endswith(SHIELD):
            _shielded.set(_functions(frame))

    def _written(self, stack: Stack) -> None:
        if stack and stack[0].startswith(CLIENT):  # the first function of a task that a shield has started
            stack = _shielded.get() + stack
        if stack and WORKER in stack[0] and stack[-1].startswith(CLIENT):
            self.socket = max(self.socket, stack, key=len)


def _functions(frame: FrameType | None) -> Stack:
    found: list[str] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOMS):
            found.append(f"{_file(frame.f_code)}: {frame.f_code.co_qualname}")
        frame = frame.f_back
    return tuple(reversed(found))


async def _life() -> tuple[Recorder, Recorder]:
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
    return idle, busy


def _node_of(cluster: SimCluster) -> str:
    pod = cluster.kube.pod("web")
    return "" if pod is None else str(pod["spec"].get("nodeName", ""))


def _file(code: CodeType) -> str:
    return str(Path(code.co_filename).relative_to(TOP))


def main() -> None:
    """Print the figures, and the files and the stacks if they are asked for."""
    parser = argparse.ArgumentParser(description="Print which files one Pod's life executes.")
    parser.add_argument("--list", action="store_true", help="print each file, and how many of its functions run")
    parser.add_argument("--stacks", action="store_true", help="print the functions of both stacks")
    args = parser.parse_args()
    idle, busy = run_virtual(_life())
    files = Counter(_file(code) for code in busy.seen - idle.seen)
    packages = Counter("/".join(name.split("/")[:2]) for name in files)
    print(f"files that run for one Pod: {len(files)}, functions: {sum(files.values())}")
    print("by package: " + ", ".join(f"{package} {count}" for package, count in packages.most_common()))
    in_client = sum(1 for one in busy.socket if one.startswith(CLIENT))
    print(f"frames when /filter is answered: {len(busy.filter)}")
    print(f"frames from worker to socket: {len(busy.socket)}, {in_client} of them in {' and '.join(CLIENT)}")
    if args.stacks:
        for name, stack in (("/filter", busy.filter), ("worker to socket", busy.socket)):
            print(f"{name}:", *stack, sep="\n    ")
    if args.list:
        for name, count in sorted(files.items()):
            print(f"{count:4} {name}")


if __name__ == "__main__":
    main()
