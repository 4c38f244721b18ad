"""Connections that are kept between requests: the last one that was given back is the next to be used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from slurmclient.connection import LONGEST_BODY, Broken, CannotConnect, Connection, HttpResponse

#: Seconds for which a connection is kept that nobody uses.
KEPT_FOR_S: Final = 60.0

_OVER: Final = "this client is closed"


class Dial(Protocol):
    """Makes a connection in place of the machine's sockets, as ``loop.create_connection`` does."""

    async def __call__(
        self, protocol_factory: Callable[[], Connection], host: str, port: int, /
    ) -> tuple[asyncio.BaseTransport, Connection]:
        """Connect to an address; to a unix socket, where ``port`` is 0: ``host`` is its path then.

        Raises:
            OSError: there is no connection.
        """
        ...


@dataclass(frozen=True, slots=True)
class Base:
    """Where requests go, as HTTP wants it: encoded and in lower case.

    Attributes:
        scheme: ``http`` or ``https``.
        host: a name, or an IP address without brackets.
        port: as said, or the scheme's own.
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
        """What a connection is made to."""
        return self.scheme, self.host, self.port


@dataclass(frozen=True, slots=True)
class ExchangeTimeouts:
    """Seconds for the parts of an exchange; see :class:`slurmclient.transport.Timeouts`."""

    connect_s: float
    read_s: float
    write_s: float


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request as it goes to one address.

    Attributes:
        method: HTTP's.
        base: the address.
        target: path behind the prefix, and query; encoded.
        headers: all but Host and Content-Length.
        body: None for none.
        patience: for its parts.
        sending: called just before the first byte is handed over; what it raises keeps all of them from being sent.
    """

    method: str
    base: Base
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    patience: ExchangeTimeouts
    sending: Callable[[], None]

    def framed(self) -> bytes:
        """Give the whole request as HTTP/1.1 writes it.

        Raises:
            Broken: a header cannot be written.
        """
        base = self.base
        lines = [f"{self.method} {base.prefix}{self.target} HTTP/1.1", f"Host: {base.authority}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        for line in lines:
            if not line.isprintable():
                raise Broken(f"the header {line.partition(':')[0]!r} has a line break or the like")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head if self.body is None else head + self.body


class ConnectionPool:
    """TCP connections, or those to one unix socket. Who uses it sees to it that not too many exchanges are under way.

    Args:
        context: for https addresses.
        dial: None for the machine's sockets.
        uds: path of the unix socket; None for TCP.
        acknowledged_s: as in :class:`slurmclient.transport.Timeouts`.
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
        self._kept: list[tuple[float, Connection]] = []
        """Those that nobody uses, and until when they are kept; the one that was used last is the last."""

        self._over = False

    async def exchange(self, out: Outgoing) -> HttpResponse:
        """Exchange one request for one whole answer.

        Raises :class:`CannotConnect` or :class:`Broken`, and what ``out.sending`` does.
        """
        request = out.framed()
        connection = await self._take(out)
        try:
            return await connection.exchange(
                request, out.sending, write_s=out.patience.write_s, read_s=out.patience.read_s
            )
        finally:
            if connection.usable:
                self._kept.append((asyncio.get_running_loop().time() + KEPT_FOR_S, connection))
            else:
                self._close(connection)

    async def aclose(self) -> None:
        """Close every connection, those in use too, and those that are being made once they are there."""
        self._over = True
        self._kept.clear()
        closing = [connection.closed for connection in self._open]
        for connection in tuple(self._open):
            self._close(connection)
        if closing:
            await asyncio.wait(closing)

    async def _take(self, out: Outgoing) -> Connection:
        if self._over:
            raise CannotConnect(_OVER)
        now = asyncio.get_running_loop().time()
        while self._kept and self._kept[0][0] <= now:
            self._close(self._kept.pop(0)[1])
        while self._kept:
            _, connection = self._kept.pop()
            if connection.origin == out.base.origin and connection.usable:
                return connection
            self._close(connection)
        try:
            async with asyncio.timeout(out.patience.connect_s):
                made = await self._connect(out.base, out.patience.connect_s)
        except TimeoutError as error:
            raise CannotConnect(f"no connection within {out.patience.connect_s:g} s") from error
        except (OSError, ValueError) as error:
            raise CannotConnect(f"{type(error).__name__}: {error}") from error
        self._open.add(made)
        if self._over:
            self._close(made)
            raise CannotConnect(_OVER)
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
        transport, made = await self._reach(base, protocol, loop.time() + within_s)
        if self._acknowledged_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connected = transport.get_extra_info("socket")
            milliseconds = min(max(1, int(self._acknowledged_s * 1000)), 2**31 - 1)  # 0 would be the machine's own
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            except BaseException:
                made.abort()
                raise
        return made

    async def _reach(
        self, base: Base, protocol: Callable[[], Connection], deadline: float
    ) -> tuple[asyncio.Transport, Connection]:
        """Try the addresses of a name in turn, each for its part of the time: one may swallow what is sent to it."""
        loop = asyncio.get_running_loop()
        context, name = (self._context, base.host) if base.scheme == "https" else (None, None)
        failures: list[OSError] = []
        found = await loop.getaddrinfo(base.host, base.port, type=socket.SOCK_STREAM)
        for position, (family, _, _, _, address) in enumerate(found):
            host = base.host if "%" in base.host else str(address[0])  # not every loop tells of the scope of IPv6
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

    def _close(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.abort()
