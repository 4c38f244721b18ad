"""Keep connections between requests, and limit how many requests are under way."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from slurmclient.connection import LONGEST_BODY, Broken, CannotConnect, Connection, HttpResponse

#: Seconds for which an unused connection is kept.
KEPT_FOR_S: Final = 60.0

_CLOSED: Final = "this client is closed"


class Dial(Protocol):
    """Make a connection in place of the sockets of the machine, as `loop.create_connection` does."""

    async def __call__(
        self, protocol_factory: Callable[[], Connection], host: str, port: int, /
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Connect to an address. For a unix socket `host` is its path and `port` is 0.

        Raises:
            OSError: there is no connection.
        """
        ...


@dataclass(frozen=True, slots=True)
class Base:
    """The part of a URL that all requests to one address share, encoded and in lower case.

    Attributes:
        scheme: `http` or `https`.
        host: a name, or an IP address without brackets.
        port: the port of the address, or the default one of the scheme.
        authority: the header Host.
        prefix: of every path.
    """

    scheme: str
    host: str
    port: int
    authority: str
    prefix: str = ""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Return the endpoint of a connection."""
        return self.scheme, self.host, self.port


@dataclass(frozen=True, slots=True)
class ExchangeTimeouts:
    """Seconds for the parts of an exchange; see :class:`slurmclient.transport.Timeouts`."""

    connect_s: float
    read_s: float
    write_s: float


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request to one address.

    Attributes:
        method: HTTP method.
        base: the address.
        target: path behind the prefix, and query; encoded.
        headers: all but Host and Content-Length.
        body: None: no body.
        timeouts: for the parts of the exchange.
        sending: called just before the first byte is handed over; if it raises, no byte is sent.
    """

    method: str
    base: Base
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    timeouts: ExchangeTimeouts
    sending: Callable[[], None]

    def encode(self) -> bytes:
        """Return the whole request in the format of HTTP/1.1.

        Raises:
            Broken: a header cannot be encoded.
        """
        base = self.base
        lines = [f"{self.method} {base.prefix}{self.target} HTTP/1.1", f"Host: {base.authority}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        for line in lines:
            if not line.isprintable():
                raise Broken(f"the header {line.partition(':')[0]!r} has a line break or another control character")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head if self.body is None else head + self.body


class ConnectionSlots:
    """Let a limited number of requests be under way. Urgent ones overtake all others that wait."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self, *, urgent: bool) -> AsyncIterator[None]:
        """Wait for a slot and keep it while inside."""
        if self._free:  # nothing waits then
            self._free -= 1
        else:
            await self._wait(self._urgent if urgent else self._others)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, queue: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                queue.remove(turn)
            else:
                self._release()  # the slot was assigned in the same turn of the loop in which the request was cancelled
            raise

    def _release(self) -> None:
        for queue in (self._urgent, self._others):
            for turn in queue:
                if not turn.done():
                    queue.remove(turn)
                    turn.set_result(None)
                    return
        self._free += 1


class ConnectionPool:
    """Connections over TCP, or to one unix socket. The one that was used last is used next.

    The caller limits the number of exchanges; the pool opens a connection for each.

    Args:
        context: for https addresses.
        dial: None: the sockets of the machine.
        uds: path of the unix socket; None: TCP.
        acknowledged_s: see :class:`slurmclient.transport.Timeouts`.
        longest_body: bytes of a response body; a longer one is an error.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        dial: Dial | None,
        *,
        uds: str | None = None,
        acknowledged_s: float | None = None,
        longest_body: int = LONGEST_BODY,
    ) -> None:
        self._context = context
        self._dial = dial
        self._uds = uds
        self._acknowledged_s = acknowledged_s
        self._longest_body = longest_body
        self._open: set[Connection] = set()
        self._unused: list[tuple[float, Connection]] = []
        """The unused ones, and when each is closed; the one that was used last is the last."""

        self._closed = False

    async def exchange(self, out: Outgoing) -> HttpResponse:
        """Exchange one request for one complete answer.

        Raises :class:`CannotConnect` or :class:`Broken`, and what `out.sending` raises.
        """
        request = out.encode()
        connection = await self._take(out)
        try:
            return await connection.exchange(
                request, out.sending, write_s=out.timeouts.write_s, read_s=out.timeouts.read_s
            )
        finally:
            if connection.usable:
                self._unused.append((asyncio.get_running_loop().time() + KEPT_FOR_S, connection))
            else:
                self._discard(connection)

    async def aclose(self) -> None:
        """Close every connection, also those in use, and those that are being made as soon as they exist."""
        self._closed = True
        self._unused.clear()
        closing = [connection.closed for connection in self._open]
        for connection in tuple(self._open):
            self._discard(connection)
        if closing:
            await asyncio.wait(closing)

    async def _take(self, out: Outgoing) -> Connection:
        if self._closed:
            raise CannotConnect(_CLOSED)
        now = asyncio.get_running_loop().time()
        while self._unused and self._unused[0][0] <= now:
            self._discard(self._unused.pop(0)[1])
        while self._unused:
            _, connection = self._unused.pop()
            if connection.origin == out.base.origin and connection.usable:
                return connection
            self._discard(connection)
        connect_s = out.timeouts.connect_s
        try:
            async with asyncio.timeout(connect_s):
                made = await self._connect(out.base, connect_s)
        except TimeoutError as error:
            raise CannotConnect(f"no connection within {connect_s:g} s") from error
        except (OSError, ValueError) as error:
            raise CannotConnect(f"{type(error).__name__}: {error}") from error
        self._open.add(made)
        if self._closed:
            self._discard(made)
            raise CannotConnect(_CLOSED)
        return made

    async def _connect(self, base: Base, within_s: float) -> Connection:
        loop = asyncio.get_running_loop()

        def protocol() -> Connection:
            return Connection(base.origin, self._longest_body)

        if self._dial is not None:
            _, made = await self._dial(protocol, self._uds or base.host, 0 if self._uds else base.port)
            return made
        if self._uds is not None:
            _, made = await loop.create_unix_connection(protocol, self._uds)
            return made
        transport, made = await self._connect_by_name(base, protocol, loop.time() + within_s)
        if self._acknowledged_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connected = transport.get_extra_info("socket")
            milliseconds = min(max(1, int(self._acknowledged_s * 1000)), 2**31 - 1)  # 0 means the machine's default
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            except BaseException:
                made.abort()
                raise
        return made

    async def _connect_by_name(
        self, base: Base, protocol: Callable[[], Connection], deadline: float
    ) -> tuple[asyncio.Transport, Connection]:
        """Try the IP addresses of a name in turn, each for its share of the time: one may drop every packet."""
        loop = asyncio.get_running_loop()
        context, name = (self._context, base.host) if base.scheme == "https" else (None, None)
        failures: list[OSError] = []
        found = await loop.getaddrinfo(base.host, base.port, type=socket.SOCK_STREAM)
        for position, (family, _, _, _, address) in enumerate(found):
            host = base.host if "%" in base.host else str(address[0])  # not every loop returns the scope of IPv6
            at = loop.time() + (deadline - loop.time()) / (len(found) - position)
            try:
                async with asyncio.timeout_at(at):
                    return await loop.create_connection(
                        protocol, host, base.port, family=family, ssl=context, server_hostname=name
                    )
            except TimeoutError:
                failures.append(TimeoutError(f"{host} did not answer in time"))
            except OSError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise OSError("; ".join(str(error) for error in failures))

    def _discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()
