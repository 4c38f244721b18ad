"""A server at the level of bytes, reached through memory: what it gets is kept, what it gives is scripted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

import httpcore

Options = Iterable[tuple[int, int, int | bytes] | tuple[int, int, None, int] | tuple[int, int, bytes | bytearray]]


class Act(Enum):
    """What a server does instead of answering."""

    HANG = auto()
    """Says nothing, for ever."""
    RESET = auto()
    """Breaks the connection."""
    CLOSE = auto()
    """Ends the connection in good order, without an answer."""


def ok(body: bytes, *, after: bytes = b"", close: bool = False) -> bytes:
    """An answer of slurmrestd's: Content-Length and Content-Type, nothing else; ``after`` stands behind the body."""
    line = b"Connection: Close\r\n" if close else b""
    head = b"HTTP/1.1 200 OK\r\n" + line + b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(body)
    return head + body + after


class ByteServer(httpcore.AsyncNetworkBackend):
    """Serves every address but the refused ones.

    Attributes:
        script: one answer or act for each request, in order; the last one is repeated.
        refused: addresses (``host:port`` or a path) that take no connection.
        silent: addresses whose connection is never established.
        requests: the bytes of each request.
        connections: where each connection went to.
        closed: how many of these were closed by the client.
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
        self.asked = asyncio.Event()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Options | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await self._connect(f"{host}:{port}", timeout)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        socket_options: Options | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await self._connect(path, timeout)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def next(self) -> bytes | Act:
        """Give the next answer or act."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    async def _connect(self, address: str, timeout_s: float | None) -> httpcore.AsyncNetworkStream:
        if address in self.refused:
            raise httpcore.ConnectError("connection refused")
        if address in self.silent:
            await asyncio.sleep(timeout_s or 0)
            raise httpcore.ConnectTimeout
        self.connections.append(address)
        self.open_at_once = max(self.open_at_once, len(self.connections) - self.closed)
        return _Stream(self)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, server: ByteServer) -> None:
        self._server = server
        self._in = b""
        self._out = b""
        self._ended = False
        self._closed = False

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's interface
        self._in += buffer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's interface
        await asyncio.sleep(0)
        if not self._out and not self._ended:
            await self._serve(timeout)
        given, self._out = self._out[:max_bytes], self._out[max_bytes:]
        return given

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.closed += 1

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
    ) -> httpcore.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return (self._ended or bool(self._out)) if info == "is_readable" else None

    async def _serve(self, timeout_s: float | None) -> None:
        head, _, body = self._in.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        assert len(body) == length, "the client awaits an answer to a request that it has not sent whole"
        self._server.requests.append(self._in)
        self._server.asked.set()
        self._in = b""
        match self._server.next():
            case bytes() as answer:
                self._out = answer
            case Act.HANG:
                await asyncio.sleep(timeout_s or 0)
                raise httpcore.ReadTimeout
            case Act.RESET:
                raise httpcore.ReadError("connection reset by peer")
            case Act.CLOSE:
                self._ended = True


@contextmanager
def deaf_server() -> Iterator[int]:
    """A port of loopback whose connections are made, and of whose bytes hardly any are taken."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server.bind(("127.0.0.1", 0))
        server.listen(4)
        yield server.getsockname()[1]
