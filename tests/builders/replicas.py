"""Several extenders in one simulated cluster, each a process of its own: killed, told to end, stopped, cut off."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from extender.config.load import parse
from extender.domain.identity import mark_of
from extender.domain.job import JobView
from extender.runtime import Orders, serve
from extender.sim.httpcore_backend import http_transport
from extender.sim.kube.resources import LEASES
from extender.sim.mortal_network import MortalNetwork
from extender.sim.network import MemoryTransport, Network, ProtocolT
from extender.sim.process_loop import ProcessLoop
from extender.sim.wiretap import Tap
from tests.builders.process_site import CLUSTER, CONFIG, Site

_WRITE = re.compile(rb"^(?:POST|PUT|PATCH|DELETE) \S+", re.MULTILINE)
PORTS = {"scheduling": 8080, "hooks": 8000, "health": 8081, "metrics": 8082, "debug": 8083}
ELECTION = """
leaderElection: {enabled: true}
scheduler: {clusterId: %s}
"""


class ProcessNetwork(MortalNetwork):
    """The network as one machine sees it: a host can be out of reach, without a word about it."""

    def __init__(self, whole: Network, tap: Tap | None = None) -> None:
        super().__init__(whole, tap)
        self.writes: list[str] = []
        """The first line of every request of this machine to others that is no read, as its bytes leave."""

        self._to: list[tuple[str, MemoryTransport]] = []
        self._away: set[str] = set()

    async def dial(
        self, protocol_factory: Callable[[], ProtocolT], host: str, port: int
    ) -> tuple[asyncio.Transport, ProtocolT]:
        while host in self._away and not self.dead:  # noqa: ASYNC110 - as a machine that sends its SYN again
            await asyncio.sleep(0.5)
        transport, protocol = await super().dial(protocol_factory, host, port)
        assert isinstance(transport, MemoryTransport)
        self._to.append((host, transport))
        write = transport.write

        def heard(data: bytes | bytearray | memoryview[Any]) -> None:
            self.writes += [line.decode() for line in _WRITE.findall(bytes(data))]
            write(data)

        if host in {"kube", "slurm"}:
            transport.write = heard  # type: ignore[method-assign]
        return transport, protocol

    def cut_off(self, host: str, away: bool = True) -> None:
        """Nothing arrives there or comes from there; what is under way then arrives when it is in reach again."""
        (self._away.add if away else self._away.discard)(host)
        for there, transport in self._to:
            if there == host:
                transport.hold(away)


class Process:
    """One extender. `exit_code` is None while it lives; that of a killed one is -9."""

    def __init__(self, site: Site, name: str, tap: Tap | None = None) -> None:
        self.name = name
        self.exit_code: int | None = None
        self.network = ProcessNetwork(site.network, tap)
        self._site = site
        self._orders = Orders()
        self._loop = ProcessLoop(asyncio.get_running_loop())
        self._over = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._loop.call_soon(self._start)

    @property
    def alive(self) -> bool:
        return self.exit_code is None

    def kill(self) -> None:
        """SIGKILL; nothing, where it is over."""
        if self._over.done():
            return
        self._ended(-9)
        self.network.die()
        self._loop.pause(False)
        if self._task is not None:
            self._loop.call_soon(self._task.cancel)

    def terminate(self) -> None:
        """SIGTERM."""
        self._loop.call_soon(self._orders.stop.set)

    def stop(self) -> None:
        """SIGSTOP."""
        self._loop.pause()

    def go_on(self) -> None:
        """SIGCONT."""
        self._loop.pause(False)

    async def get(self, door: str, path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=http_transport(self._site.network)) as client:
            return await client.get(f"http://{self.name}:{PORTS[door]}{path}")

    async def wait(self) -> None:
        """Until nothing of it is left."""
        await asyncio.wait([self._over])
        self._loop.close()

    def _start(self) -> None:
        self._task = self._loop.create_task(self._live())

    async def _live(self) -> None:
        text = CONFIG.replace("extender:", f"{self.name}:").replace(f"http://{self.name}:", "http://extender:")
        text = text.replace("refreshRate: 2", "refreshRate: 1, pollInterval: 1s")  # most of the work of a test
        wires = replace(self._site.wires(self.network), host=self.name)
        try:
            await serve(parse(text + ELECTION % CLUSTER, "test"), wires, self._orders)
            self._ended(0)
        except asyncio.CancelledError:
            pass
        except Exception:
            self._ended(1)
        finally:
            await wires.close()
            self.network.die()
            self._over.get_loop().call_soon(self._over.set_result, None)

    def _ended(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code


class Replicas:
    """The processes behind the name `extender`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.processes: list[Process] = []
        site.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slurm-extender"}})

    def start(self, tap: Tap | None = None) -> Process:
        """One more; its name is a host of its own."""
        process = Process(self.site, f"replica-{len(self.processes)}", tap)
        self.processes.append(process)
        self.site.network.services.setdefault("extender", []).append(process.name)
        return process

    @property
    def lease(self) -> dict[str, object]:
        leases = list(self.site.kube.storage.of(LEASES))
        spec: dict[str, object] = leases[0]["spec"] if leases else {}
        return spec

    @property
    def holder(self) -> Process | None:
        """Whom the Lease names, dead or alive."""
        said = str(self.lease.get("holderIdentity") or "").rpartition("_")[0]
        return next((one for one in self.processes if one.name == said), None)

    async def led(self, other_than: Process | None = None, within: float = 60.0) -> tuple[Process, float]:
        """Wait for a leader; gives it and the seconds that it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def found() -> bool:
            return self.holder is not None and self.holder is not other_than

        await self.site.until(found, "a leader", within)
        assert self.holder is not None
        return self.holder, loop.time() - began

    def epochs(self) -> dict[int, int]:
        """The epoch of every job that Slurm knows."""
        marks = {
            job.job_id: mark_of(JobView(job.job_id, job.name, job.state, admin_comment=job.admin_comment))
            for job in self.site.jobs()
        }
        return {job_id: mark.epoch for job_id, mark in marks.items() if mark is not None}


@asynccontextmanager
async def replicas(site: Site, number: int = 2, tap: Tap | None = None) -> AsyncIterator[Replicas]:
    """So many, of which the first one leads; `tap` is told of its requests."""
    found = Replicas(site)
    try:
        found.start(tap)
        await found.led()
        for _ in range(number - 1):
            found.start()
        yield found
    finally:
        for process in found.processes:
            process.kill()
            await process.wait()
