"""A server at the level of bytes, reached through memory: what it gets is kept, what it gives is scripted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from slurmclient.connection import Connection


class Act(Enum):
    """Name the behaviour of a server that does not answer as it should."""

    HANG = auto()
    """Sends nothing, without an end."""
    RESET = auto()
    """Breaks the connection."""
    CLOSE = auto()
    """Ends the connection in good order, without an answer."""


def ok(body: bytes, *, after: bytes = b"", close: bool = False) -> bytes:
    """Return an answer of slurmrestd: Content-Length and Content-Type only; ``after`` follows the body."""
    line = b"Connection: Close\r\n" if close else b""
    head = b"HTTP/1.1 200 OK\r\n" + line + b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(body)
    return head + body + after


class ByteServer:
    """Serve every address except the refused ones; called as a `Dial`.

    Attributes:
        script: one answer or act for each request, in order; the last one is repeated.
        refused: addresses (``host:port`` or a path) that take no connection.
        silent: addresses whose connection is never established.
        requests: the bytes of each request.
        connections: where each connection went to.
        closed: how many of these are closed.
        asked: set once a request came in.
    """

    def __init__(self, *script: bytes | Act) -> None:
        self.script = list(script)
        self.refused: set[str] = set()
        self.silent: set[str] = set()
        self.requests: list[bytes] = []
        self.connections: list[str] = []
        self.closed = 0
        self.open_at_once = 0
        self.received = asyncio.Event()

    async def __call__(
        self, protocol_factory: Callable[[], Connection], host: str, port: int, /
    ) -> tuple[asyncio.BaseTransport, Connection]:
        address = f"{host}:{port}" if port else host
        if address in self.refused:
            raise ConnectionRefusedError("connection refused")
        if address in self.silent:
            await asyncio.Event().wait()
        self.connections.append(address)
        self.open_at_once = max(self.open_at_once, len(self.connections) - self.closed)
        protocol = protocol_factory()
        wire = _Wire(self, protocol)
        protocol.connection_made(wire)
        return wire, protocol

    def next(self) -> bytes | Act:
        """Give the next answer or act."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


class _Wire(asyncio.Transport):
    """The client's end of one connection."""

    def __init__(self, server: ByteServer, protocol: Connection) -> None:
        super().__init__()
        self._server = server
        self._protocol = protocol
        self._in = b""
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._in += data
        head, _, body = self._in.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        assert len(body) == length, "a request is written in one piece"
        self._server.requests.append(self._in)
        self._in = b""
        asyncio.get_running_loop().call_soon(self._serve)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _serve(self) -> None:
        self._server.received.set()
        match self._server.next():
            case bytes() as answer if not self._closed:
                self._protocol.data_received(answer)
            case Act.RESET:
                self._end(ConnectionResetError("connection reset by peer"))
            case Act.CLOSE:
                self._protocol.eof_received()
                self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self._server.closed += 1
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, error)


@contextmanager
def deaf_server() -> Iterator[int]:
    """Serve a port of loopback that accepts connections, and reads hardly any of their bytes."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen(4)
        yield server.getsockname()[1]
