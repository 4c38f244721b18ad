"""Send requests to the addresses of slurmrestd: failover, deadlines, redirects, and the permission to write.

slurmrestd limits its clients (observed on 23.11 to 26.05): HTTP/1.1; a Content-Length, never chunks; never the header
`Connection: close`, after which it writes a stray line behind the body; few connections, since it serves 124 in all,
closes none that is idle, and lets the next one wait without limit.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from slurmclient.connection import LONGEST_BODY, Broken, CannotConnect, HttpResponse
from slurmclient.connection_pool import Base, ConnectionPool, ConnectionSlots, Dial, ExchangeTimeouts, Outgoing
from slurmclient.errors import ConnectError, TransportError
from slurmclient.exchange import Observe, Reply, Request
from slurmclient.tls import TlsOptions, no_tls

#: Returns whether a request that changes something may be sent; called before each part of it is handed over.
MayWrite = Callable[[], bool]


class ShieldRequest(Protocol):
    """Await a request that changes something; for example one that continues if its caller is cancelled."""

    async def __call__(self, request: Coroutine[Any, Any, Reply], /) -> Reply:
        """Return the reply."""
        ...


#: The largest number of connections of one client; slurmrestd serves 124 to all of its clients together.
MOST_CONNECTIONS: Final = 8

_NOT_MODIFIED: Final = 304
"""The only status from 300 to 399 that slurmrestd sends."""

_NOT_ALLOWED: Final = "not sent, since this process may not change anything now"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limit the parts of one exchange, in seconds.

    While slurmctld is down, slurmrestd answers some requests after 20 s, its own attempts included. `read_s` must be
    longer, or an outage of slurmctld looks like a lost answer.

    `acknowledged_s` is how long the other machine may leave bytes unacknowledged before the kernel gives them up
    (TCP_USER_TIMEOUT of tcp(7), where it exists); they cannot arrive later. None: the default of the machine, about a
    quarter of an hour.
    """

    connect_s: float = 5.0
    read_s: float = 30.0
    write_s: float = 30.0
    acknowledged_s: float | None = None

    def __post_init__(self) -> None:
        acknowledged_s = 1.0 if self.acknowledged_s is None else self.acknowledged_s
        if min(self.connect_s, self.write_s, acknowledged_s) <= 0:
            raise ValueError(f"{self}: time-outs are seconds greater than 0")
        if self.read_s < 25:
            raise ValueError(
                f"read_s={self.read_s}: at least 25, since slurmrestd may need 20 s to report that slurmctld is down"
            )


@dataclass(slots=True)
class _Route:
    """One address, and the connections that lead to it."""

    address: str
    base: Base
    pool: ConnectionPool


