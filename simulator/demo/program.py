"""Run the demo: two simulated servers on sockets, the extender as a separate process, and a live table."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import httpx
import yaml

from simulator.cluster import in_background
from simulator.demo.changes import Sight, changes, observe
from simulator.demo.environment import DemoEnvironment, nodes, partitions
from simulator.demo.scenario import run_steps
from simulator.demo.table import render_table
from simulator.kube import rbac
from simulator.kube.app import ApiServerApp
from simulator.kube.kubelet import Kubelets
from simulator.kube.scheduler import SimScheduler
from simulator.kube.server import FakeApiServer
from simulator.network.asgi_server import serve_on_loopback
from simulator.slurm.job_lifecycle import SimConfig
from simulator.slurm.release import NEWEST, SimRelease
from simulator.slurm.slurmctld import Slurmctld
from simulator.slurm.slurmrestd import Slurmrestd

READY_WITHIN_S = 30.0
DRAW_EVERY_S = 0.5
WIDTH = 120
"""Columns if the output is no terminal."""

LINES_OF_CHANGES = 10
"""Changes that a terminal shows below the table."""

CLEAR, HOME = "\x1b[2J", "\x1b[H"
END_OF_LINE, END_OF_SCREEN = "\x1b[K", "\x1b[J"
"""Clear the rest of a line, or of the screen: a redraw without them flickers."""


class DemoFailed(Exception):
    """The demo failed; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the extender."""

    scheduling: int
    hooks: int
    health: int
    metrics: int
    debug: int

    @classmethod
    def free(cls) -> Ports:
        """Return five free ports."""
        taken = [socket.socket() for _ in range(5)]
        try:
            for one in taken:
                one.bind(("127.0.0.1", 0))
            return cls(*(one.getsockname()[1] for one in taken))
        finally:
            for one in taken:
                one.close()


class Screen:
    """Show steps, changes and the table: redrawn in place on a terminal, elsewhere one line for each change.

    Without a terminal the table follows each step. `now` is in seconds, from any beginning.
    """

    def __init__(self, out: TextIO, now: Callable[[], float]) -> None:
        self._out = out
        self._live = out.isatty()
        self._now = now
        self._began = now()
        self._step = ""
        self._changed: deque[str] = deque(maxlen=LINES_OF_CHANGES)
        self._sight = Sight()
        self._table_is_due = False

    def show_step(self, text: str) -> None:
        """Show the text of a step."""
        self._step = f"{self._clock()}  {text}"
        self._table_is_due = True
        if not self._live:
            self._out.write(f"\n{self._step}\n")
            self._out.flush()

    async def show(self, stage: DemoEnvironment) -> None:
        """Show changes until cancelled."""
        if self._live:
            self._out.write(CLEAR)
        while True:
            await asyncio.sleep(DRAW_EVERY_S)
            self.draw(stage, await stage.placeholders())

    def draw(self, stage: DemoEnvironment, placeholders: Sequence[Mapping[str, Any]]) -> None:
        """Show the state as it is now."""
        after = observe(stage, placeholders, self._sight)
        lines = [f"{self._clock()}  {text}" for text in changes(self._sight, after)]
        self._sight = after
        self._changed.extend(lines)
        columns = shutil.get_terminal_size().columns if self._live else WIDTH
        known = {name: pod.job for name, pod in after.pods.items()}
        table = render_table(stage, placeholders, columns, known)
        if self._live:
            shown = [self._step, "", *table.splitlines(), "", *self._changed]
            self._out.write(HOME + "".join(f"{line[:columns]}{END_OF_LINE}\n" for line in shown) + END_OF_SCREEN)
        else:
            self._out.write("".join(f"{line}\n" for line in lines))
            if self._table_is_due and lines:
                self._out.write(f"\n{table}\n")
                self._table_is_due = False
        self._out.flush()

    def _clock(self) -> str:
        return f"+{self._now() - self._began:.0f} s".rjust(6)


def run(out: TextIO) -> None:
    """Run the demo. Raises `DemoFailed`."""
    asyncio.run(_run(out))


async def _run(out: TextIO) -> None:
    screen = Screen(out, asyncio.get_running_loop().time)
    screen.show_step("Starting a simulated Kubernetes and Slurm, and the extender against them ...")
    with tempfile.TemporaryDirectory(prefix="slurm-extender-demo-") as folder:
        async with _staged(Path(folder)) as (stage, extender):
            async with in_background(screen.show(stage)):
                play = asyncio.ensure_future(run_steps(stage, screen.show_step))
                await asyncio.wait((play, extender), return_when=asyncio.FIRST_COMPLETED)
                if extender.done():
                    play.cancel()
                    raise DemoFailed(f"the extender ended: {_tail(Path(folder) / 'extender.log')}")
                await play
            left = [job.name for job in stage.jobs()], [pod["metadata"]["name"] for pod in stage.pods()]
            drained = [node.name for node in stage.controller.nodes.values() if node.drained]
    if any(left) or drained:
        raise DemoFailed(f"left behind: jobs {left[0]}, Pods {left[1]}, drained nodes {drained}")
    screen.show_step("No Pod is left, no job is left, and no machine is drained.")
    out.write(f"\n{screen_end()}\n")


def screen_end() -> str:
    """Return a hint about what to try next."""
    return "`make first-pod` shows one Pod on a real Kubernetes and a real Slurm."


@asynccontextmanager
async def _staged(folder: Path) -> AsyncIterator[tuple[DemoEnvironment, asyncio.Task[int]]]:
    """Run both simulated servers and the extender; yield a task that ends with the extender."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        ports = Ports.free()
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=60))

        async def post(url: str, token: str) -> int:
            try:
                return (await client.post(url, headers={"Authorization": f"Bearer {token}"})).status_code
            except httpx.TransportError:
                return 0

        async def placeholders() -> Sequence[Mapping[str, Any]]:
            try:
                answer = await client.get(f"http://127.0.0.1:{ports.debug}/debug/placeholders")
                found: Sequence[Mapping[str, Any]] = answer.json()
            except (httpx.TransportError, ValueError):
                return ()
            return found

        kube = FakeApiServer(time.time)  # noqa: TID251 - real time is the point of the show
        kube.rbac = rbac.shipped()
        controller = Slurmctld(
            SimRelease(NEWEST),
            nodes(),
            partitions(),
            config=SimConfig(kill_wait_s=10.0, send_user_signal=True),
            post_hook=post,
            epoch=time.time() - loop.time(),  # noqa: TID251
        )
        stack.push_async_callback(controller.aclose)
        kube_port = await stack.enter_async_context(serve_on_loopback(ApiServerApp(kube)))
        slurm_port = await stack.enter_async_context(serve_on_loopback(Slurmrestd(controller)))
        for node in controller.nodes.values():
            kube.add_node(node.name)
        process = await _extender(folder, ports, kube_port, slurm_port)
        stack.push_async_callback(_stop, process)
        await _ready(process, f"http://127.0.0.1:{ports.health}/readyz", folder)
        scheduler = SimScheduler(kube, None, f"http://127.0.0.1:{ports.scheduling}/scheduler")
        await stack.enter_async_context(in_background(Kubelets(kube).run()))
        await stack.enter_async_context(in_background(scheduler.run()))
        slurm = httpx.AsyncClient(base_url=f"http://127.0.0.1:{slurm_port}", headers={"X-SLURM-USER-TOKEN": "t"})
        await stack.enter_async_context(slurm)
        yield DemoEnvironment(kube, controller, slurm, placeholders), asyncio.ensure_future(process.wait())


