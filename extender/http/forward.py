"""Forward calls that only the leader can answer, or hold them while there is no leader.

All of them may be sent twice: `/filter` reads, `/bind` names the Pod's UID, hooks report facts. So a call that fails on
the way is retried while there is time. After that this replica answers with an error that makes kube-scheduler and
scripts retry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

import httpx

from extender.certificates.tls.contexts import CallerTls, Stamp, TlsError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

FORWARDED = b"x-slurm-extender-forwarded"
"""On a call that another replica passed on: it goes no further."""

NOT_THE_LEADER = "x-slurm-extender-not-the-leader"
"""On the answer of who was passed a call and does not lead."""

HOLD_S = 4.0
"""A call is held so long at most; kube-scheduler gives up after 5 s."""

AGAIN_S = 0.1
"""Pause before a leader that cannot be reached is tried again."""

CONNECT_S = 1.0

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
"""Connections to a leader: each call that came in has at most one, and those are bounded. Of httpx's own 100, hooks
that wait took all, and calls of kube-scheduler were not passed on meanwhile."""

KEPT_CLIENTS = 4
"""Clients that are kept: a new one is made for each renewed certificate, and calls with older ones end soon."""

LONGEST_ANSWER = 16 * 2**20
"""Bytes of a leader's answer; `/filter` answers with the names of the nodes of a Pod at most."""

_HOP = {b"host", b"connection", b"content-length", b"transfer-encoding", b"expect", b"keep-alive", b"te", b"upgrade"}
_BACK = {"content-type", "www-authenticate", "retry-after"}


class LeaderAddresses(Protocol):
    """The addresses of the leader."""

    @property
    def here(self) -> bool:
        """Return whether this process leads, and knows all that it needs to answer."""
        ...

    def address(self, endpoint: str) -> str:
        """Return the address of another process that leads, "" if there is none."""
        ...

    async def changes(self) -> None:
        """Wait until that may be different."""
        ...


