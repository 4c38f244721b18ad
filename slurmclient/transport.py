"""Bytes to slurmrestd and back: addresses, failover, TLS, unix sockets, time-outs. The only file that knows httpx.

What slurmrestd needs of its client (observed on 23.11 to 26.05): HTTP/1.1; a Content-Length, never chunks; never
``Connection: close`` (it then writes a stray line behind the body); few connections (it serves 124 and drops none
for idleness, the next one waits for ever). Any reply other than 2xx and 304 closes its connection, and some are
followed by a second text: the reader stops at Content-Length.

The byte streams are an argument: either a whole httpx transport (``httpx.MockTransport``, ``httpx.ASGITransport``),
or a function that makes connections, for servers reached through memory on virtual time.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

import httpx

from slurmclient.connection import LONGEST_BODY, LONGEST_LOCATION, Broken, CannotConnect, HttpResponse, too_long
from slurmclient.connections import Base, ConnectionPool, Dial, ExchangeTimeouts, Outgoing
from slurmclient.errors import ConnectError, TransportError
from slurmclient.exchange import Reply, Request
from slurmclient.places import Places
from slurmclient.tls import TlsOptions, no_tls

#: A whole HTTP transport to use in place of connections, e.g. ``httpx.MockTransport(handler)``.
HttpTransport = httpx.AsyncBaseTransport

#: Asked before each part of a request that changes something is handed over to its connection.
MayWrite = Callable[[], bool]


class ShieldRequest(Protocol):
    """Awaits a request that changes something; one that goes on where who waits for it is cancelled, for example."""

    async def __call__(self, request: Coroutine[Any, Any, Reply], /) -> Reply:
        """Give its reply."""
        ...


#: Told of each exchange: method, path, and the status of the reply; 0: there was none.
Observe = Callable[[str, str, int], None]

#: slurmrestd serves 124 connections in all and never times one out; a client must be content with few.
MOST_CONNECTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the parts of one exchange may take, in seconds.

    With slurmctld away slurmrestd answers some requests after 20 s (its own tries included); ``read`` must be
    longer, or an outage looks like a lost answer.

    ``acknowledged_s`` is how long the other machine may not have acknowledged bytes before the kernel gives them up
    (TCP_USER_TIMEOUT of tcp(7), where there is such an option): they do not arrive later than that. None: a quarter of
    an hour, or what else the machine is set to.
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
                f"read_s={self.read_s}: at least 25, since slurmrestd may take 20 s to say that slurmctld is away"
            )


class _Line(Protocol):
    """What reaches addresses of one kind."""

    async def exchange(self, out: Outgoing) -> HttpResponse: ...

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class _Route:
    """One address and what reaches it."""

    address: str
    base: Base
    line: _Line


class Transport:
    """Sends to the first address that can be connected to, and stays with it until it fails.

    Args:
        addresses: ``http://host:6820``, ``https://host:6820/prefix``, ``unix:///run/slurmrestd.socket``, in order of
            preference.
        transport: used for every address instead of connections; closed with this object.
        dial: makes the connections; None for the machine's sockets.
        tls: for https addresses.
        timeouts: for the parts of one exchange.
        connections: at most so many connections at a time for each of: all TCP addresses together, each unix socket.
        may_write: where it says no, nothing but a read is sent; a request of which the head is out already loses its
            body, and with it its connection, so that slurmrestd does not carry it out. None: everything is sent.
        carry: awaits each request that changes something. None: as it is, so that one ends with who waits for it.
        longest_body: bytes of a response body; a longer one is an error, and its connection is closed.

    Raises:
        ValueError: no address, or one that cannot be understood.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        transport: HttpTransport | None = None,
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
                f"connections={connections}: between 1 and {MOST_CONNECTIONS}, slurmrestd serves 124 for everybody"
            )
        if longest_body < 1:
            raise ValueError(f"longest_body={longest_body}: bytes, 1 or more")
        if transport is not None and dial is not None:
            raise ValueError("give either a transport or a dial, not both")
        self._timeouts = timeouts or Timeouts()
        self._places = Places(connections)
        self._traced = transport is None
        self._closed = False
        self._may_write = may_write or _always
        self._shield = shield
        timeouts = self._timeouts
        self._patience = ExchangeTimeouts(timeouts.connect_s, timeouts.read_s, timeouts.write_s)
        split = [_split_address(address) for address in addresses]
        tcp: _Line | None = None if transport is None else _Mounted(transport, longest_body)
        self._routes: list[_Route] = []
        for address, (base, path) in zip(addresses, split, strict=True):
            chosen: _Line
            if path is not None and transport is None:
                chosen = ConnectionPool(no_tls(), dial, uds=path, longest_body=longest_body)
            else:
                if tcp is None:
                    https = any(urlsplit(base).scheme == "https" for base, _ in split)
                    context = (tls or TlsOptions()).ssl_context() if https else no_tls()
                    tcp = ConnectionPool(
                        context, dial, acknowledged_s=self._timeouts.acknowledged_s, longest_body=longest_body
                    )
                chosen = tcp
            self._routes.append(_Route(address, _base(base), chosen))
        self._current = 0
        self.observe: Observe = _unobserved

    @property
    def address(self) -> str:
        """The address in use."""
        return self._routes[self._current].address

    def leave(self, address: str) -> None:
        """Prefer the next address from now on, if this one is in use: it answers, but is of no use."""
        if self.address == address:
            self._current = (self._current + 1) % len(self._routes)

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        """Exchange one request for one reply; on a failed connection, try each other address once.

        Args:
            request: what to send.
            headers: identity; sent as they are.
            deadline: loop time at which to give up.

        Raises:
            ConnectError: surely nothing was sent.
            TransportError: something may have been sent, and no whole reply came.
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
                # It takes connections and loses requests: begin with another one next time.
                self._current = (position + 1) % len(self._routes)
                raise
            self._current = position
            return reply
        raise ConnectError(f"no connection to slurmrestd: {'; '.join(failures)}", endpoint=request.endpoint) from cause

    async def aclose(self) -> None:
        """Close every connection; nothing can be sent afterwards."""
        self._closed = True
        for line in {id(route.line): route.line for route in self._routes}.values():
            await line.aclose()

    async def _exchange(self, route: _Route, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        reads = request.method == "GET"
        if not reads and not self._may_write():
            raise ConnectError(_NOT_ALLOWED, endpoint=request.endpoint)
        if asyncio.get_running_loop().time() >= deadline:
            # A time-out of that moment would act only where something is waited for: once the request is out.
            raise ConnectError("the deadline passed", endpoint=request.endpoint)
        status = 0
        progress = _Progress(not self._traced, _always if reads else self._may_write)
        try:
            async with asyncio.timeout_at(deadline), self._places.place(first=request.first):
                answer = await route.line.exchange(self._outgoing(route, request, headers, progress))
            status = answer.status
            if 300 <= status < 400 and status != _NOT_MODIFIED:
                raise Broken(_redirected(answer))
        except (CannotConnect, *_NOT_MOUNTED) as error:
            raise ConnectError(_say(error), endpoint=request.endpoint) from error
        except (Broken, httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
            raise progress.failure(_say(error), request.endpoint) from error
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
        return Outgoing(request.method, route.base, target, sent, request.body, self._patience, progress.sending)


_NOT_MOUNTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
"""A mounted transport sent nothing."""

_NOT_MODIFIED: Final = 304
"""The one status between 300 and 399 that slurmrestd sends."""

_NOT_ALLOWED: Final = "not sent, since this process may not change anything now"


class _NotAllowed(Exception):
    """The rest of the request was not sent."""


def _always() -> bool:
    return True


def _unobserved(_method: str, _path: str, _status: int) -> None:
    """For who does not count requests."""


@dataclass(slots=True)
class _Progress:
    """Whether any byte of a request may be on its way.

    Attributes:
        may_have_sent: so far.
        may_send: whether more may be.
    """

    may_have_sent: bool
    may_send: MayWrite

    def sending(self) -> None:
        """The next bytes are about to be handed over."""
        if not self.may_send():
            raise _NotAllowed
        self.may_have_sent = True

    def failure(self, text: str, endpoint: str) -> TransportError:
        kind = TransportError if self.may_have_sent else ConnectError
        return kind(text, endpoint=endpoint)


class _Mounted:
    """A given httpx transport. Its time-out for a place is the deadline."""

    def __init__(self, transport: HttpTransport, longest_body: int) -> None:
        self._transport = transport
        self._longest_body = longest_body

    async def exchange(self, out: Outgoing) -> HttpResponse:
        base, patience = out.base, out.patience
        url = f"{base.scheme}://{base.authority}{base.prefix}{out.target}"
        parts = ("send_request_headers.started",) + (("send_request_body.started",) if out.body else ())
        timeouts = {"connect": patience.connect_s, "read": patience.read_s, "write": patience.write_s, "pool": None}

        async def trace(event: str, _info: Mapping[str, object]) -> None:
            # httpcore tells of head and body before either, and nothing waits between that and the write. It tells of
            # a body where there is none, too: the request is out by then.
            if event.endswith(parts):
                out.sending()

        extensions: dict[str, object] = {"timeout": timeouts, "trace": trace}
        sending = httpx.Request(out.method, url, headers=dict(out.headers), content=out.body, extensions=extensions)
        response = await self._transport.handle_async_request(sending)
        body = io.BytesIO()
        try:
            async for part in response.aiter_bytes():
                body.write(part)
                if body.tell() > self._longest_body:
                    raise Broken(too_long(self._longest_body))
        finally:
            await response.aclose()
        headers = response.headers
        location = headers.get("location", "")[:LONGEST_LOCATION]
        return HttpResponse(response.status_code, headers.get("content-type", ""), body.getvalue(), location)

    async def aclose(self) -> None:
        await self._transport.aclose()


def _base(text: str) -> Base:
    url = httpx.URL(text)
    port = url.port or (443 if url.scheme == "https" else 80)
    host, authority = url.raw_host.decode("ascii"), url.netloc.decode("ascii")
    return Base(url.scheme, host, port, authority, url.raw_path.decode("ascii").rstrip("/"))


def _split_address(address: str) -> tuple[str, str | None]:
    """Give the base URL and the unix socket of an address."""
    try:
        parts = urlsplit(address)
        httpx.URL(address)
        usable = parts.port is None or parts.port > 0
    except (ValueError, httpx.InvalidURL):
        parts, usable = urlsplit(""), False
    if usable and parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return "http://localhost", parts.path
    if (
        usable
        and parts.scheme in ("http", "https")
        and parts.hostname
        and not (parts.query or parts.fragment or parts.username)
    ):
        return address.rstrip("/"), None
    raise ValueError(
        f"address {address!r} is not understood; write http://host:port, https://host:port or unix:///path/of/the.socket"
    )


def _redirected(answer: HttpResponse) -> str:
    return (
        f"the answer {answer.status} is a redirect to {answer.location or 'nowhere'!r}, which is not followed; "
        "set the address of slurmrestd itself"
    )


def _say(error: Exception) -> str:
    if isinstance(error, CannotConnect | Broken):
        return str(error)
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name