async def _extender(folder: Path, ports: Ports, kube_port: int, slurm_port: int) -> asyncio.subprocess.Process:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": {"server": f"http://127.0.0.1:{kube_port}"}}],
        "users": [{"name": "demo", "user": {"token": "t"}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        "current-context": "demo",
    }
    config = {
        "apiVersion": "slurm-extender.io/v1alpha1",
        "kind": "ExtenderConfiguration",
        "kubernetes": {"kubeconfig": str(folder / "kubeconfig")},
        "slurm": {
            "addresses": [f"http://127.0.0.1:{slurm_port}"],
            "token": "t",
            "user": "root",
            "killWait": "10s",
            "sendUserSignal": True,
        },
        "http": {"bind": f"127.0.0.1:{ports.scheduling}"},
        "hooks": {"bind": f"127.0.0.1:{ports.hooks}", "url": f"http://127.0.0.1:{ports.hooks}", "key": "demo"},
        "observability": {
            "healthBind": f"127.0.0.1:{ports.health}",
            "metricsBind": f"127.0.0.1:{ports.metrics}",
            "debugBind": f"127.0.0.1:{ports.debug}",
        },
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with (folder / "extender.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "extender",
            "serve",
            "--config",
            str(folder / "config.yaml"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


async def _ready(process: asyncio.subprocess.Process, url: str, folder: Path) -> None:
    async with httpx.AsyncClient(timeout=5) as client:
        for _ in range(int(READY_WITHIN_S / 0.1)):
            if process.returncode is not None:
                break
            try:
                if (await client.get(url)).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise DemoFailed(f"the extender does not become ready: {_tail(folder / 'extender.log')}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.wait()


def _tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:])
