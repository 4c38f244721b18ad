"""Both processes of a measurement: the crowd, and the extender, which is started and stopped as often as is wanted."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from bench.real.cpu import process_cpu_s
from bench.real.load import Load, load_on
from bench.simulated.crowd import LOAD
from extender.kube.connection import ApiConnection, connect_plainly
from lab.cache import cache_folder
from lab.clock import elapsed
from lab.extender import PROGRAM, Addresses, configuration
from lab.ports import Ports
from lab.probe import answers_ok, request
from simulator.kube.objects import Json
from slurmclient import SlurmClient, StaticToken

LATE_S = 600.0
LOOK_EVERY_S = 0.05
TOKEN = "t"


@dataclass(slots=True)
class Stage:
    """What a measurement acts on. `addresses` are the extender's, `load` the Pods that are made."""

    home: Path
    addresses: Addresses
    urls: Json
    kube: ApiConnection
    slurm: SlurmClient
    load: Load
    populate: Callable[[], None]
    """Let the crowd come."""

    _process: Process | None = field(default=None)

    @property
    def pid(self) -> int:
        """Of the extender."""
        assert self._process is not None, "the extender does not run"
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """What the extender has used since it was started."""
        return process_cpu_s(self.pid)

    @property
    def rss_mb(self) -> float:
        """What the extender holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def start(self, *, timed: bool = False) -> float:
        """Start the extender; seconds until it is ready. `timed`: with every step of its loop, which costs a little."""
        program = [str(PROGRAM)]
        if timed:
            program = [sys.executable, "-m", "bench.simulated.measured", str(self._steps)]
        command = [*program, "serve", "--config", str(self.home / "config.yaml")]
        with (self.home / "extender.log").open("ab") as log:
            began = elapsed()
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=STDOUT)
        await self.until(self._ready, "the extender is ready")
        return elapsed() - began

    async def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                self._process.terminate()
            await self._process.wait()
            self._process = None

    async def longest_steps(self) -> list[Json]:
        """The longest steps of the extender's loop since this was asked last, of one started `timed`."""
        self._steps.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGRTMIN)
        await self.until(self._steps.exists, "the steps are told")
        found: list[Json] = json.loads(self._steps.read_text(encoding="utf-8"))
        return found

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Look until something is so. Raises RuntimeError."""
        deadline = elapsed() + LATE_S
        while not self._seen(true):
            if elapsed() > deadline or (self._process is not None and self._process.returncode is not None):
                raise RuntimeError(f"not so, or the extender has ended: {what}\n{self.log_tail()}")
            await asyncio.sleep(LOOK_EVERY_S)

    def _seen(self, true: Callable[[], bool]) -> bool:
        try:
            return true()
        except OSError:  # it does not answer
            return False

    async def jobs(self, more: int) -> None:
        """Wait until Slurm knows so many live jobs."""
        deadline = elapsed() + LATE_S
        while (live := await self._live()) < more:
            if elapsed() > deadline:
                raise RuntimeError(f"{live} live jobs in Slurm, there should be {more}\n{self.log_tail()}")
            await asyncio.sleep(1)

    def metric(self, name: str) -> float:
        """The sum of all lines of /metrics that begin so."""
        return sum(value for key, value in self._metrics() if key.startswith(f"slurm_extender_{name}"))

    def filters(self) -> Counter[float]:
        """How many calls of `/filter` were answered within each bound of the histogram, by the extender's own clock."""
        found: Counter[float] = Counter()
        for key, value in self._metrics():
            if key.startswith("slurm_extender_filter_duration_seconds_bucket"):
                found[float(key.partition('le="')[2].partition('"')[0])] += int(value)
        return found

    def _metrics(self) -> list[tuple[str, float]]:
        text = request("GET", f"http://127.0.0.1:{self.addresses.metrics}/metrics")[1].decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return [(key, float(value)) for key, _, value in lines]

    def log_tail(self) -> str:
        """The end of what the extender wrote."""
        return (self.home / "extender.log").read_text(encoding="utf-8", errors="replace")[-3000:]

    @property
    def _steps(self) -> Path:
        return self.home / "steps.json"

    def _ready(self) -> bool:
        try:
            return answers_ok(f"http://127.0.0.1:{self.addresses.health}/readyz")
        except OSError:
            return False

    async def _live(self) -> int:
        states = await self.slurm.job_states()
        return sum(bool({"PENDING", "RUNNING"} & words) for words in states.values())


@asynccontextmanager
async def staged(nodes: int, foreign: int, waiting: int, running: int) -> AsyncIterator[Stage]:
    """A crowd; the extender is not started yet."""
    with TemporaryDirectory(prefix="bench-") as folder, Ports(cache_folder() / "ports") as ports:
        home, addresses = Path(folder), Addresses.take(ports)
        command = [sys.executable, "-m", "bench.simulated.crowd", *map(str, (nodes, foreign, waiting, running))]
        crowd = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        try:
            urls = json.loads(await crowd.stdout.readline())
            crowd.stdin.write(f"http://127.0.0.1:{addresses.scheduling}/scheduler\n".encode())
            await crowd.stdin.drain()
            _configure(home, addresses, urls)
            kube = connect_plainly(urls["kube"], lambda: TOKEN)
            try:
                async with SlurmClient([urls["slurm"]], StaticToken(TOKEN)) as slurm, load_on(kube, LOAD) as load:
                    stage = Stage(home, addresses, urls, kube, slurm, load, partial(crowd.stdin.write, b"\n"))
                    try:
                        yield stage
                    finally:
                        await stage.stop()
            finally:
                await kube.close()
        finally:
            crowd.stdin.close()
            await crowd.wait()


def _configure(home: Path, addresses: Addresses, urls: Json) -> None:
    for name, text in (("slurm.token", TOKEN), ("hooks.key", "0" * 64)):
        (home / name).touch(mode=0o600)
        (home / name).write_text(text, encoding="ascii")
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": urls["kube"]}}],
        "users": [{"name": "bench", "user": {"token": TOKEN}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    (home / "kubeconfig").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    text = configuration(
        addresses,
        home,
        slurm_url=urls["slurm"],
        kubeconfig=home / "kubeconfig",
        overrides={"observability": {"logLevel": "info"}},
    )
    (home / "config.yaml").write_text(text, encoding="utf-8")