class Peers:
    """Calls to other replicas. `transport` replaces connections, for tests; `server_name` is as in a certificate."""

    def __init__(self, tls: CallerTls, server_name: str | None, transport: httpx.AsyncBaseTransport | None) -> None:
        self.counts: Counter[str] = Counter()
        """Calls that were passed on, by what came of it."""

        self._tls = tls
        self._server_name = server_name
        self._given = transport
        self._clients: dict[tuple[bool, Stamp], httpx.AsyncClient] = {}

    async def call(
        self, method: str, url: str, headers: list[tuple[bytes, bytes]], body: bytes, timeout_s: float
    ) -> httpx.Response:
        """Pass one call on. Raises httpx.TransportError, httpx.InvalidURL, TimeoutError, TlsError.

        A redirect and an answer of more than LONGEST_ANSWER bytes raise httpx.RemoteProtocolError.
        """
        _check(url)
        extensions = {"sni_hostname": self._server_name} if self._server_name and url.startswith("https") else {}
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        client = await self._client(url)
        async with (
            asyncio.timeout(timeout_s),
            client.stream(method, url, headers=headers, content=body, timeout=timeout, extensions=extensions) as answer,
        ):
            if answer.is_redirect:
                raise httpx.RemoteProtocolError(f"{url} answers with a redirect, which is not followed")
            kept = [(name, value) for name, value in answer.headers.items() if name in {*_BACK, NOT_THE_LEADER}]
            return httpx.Response(answer.status_code, headers=kept, content=await _read(url, answer))

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients = tuple(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    async def _client(self, url: str) -> httpx.AsyncClient:
        """Return a client with the current certificates; connections made with older ones are left to end."""
        secure = url.startswith("https:") and self._given is None
        key = (secure, self._tls.stamp if secure else ())
        client = self._clients.pop(key, None)
        if client is None:
            verify = self._tls.context() if secure else False
            transport = self._given or httpx.AsyncHTTPTransport(verify=verify, limits=LIMITS)
            client = httpx.AsyncClient(transport=transport, trust_env=False)
        self._clients[key] = client  # the one that was used last is the last
        if len(self._clients) > KEPT_CLIENTS:
            await self._clients.pop(next(iter(self._clients))).aclose()
        return client


class Forwarding:
    """ASGI around `app`: paths below one of `prefixes` (path -> endpoint) are for the leader.

    `longest_s` says how long the leader's own answer may take, by endpoint. Of longer bodies than `max_body` nothing is
    passed on: `app` refuses them.
    """

    def __init__(
        self,
        app: App,
        prefixes: Mapping[str, str],
        leadership: LeaderAddresses,
        peers: Peers,
        *,
        longest_s: Mapping[str, float],
        max_body: int,
    ) -> None:
        self._app = app
        self._prefixes = prefixes
        self._leadership = leadership
        self._peers = peers
        self._longest_s = longest_s
        self._max_body = max_body

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer, or let the leader answer."""
        endpoint = self._endpoint(scope)
        if endpoint is None or self._leadership.here:
            await self._app(scope, receive, send)
        elif any(name == FORWARDED for name, _ in scope["headers"]):
            await _say_not_the_leader(send)
        else:
            body, more = await _body(receive, self._max_body)
            answer = None if more else await self._answer(scope, endpoint, body)
            if answer is None:
                await self._app(scope, _replay(body, more, receive), send)
            else:
                await _pass_back(answer, send)

    def _endpoint(self, scope: Any) -> str | None:
        if scope["type"] != "http":
            return None
        path = scope["path"]
        return next((endpoint for prefix, endpoint in self._prefixes.items() if path.startswith(f"{prefix}/")), None)

    async def _answer(self, scope: Any, endpoint: str, body: bytes) -> httpx.Response | None:
        """Return the leader's answer; `None` where this process has to answer."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        headers = [(name, value) for name, value in scope["headers"] if name not in _HOP] + [(FORWARDED, b"1")]
        query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0] + query
        while not self._leadership.here:
            held = loop.time() - began
            if held >= HOLD_S:
                self._peers.counts["unanswered"] += 1
                break
            if address := self._leadership.address(endpoint):
                left = max(self._longest_s[endpoint] - held, AGAIN_S)
                with suppress(httpx.TransportError, httpx.InvalidURL, TimeoutError, TlsError):
                    answer = await self._peers.call(scope["method"], f"{address}{path}", headers, body, left)
                    if NOT_THE_LEADER not in answer.headers:
                        self._peers.counts["answered"] += 1
                        return answer
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._leadership.changes()
        return None


def _check(url: str) -> None:
    """Raise httpx.InvalidURL, also where httpx raises what its libraries do: the address was read from the Lease."""
    try:
        at = httpx.URL(url)
        port, _ = at.port, at.host
    except (UnicodeError, ValueError) as error:
        raise httpx.InvalidURL(f"{url[:100]!r}: {error}") from error
    if port is not None and not 0 < port < 2**16:
        raise httpx.InvalidURL(f"{url[:100]!r}: {port} is no port")


async def _read(url: str, answer: httpx.Response) -> bytes:
    data = bytearray()
    async for part in answer.aiter_raw():
        data += part
        if len(data) > LONGEST_ANSWER:
            raise httpx.RemoteProtocolError(f"{url} answers with more than {LONGEST_ANSWER} bytes")
    return bytes(data)


async def _body(receive: Receive, most: int) -> tuple[bytes, bool]:
    """Return the body so far, and whether more is to come: at most `most` bytes are awaited."""
    data, more = b"", True
    while more and len(data) <= most:
        message = await receive()
        data += message.get("body", b"")
        more = message.get("more_body", False)
    return data, more


def _replay(body: bytes, more: bool, receive: Receive) -> Receive:
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": more}

    return again


async def _pass_back(answer: httpx.Response, send: Send) -> None:
    kept = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items() if name in _BACK]
    await _send(send, answer.status_code, kept, answer.content)


async def _say_not_the_leader(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (NOT_THE_LEADER.encode(), b"1")]
    await _send(send, 503, headers, b'{"error": "this replica does not lead; retry"}')


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers + length})
    await send({"type": "http.response.body", "body": body})
