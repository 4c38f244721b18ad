"""A server that answers what a test writes, without end if need be, on virtual time; both clients can be led to it."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

from simulator.network.memory import Network

HOST, PORT = "hostile", 6820
URL = f"http://{HOST}:{PORT}"

Script = Callable[[], Iterable[bytes | float]]
"""Bytes to send, and seconds to wait; started again for each request."""


class HostileServer:
    """Listen in `network`.

    Attributes:
        requests: the bytes of each request.
        sent: bytes of answers.
        closed: connections that the client closed.
    """

    def __init__(self, script: Script) -> None:
        self.network = Network()
        self.script = script
        self.requests: list[bytes] = []
        self.sent = 0
        self.closed = 0
        self.network.listen(HOST, PORT, lambda: _Serving(self))


class _Serving(asyncio.Protocol):
    def __init__(self, server: HostileServer) -> None:
        self._server = server
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._server.requests.append(data)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._answer())

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._server.closed += 1
        if self._task is not None:
            self._task.cancel()

    async def _answer(self) -> None:
        for part in self._server.script():
            if isinstance(part, float):
                await asyncio.sleep(part)
                continue
            await self._writable.wait()
            self._transport.write(part)
            self._server.sent += len(part)
            await asyncio.sleep(0)


def answer(body: bytes, *, status: str = "200 OK", headers: str = "", length: int | None = None) -> bytes:
    """Return an answer as JSON, with its Content-Length or another one."""
    declared = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {declared}\r\n{headers}\r\n"
    return head.encode() + body


def endlessly(first: bytes, again: bytes) -> Script:
    """Return a script that sends `first` once, and `again` a hundred times a second without an end."""

    def script() -> Iterator[bytes | float]:
        yield first
        while True:
            yield again
            yield 0.01

    return script


@contextmanager
def memory_at_most(most: int) -> Iterator[None]:
    """Fail where Python holds more than `most` bytes at once than it held before: only new memory is traced."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= most, f"{peak} bytes were held at once"
