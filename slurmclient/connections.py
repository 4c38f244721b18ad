"""Connections that are kept between requests: httpcore's, taken and given back in turn. Only this file knows httpcore.

httpcore's own pool looks at every connection for every request that begins or ends, and asks the kernel about each:
with eight under way that costs more than all the rest. Here the last one that was given back is the next to be used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpcore

#: Byte streams for connections to run on.
NetworkBackend = httpcore.AsyncNetworkBackend

#: Told by httpcore what it is about to do; what it raises ends the exchange.
Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]

#: Nothing was sent.
NOT_CONNECTED: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol)

#: Something may have been sent, and no whole answer came.
BROKEN: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)

#: Seconds for which a connection is kept that nobody uses.
KEPT_FOR_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Base:
    """Where requests go, as HTTP wants it: encoded and in lower case.

    Attributes:
        scheme: ``http`` or ``https``.
        host: a name, or an IP address without brackets.
        port: None for the scheme's own.
        authority: the header Host.
        prefix: of every path.
    """

    scheme: bytes
    host: bytes
    port: int | None
    authority: bytes
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request as it goes to one address.

    Attributes:
        method: HTTP's.
        base: the address.
        target: path behind the prefix, and query; encoded.
        headers: all but Host and Content-Length.
        body: None for none.
        timeouts: seconds for the parts ``connect``, ``read`` and ``write``.
        trace: see :data:`Trace`.
    """

    method: str
    base: Base
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    timeouts: Mapping[str, float | None]
    trace: Trace

    def framed(self) -> list[tuple[bytes, bytes]]:
        """Give the headers with those that HTTP/1.1 itself wants."""
        framed = [(b"Host", self.base.authority)]
        framed += [(name.encode("ascii"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.body is not None:
            framed.append((b"Content-Length", b"%d" % len(self.body)))
        return framed


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: HTTP's status, the header Content-Type and the whole body."""

    status: int
    content_type: str
    body: bytes


class Connections:
    """TCP connections, or those to one unix socket. Who uses it sees to it that not too many exchanges are under way.

    Args:
        context: for https addresses.
        backend: None for the machine's sockets.
        uds: path of the unix socket; None for TCP.
        acknowledged_s: as in :class:`slurmclient.transport.Timeouts`.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        backend: NetworkBackend | None,
        *,
        uds: str | None = None,
        acknowledged_s: float | None = None,
    ) -> None:
        self._context = context
        self._backend = backend
        self._uds = uds
        self._options: list[tuple[int, int, int]] = []
        if acknowledged_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            self._options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(acknowledged_s * 1000)))
        self._open: set[httpcore.AsyncHTTPConnection] = set()
        self._kept: list[tuple[float, httpcore.AsyncHTTPConnection]] = []
        """Those that nobody uses, and until when they are kept; the one that was used last is the last."""

    async def exchange(self, out: Outgoing) -> Answer:
        """Exchange one request for one whole answer.

        Raises one of `NOT_CONNECTED` or `BROKEN`, and what `trace` does.
        """
        base = out.base
        url = httpcore.URL(scheme=base.scheme, host=base.host, port=base.port, target=base.prefix + out.target)
        connection = await self._take(url.origin)
        try:
            sending = httpcore.Request(
                out.method,
                url,
                headers=out.framed(),
                content=out.body,
                extensions={"timeout": dict(out.timeouts), "trace": out.trace},
            )
            response = await connection.handle_async_request(sending)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        finally:
            await self._give(connection)
        content_type = next((value for name, value in response.headers if name.lower() == b"content-type"), b"")
        return Answer(response.status, content_type.decode("latin-1"), body)

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._kept.clear()
        for connection in tuple(self._open):
            await self._close(connection)

    async def _take(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        now = asyncio.get_running_loop().time()
        while self._kept and self._kept[0][0] <= now:
            await self._close(self._kept.pop(0)[1])
        while self._kept:
            _, connection = self._kept.pop()
            if connection.can_handle_request(origin) and not connection.has_expired():
                return connection
            await self._close(connection)
        made = httpcore.AsyncHTTPConnection(
            origin, self._context, uds=self._uds, network_backend=self._backend, socket_options=self._options
        )
        self._open.add(made)
        return made

    async def _give(self, connection: httpcore.AsyncHTTPConnection) -> None:
        if connection.is_available() and connection in self._open:
            self._kept.append((asyncio.get_running_loop().time() + KEPT_FOR_S, connection))
        else:
            await self._close(connection)

    async def _close(self, connection: httpcore.AsyncHTTPConnection) -> None:
        self._open.discard(connection)
        if not connection.is_closed():
            await connection.aclose()
