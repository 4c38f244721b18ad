"""Serve the applications with uvicorn's HTTP protocol, in this process's task group and on any streams.

uvicorn's `Server` is not used: it takes the process's signals, wakes up ten times a second, and knows sockets alone.
The rest of its work is small: accept, and at the end let requests under way finish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import uvicorn
from uvicorn.server import ServerState

from extender.assembly.io_context import Closable, Listen
from extender.certificates.tls.contexts import ReloadingTls
from extender.config.values import BindAddress
from extender.http.app import Endpoint
from extender.http.bounded_protocol import BoundedProtocol
from extender.http.connections import ListenerConnections, ServedConnection
from extender.http.handshakes import RefusedHandshakes
from extender.http.tls_listener import TlsListener

_log = structlog.get_logger(__name__)


KEEP_ALIVE_S = 120
"""Idle seconds before a connection is closed. Go's client keeps one for 90 s, so it never sends into the close."""

BACKLOG = 2048

STOP_CHECK_S = 0.05
"""While stopping: pause between two looks at the connections that are left."""


class CannotListen(Exception):
    """An address cannot be listened at; the text says which setting, which address and why."""


@dataclass(frozen=True, slots=True)
class _OpenListener:
    """An open listener."""

    endpoint: Endpoint
    listener: Closable
    state: ServerState
    connections: ListenerConnections
    at: tuple[BindAddress, ...]


@asynccontextmanager
async def serving(
    endpoints: Sequence[Endpoint],
    *,
    stop_within_s: float,
    listen: Listen | None = None,
    certified: Callable[[str, ReloadingTls], None] = lambda _name, _tls: None,
    refused: Callable[[str], None] = lambda _reason: None,
) -> AsyncIterator[tuple[BindAddress, ...]]:
    """Serve while inside; yield the addresses of the listeners, in the order of the endpoints.

    On leaving, no connection is accepted any more, requests under way may finish for `stop_within_s` seconds, and the
    rest is cancelled. `certified` is called with the first name and the certificate of each endpoint that has one,
    `refused` with the reason why a request or a connection is not served. Raises CannotListen, and TlsError if a
    certificate cannot be used.
    """
    opened: list[_OpenListener] = []
    try:
        for endpoint in endpoints:
            handshakes = RefusedHandshakes([str(endpoint.bind)], endpoint.names)
            tls = ReloadingTls(endpoint.tls, handshakes) if endpoint.tls is not None else None
            opened.append(await _open(endpoint, tls, listen, refused))
            if tls is not None:
                certified(endpoint.names[0], tls)
            _log.info("listening", at=[str(at) for at in opened[-1].at], serves=list(endpoint.names))
        yield tuple(at for one in opened for at in one.at)
    finally:
        await _close(opened, stop_within_s)


def http_config(app: Any, keep_alive_s: int = KEEP_ALIVE_S) -> uvicorn.Config:
    """Return the settings of uvicorn's HTTP protocol for an application, without anything of uvicorn's `Server`."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_s,
    )
    config.load()
    return config


async def _open(
    endpoint: Endpoint, tls: ReloadingTls | None, listen: Listen | None, refused: Callable[[str], None]
) -> _OpenListener:
    config = http_config(endpoint.around or endpoint.app)
    state = ServerState()
    loop = asyncio.get_running_loop()
    connections = ListenerConnections(endpoint.bounds, loop, endpoint.names, refused)

    def protocol(known: ServedConnection | None = None) -> BoundedProtocol:
        return BoundedProtocol(config, state, loop, connections, known)

    bind = endpoint.bind
    try:
        if listen is not None:
            if tls is not None:
                raise CannotListen(f"{', '.join(endpoint.names)}: {bind}: these streams know no TLS")
            return _OpenListener(endpoint, listen(bind.host, bind.port, protocol), state, connections, (bind,))
        if tls is not None:
            secure = TlsListener(connections, loop, tls.context, protocol)
            found = await secure.open(bind.host or None, bind.port, BACKLOG)
            return _OpenListener(endpoint, secure, state, connections, tuple(BindAddress(*one) for one in found))
        server = await loop.create_server(protocol, bind.host or None, bind.port, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(
            f"{', '.join(endpoint.names)}: cannot listen on {bind}: {error.strerror or error}"
        ) from error
    at = tuple(BindAddress(*socket.getsockname()[:2]) for socket in server.sockets)
    return _OpenListener(endpoint, server, state, connections, at)


async def _close(opened: Sequence[_OpenListener], within_s: float) -> None:
    """Close all listeners at once, so that a request on one cannot hold the others open."""
    for one in opened:
        one.listener.close()
        one.connections.stop()
        for connection in tuple(one.state.connections):
            connection.shutdown()
    try:
        async with asyncio.timeout(within_s):
            # uvicorn keeps sets and signals no change of them.
            while any(one.state.connections or one.state.tasks for one in opened):  # noqa: ASYNC110
                await asyncio.sleep(STOP_CHECK_S)
    except TimeoutError:
        tasks = [task for one in opened for task in one.state.tasks]
        _log.warning("requests_aborted", count=len(tasks), after_s=within_s)
        for one in opened:
            for connection in tuple(one.state.connections):
                connection.transport.abort()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)  # an aborted transport notifies its protocol in the next iteration of the loop