class Transport:
    """Send to the first address that accepts a connection, and keep using it until it fails.

    Args:
        addresses: `http://host:6820`, `https://host:6820/prefix`, `unix:///run/slurmrestd.socket`, in order of
            preference.
        dial: makes the connections; None: the sockets of the machine.
        tls: for https addresses.
        timeouts: for the parts of one exchange.
        connections: the largest number of requests at a time, and of connections to the TCP addresses together and to
            each unix socket.
        may_write: if it returns False, only reads are sent. A request of which only the head was sent loses its body
            and its connection, so that slurmrestd does not execute it. None: everything is sent.
        shield: awaits each request that changes something. None: such a request ends with its caller.
        longest_body: bytes of a response body; a longer one is an error, and its connection is closed.

    Raises:
        ValueError: there is no address, or one that cannot be parsed.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        dial: Dial | None = None,
        tls: TlsOptions | None = None,
        timeouts: Timeouts | None = None,
        connections: int = MOST_CONNECTIONS,
        may_write: MayWrite | None = None,
        shield: ShieldRequest | None = None,
        longest_body: int = LONGEST_BODY,
    ) -> None:
        if isinstance(addresses, str) or not addresses:
            raise ValueError(
                f"addresses={addresses!r}: give a list with at least one address, e.g. ['http://127.0.0.1:6820']"
            )
        if not 1 <= connections <= MOST_CONNECTIONS:
            raise ValueError(
                f"connections={connections}: between 1 and {MOST_CONNECTIONS}, since slurmrestd serves 124 in all"
            )
        if longest_body < 1:
            raise ValueError(f"longest_body={longest_body}: bytes, 1 or more")
        timeouts = timeouts or Timeouts()
        self._timeouts = ExchangeTimeouts(timeouts.connect_s, timeouts.read_s, timeouts.write_s)
        self._slots = ConnectionSlots(connections)
        self._may_write = may_write or _always
        self._shield = shield
        self._closed = False
        parsed = [_parse_address(address) for address in addresses]
        https = any(base.scheme == "https" for base, _ in parsed)
        tcp = ConnectionPool(
            (tls or TlsOptions()).ssl_context() if https else no_tls(),
            dial,
            acknowledged_s=timeouts.acknowledged_s,
            longest_body=longest_body,
        )
        self._routes = [
            _Route(address, base, ConnectionPool(no_tls(), dial, uds=path, longest_body=longest_body) if path else tcp)
            for address, (base, path) in zip(addresses, parsed, strict=True)
        ]
        self._current = 0
        self.observe: Observe = _ignore

    @property
    def address(self) -> str:
        """Return the address in use."""
        return self._routes[self._current].address

    def leave(self, address: str) -> None:
        """Prefer the next address from now on if `address` is in use: it answers, but cannot reach slurmctld."""
        if self.address == address:
            self._current = (self._current + 1) % len(self._routes)

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        """Exchange one request for one reply. If a connection cannot be made, try each other address once.

        Args:
            request: the request.
            headers: identity; sent as they are.
            deadline: loop time after which the exchange is given up.

        Raises:
            ConnectError: nothing was sent.
            TransportError: something may have been sent, and no complete reply came.
        """
        if self._shield is None or request.method == "GET":
            return await self._send(request, headers, deadline)
        return await self._shield(self._send(request, headers, deadline))

    async def _send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        if self._closed:
            raise ConnectError("this client is closed", endpoint=request.endpoint)
        failures: list[str] = []
        first = self._current
        cause: ConnectError | None = None
        for step in range(len(self._routes)):
            position = (first + step) % len(self._routes)
            route = self._routes[position]
            try:
                reply = await self._exchange(route, request, headers, deadline)
            except ConnectError as error:
                failures.append(f"{route.address}: {error.message}")
                cause = error
                continue
            except TransportError:
                # It accepts connections and loses requests: use another address next time.
                self._current = (position + 1) % len(self._routes)
                raise
            self._current = position
            return reply
        raise ConnectError(f"no connection to slurmrestd: {'; '.join(failures)}", endpoint=request.endpoint) from cause

    async def aclose(self) -> None:
        """Close every connection; nothing can be sent afterwards."""
        self._closed = True
        for pool in {id(route.pool): route.pool for route in self._routes}.values():
            await pool.aclose()

    async def _exchange(self, route: _Route, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        reads = request.method == "GET"
        if not reads and not self._may_write():
            raise ConnectError(_NOT_ALLOWED, endpoint=request.endpoint)
        if asyncio.get_running_loop().time() >= deadline:
            # A time-out that is over already would only take effect at the first await, after the request was sent.
            raise ConnectError("the deadline passed", endpoint=request.endpoint)
        status = 0
        progress = _Progress(_always if reads else self._may_write)
        try:
            async with asyncio.timeout_at(deadline), self._slots.slot(urgent=request.urgent):
                answer = await route.pool.exchange(self._outgoing(route, request, headers, progress))
            status = answer.status
            if 300 <= status < 400 and status != _NOT_MODIFIED:
                raise Broken(_redirected(answer))
        except CannotConnect as error:
            raise ConnectError(str(error), endpoint=request.endpoint) from error
        except Broken as error:
            raise progress.failure(str(error), request.endpoint) from error
        except TimeoutError as error:
            raise progress.failure("the deadline passed", request.endpoint) from error
        except _NotAllowed as error:
            raise ConnectError(_NOT_ALLOWED, endpoint=request.endpoint) from error
        finally:
            self.observe(request.method, request.path, status)
        return Reply(answer.status, answer.content_type, answer.body, route.address)

    def _outgoing(self, route: _Route, request: Request, headers: Mapping[str, str], progress: _Progress) -> Outgoing:
        target = request.path
        if request.query:
            target = f"{target}?{urlencode(request.query, quote_via=quote)}"
        sent = {"Accept": "application/json", "User-Agent": "slurmclient", **headers}
        if request.body is not None:
            sent["Content-Type"] = "application/json"
        return Outgoing(request.method, route.base, target, sent, request.body, self._timeouts, progress.sending)


class _NotAllowed(Exception):
    """The rest of the request was not sent."""


def _always() -> bool:
    return True


def _ignore(_method: str, _path: str, _status: int) -> None:
    """Observe nothing; the default."""


@dataclass(slots=True)
class _Progress:
    """Remember whether a byte of one request may have left this process."""

    may_send: MayWrite
    may_have_sent: bool = False

    def sending(self) -> None:
        """Note that bytes are about to be handed over. Raises _NotAllowed if they must not be."""
        if not self.may_send():
            raise _NotAllowed
        self.may_have_sent = True

    def failure(self, text: str, endpoint: str) -> TransportError:
        kind = TransportError if self.may_have_sent else ConnectError
        return kind(text, endpoint=endpoint)


def _parse_address(address: str) -> tuple[Base, str | None]:
    """Return where requests go, and the path of the unix socket."""
    try:
        if not address.isprintable() or re.search(r"\s", address):
            raise ValueError
        parts = urlsplit(address)
        port = parts.port
        host = (parts.hostname or "").partition("%")[0] and _ascii(parts.hostname or "")
    except ValueError:
        parts, port, host = urlsplit(""), None, ""
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return Base("http", "localhost", 80, "localhost"), parts.path
    unwanted = parts.query or parts.fragment or parts.username is not None or port == 0
    if parts.scheme in ("http", "https") and host and not unwanted:
        usual = 443 if parts.scheme == "https" else 80
        shown = f"[{host}]" if ":" in host else host
        authority = shown if port in (None, usual) else f"{shown}:{port}"
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return Base(parts.scheme, host, port or usual, authority, prefix), None
    raise ValueError(
        f"address {address!r} is not understood; write http://host:port, https://host:port or unix:///path/of/the.socket"
    )


def _ascii(host: str) -> str:
    """Return a host name as DNS stores it. Raises ValueError."""
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _redirected(answer: HttpResponse) -> str:
    return (
        f"the answer {answer.status} is a redirect to {answer.location or 'nowhere'!r}, which is not followed; "
        "set the address of slurmrestd itself"
    )
