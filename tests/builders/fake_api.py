"""A fake API server that listens in memory, and a connection to it, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from extender.kube.answers import BOUNDS, ResponseLimits
from extender.kube.connection import ApiConnection, connect_plainly
from simulator.kube.app import ApiServerApp
from simulator.kube.resources import BUILT_IN, Resource
from simulator.kube.server import FakeApiServer
from simulator.network.aiohttp_connector import MemoryConnector
from simulator.network.asgi_server import serve
from simulator.network.memory import Network

HOST, PORT = "apiserver", 6443
URL = f"http://{HOST}:{PORT}"

EPOCH = 1_767_225_600.0
"""2026-01-01T00:00:00Z: the wall clock when the loop's is 0."""


class LoopClock:
    """`ports.Clock` on the loop's time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return EPOCH + self.now()


@dataclass(frozen=True, slots=True)
class FakeApi:
    """The parts of a served fake API server."""

    network: Network
    server: FakeApiServer
    app: ApiServerApp
    connection: ApiConnection
    clock: LoopClock

    def cut(self) -> None:
        """Lose every connection."""
        self.network.cut(HOST, PORT)

    def refuse(self, refused: bool = True) -> None:
        """Refuse new connections, or accept them again."""
        self.network.refuse(HOST, PORT, refused)

    def stall(self) -> None:
        """Hold every byte."""
        self.network.stall(HOST, PORT)

    def resume(self) -> None:
        """Let every byte go on."""
        self.network.resume(HOST, PORT)

    def cut_after(self, count: int) -> None:
        """Cut the connection that carries the byte after `count` more of the server's."""
        self.network.cut_after(HOST, PORT, count)

    @property
    def connections(self) -> int:
        """Open connections."""
        return self.network.connections(HOST, PORT)


@asynccontextmanager
async def fake_api(
    token: Callable[[], str] = lambda: "a-token",
    resources: tuple[Resource, ...] = BUILT_IN,
    bounds: ResponseLimits = BOUNDS,
) -> AsyncIterator[FakeApi]:
    """Serve one; the connection and the server are closed at the end."""
    network, clock = Network(), LoopClock()
    server = FakeApiServer(clock.wall, resources=resources)
    app = ApiServerApp(server)
    async with serve(network, app, HOST, PORT):
        connection = connect_plainly(URL, token, lambda: MemoryConnector(network), bounds=bounds)
        try:
            yield FakeApi(network, server, app, connection, clock)
        finally:
            await connection.close()


@asynccontextmanager
async def running(work: Awaitable[None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task for as long as the context; raise its error at the end."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def a_rng() -> random.Random:
    """Randomness that repeats."""
    return random.Random(1)
