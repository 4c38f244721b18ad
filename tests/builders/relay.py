"""A relay on loopback between a process and a server, which injects a fault in one of the requests."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

LONGEST_HEAD = 1 << 20


class RequestPhase(StrEnum):
    """Name a moment in the life of a relayed request."""

    BEFORE = "before it is forwarded"
    SENT = "after it was forwarded and before its answer is passed on"
    ANSWERED = "after its answer"


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """Describe one request."""

    method: str
    path: str
    body: bytes


@dataclass(slots=True)
class InjectedFault:
    """Call `inject` once, in that moment of the first request that matches; then set `fired`."""

    matches: Callable[[RelayedRequest], bool]
    moment: RequestPhase
    inject: Callable[[], None]
    fired: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class RequestLimit:
    """Forward the first `count` requests that match, call `inject` once all of these are answered, then set `reached`.

    Later ones never reach the server, whether they come before or after that.
    """

    matches: Callable[[RelayedRequest], bool]
    count: int
    inject: Callable[[], None]
    reached: threading.Event = field(default_factory=threading.Event)
    _admitted: int = 0
    _answered: int = 0
    _limit_reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def admit(self) -> None:
        """Return for one of the first requests; raise _ConnectionClosed for a later one once the limit is reached."""
        if self._admitted == self.count:
            await self._limit_reached.wait()
            raise _ConnectionClosed
        self._admitted += 1

    def note_answer(self) -> None:
        """Count an answer; raise _ConnectionClosed at the last one, which is not passed on."""
        self._answered += 1
        if self._answered == self.count:
            self.inject()
            self._limit_reached.set()
            self.reached.set()
            raise _ConnectionClosed


class _ConnectionClosed(Exception):
    """One side closed, or a fault was injected: the relay forwards nothing more."""


class Relay:
    """Listen from `with` to its end, and forward to `upstream`, a URL.

    With `https`, `folder` has `ca.crt`, `server.crt` and `server.key`: of the server, and served with here too.
    """

    def __init__(self, upstream: str, folder: Path | None = None) -> None:
        self._url = urlsplit(upstream)
        self._serving = self._upstream_context = None
        if folder is not None:
            self._serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._serving.load_cert_chain(folder / "server.crt", folder / "server.key")
            self._upstream_context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"relay to {upstream}")
        self._ways: set[asyncio.Task[None]] = set()
        self.fault: InjectedFault | None = None
        self.limit: RequestLimit | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.url = f"{self._url.scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._serving, limit=LONGEST_HEAD)

    async def _close(self) -> None:
        self._server.close()
        for way in self._ways:
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection of the process over a new connection to the server."""
        way = asyncio.current_task()
        assert way is not None
        self._ways.add(way)
        writers = [writer]
        try:
            there, back = await asyncio.open_connection(
                self._url.hostname, self._url.port, ssl=self._upstream_context, limit=LONGEST_HEAD
            )
            writers.append(back)
            while True:
                await self._pass_one(reader, writer, there, back)
        except (_ConnectionClosed, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side closed, or the relay does
        finally:
            self._ways.discard(way)
            for one in writers:
                one.close()
            for one in writers:
                with suppress(OSError, asyncio.CancelledError):
                    await one.wait_closed()

    async def _pass_one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, *_ = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        body = b"".join([part async for part in _body(reader, head, answer=False)])
        request = RelayedRequest(method, path, body)
        due = self._matching_fault(request)
        limit = self.limit if self.limit is not None and self.limit.matches(request) else None
        if limit is not None:
            await limit.admit()
        if due is not None and due.moment is RequestPhase.BEFORE:
            _inject(due)
        back.write(head + body)
        await back.drain()
        first = await there.readuntil(b"\r\n\r\n")
        if limit is not None:
            limit.note_answer()
        if due is not None:
            rest = b"".join([part async for part in _body(there, first)])
            if due.moment is RequestPhase.ANSWERED:
                writer.write(first + rest)
                await writer.drain()
            _inject(due)
        writer.write(first)
        async for part in _body(there, first):
            writer.write(part)
            await writer.drain()
        await writer.drain()
        if _field(first, b"connection").lower() == b"close":
            raise _ConnectionClosed

    def _matching_fault(self, request: RelayedRequest) -> InjectedFault | None:
        fault = self.fault
        if fault is None or not fault.matches(request):
            return None
        self.fault = None
        return fault


def _inject(fault: InjectedFault) -> None:
    fault.inject()
    fault.fired.set()
    raise _ConnectionClosed


def _field(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""


async def _body(reader: asyncio.StreamReader, head: bytes, *, answer: bool = True) -> AsyncIterator[bytes]:
    """Yield the bytes behind a head as they arrive: a watch has no end."""
    if _field(head, b"transfer-encoding").lower() == b"chunked":
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            yield line + await reader.readexactly(size + 2)
            if not size:
                return
    length = _field(head, b"content-length")
    if length:
        yield await reader.readexactly(int(length))
    elif answer and head.split(b" ")[1] not in {b"204", b"304"}:
        while part := await reader.read(1 << 16):
            yield part
        raise _ConnectionClosed
