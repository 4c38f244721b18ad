"""Simulate extender processes: kill, terminate, stop, continue, and cut them off from hosts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from extender.assembly import Assembly
from extender.assembly.write_gate import WriteGate
from extender.config.load import parse
from extender.server.active_role import living
from simulator.cluster import CLUSTER, SimCluster, allow_everything
from simulator.network.killable import KillableNetwork
from simulator.network.memory import MemoryTransport, Network, ProtocolT
from simulator.network.request_tap import RequestTap
from simulator.replicas.process_lock import SimProcessLock
from simulator.replicas.process_loop import ProcessLoop

_WRITE = re.compile(rb"^(?:POST|PUT|PATCH|DELETE) \S+", re.MULTILINE)
IDENTITY = f"\nscheduler: {{clusterId: {CLUSTER}}}\n"
ELECTION = "leaderElection: {enabled: true}\n"


def config_of(name: str, config: str) -> str:
    """Return the configuration of one replica: it listens on the host `name`; hooks use the name of the Service.

    Leader election is on, with its default periods unless `config` has it.
    """
    own = config.replace("extender:", f"{name}:").replace(f"http://{name}:", "http://extender:")
    return own + IDENTITY + ("" if "leaderElection:" in own else ELECTION)


class ProcessNetwork(KillableNetwork):
    """The network of one machine: packets to a host can be dropped silently."""

    def __init__(self, whole: Network, tap: RequestTap | None = None) -> None:
        super().__init__(whole, tap)
        self.writes: list[str] = []
        """The request line of each write that this machine sends."""

        self._to: list[tuple[str, MemoryTransport]] = []
        self._away: set[str] = set()

    async def dial(
        self, protocol_factory: Callable[[], ProtocolT], host: str, port: int
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect as soon as the host is reachable."""
        while host in self._away and not self.dead:  # noqa: ASYNC110 - as a machine that sends its SYN again
            await asyncio.sleep(0.5)
        transport, protocol = await super().dial(protocol_factory, host, port)
        if not isinstance(transport, MemoryTransport):
            raise TypeError(f"{type(transport).__name__} is none of this network")
        self._to.append((host, transport))
        write = transport.write

        def heard(data: bytes | bytearray | memoryview[Any]) -> None:
            self.writes += [line.decode() for line in _WRITE.findall(bytes(data))]
            write(data)

        if host in {"kube", "slurm"}:
            transport.write = heard  # type: ignore[method-assign]
        return transport, protocol

    def cut_off(self, host: str, away: bool = True) -> None:
        """Drop the connection to a host or restore it; bytes under way arrive after that."""
        (self._away.add if away else self._away.discard)(host)
        for there, transport in self._to:
            if there == host:
                transport.hold(away)


class ExtenderProcess:
    """One extender process. `exit_code` is None while it runs, 1 after an `error`, -9 after a kill.

    `assembly` is its state once it listens; `leads` returns whether it may write now. `place`: the machine or Pod in
    which it runs; processes that follow each other there have the same one. Unset: it is the only one.
    """

    def __init__(
        self, cluster: SimCluster, name: str, config: str, tap: RequestTap | None = None, *, place: str = ""
    ) -> None:
        self.name = name
        self.place = place or name
        self.exit_code: int | None = None
        self.error: BaseException | None = None
        self.assembly: Assembly | None = None
        self.paused = False
        self.network = ProcessNetwork(cluster.network, tap)
        self._cluster = cluster
        self._config = config
        self._write_gate: WriteGate | None = None
        self._stop = asyncio.Event()
        self._loop = ProcessLoop(asyncio.get_running_loop())
        self._stopped = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._loop.call_soon(self._start)

    @property
    def alive(self) -> bool:
        """Return whether the process has not ended."""
        return self.exit_code is None

    @property
    def leads(self) -> bool:
        """Return whether the process lives, is not stopped, and may write."""
        here = self.alive and not self.paused and self.assembly is not None
        return here and self._write_gate is not None and self._write_gate.held

    def kill(self) -> None:
        """Send SIGKILL; ignored if it has ended."""
        if self._stopped.done():
            return
        self._ended(-9)
        self.network.die()
        self._loop.pause(False)
        if self._task is not None:
            self._loop.call_soon(self._task.cancel)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._loop.call_soon(self._stop.set)

    def stop(self) -> None:
        """Send SIGSTOP."""
        self.paused = True
        self._loop.pause()

    def go_on(self) -> None:
        """Send SIGCONT."""
        self.paused = False
        self._loop.pause(False)

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await asyncio.wait([self._stopped])
        self._loop.close()

    def tasks_left(self) -> list[str]:
        """Return the names of the tasks that still run."""
        return [task.get_name() for task in asyncio.all_tasks(self._loop)]

    def _start(self) -> None:
        self._task = self._loop.create_task(self._live())

    async def _live(self) -> None:
        lock = SimProcessLock(self.place, self, self._cluster.process_locks)
        io_context = replace(self._cluster.io_context(self.network), host=self.name, process_lock=lock)
        self._write_gate = io_context.write_gate
        try:
            config = allow_everything(parse(self._config, "test"))
            async with living(config, io_context, CLUSTER, validate=True) as self.assembly:
                await self._stop.wait()
            self._ended(0)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.error = error
            self._ended(1)
        finally:
            await io_context.close()
            self.network.die()
            self._stopped.get_loop().call_soon(self._stopped.set_result, None)

    def _ended(self, code: int) -> None:
        if self.exit_code is None:
            self.exit_code = code
