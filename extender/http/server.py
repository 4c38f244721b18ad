"""Serves the applications with uvicorn's HTTP protocol, inside our own task group and on whatever streams are given.

uvicorn's `Server` is not used: it takes the process's signals, wakes up ten times a second, and knows sockets alone.
What it does beyond that is small: accept, and at the end let requests under way finish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog
import uvicorn
from uvicorn.server import ServerState

from extender.config.values import BindAddress
from extender.http.app import Door
from extender.http.bounded_protocol import BoundedProtocol
from extender.http.connections import Connection, Connections
from extender.http.handshakes import RefusedHandshakes
from extender.http.tls_listener import TlsListener
from extender.tls.contexts import ReloadingTls

_log = structlog.get_logger(__name__)

ProtocolFactory = Callable[[], asyncio.BaseProtocol]

KEEP_ALIVE_S = 120
"""Idle seconds before we close a connection. Go's client keeps one for 90 s: so it never sends into our close."""

BACKLOG = 2048

STOP_CHECK_S = 0.05
"""While stopping: pause between two looks at the connections that are left."""


class Closable(Protocol):
    """Something that accepts connections until it is closed."""

    def close(self) -> None:
        """Accept no more; connections that exist live on."""
        ...


class Listen(Protocol):
    """Where connections come from instead of sockets; `simulator.network.memory.Network.listen` is one."""

    def __call__(self, host: str, port: int, protocol_factory: ProtocolFactory, /) -> Closable:
        """Make a protocol for each connection to this address. Raises OSError where it is taken."""
        ...


class CannotListen(Exception):
    """An address cannot be listened at; the text says which setting, which address and why."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A door that is open."""

    door: Door
    listener: Closable
    state: ServerState
    connections: Connections
    at: tuple[BindAddress, ...]


@asynccontextmanager
async def serving(
    doors: Sequence[Door],
    *,
    stop_within_s: float,
    listen: Listen | None = None,
    certified: Callable[[str, ReloadingTls], None] = lambda _name, _tls: None,
    refused: Callable[[str], None] = lambda _reason: None,
) -> AsyncIterator[tuple[BindAddress, ...]]:
    """Serve while inside; gives the addresses that are listened at, in the order of the doors.

    On leaving, no connection is accepted any more, requests under way may finish for `stop_within_s` seconds, and what
    is left is cancelled. `certified` is told the first name and the certificate of each door that has one, `refused`
    why a request or a connection is not served. Raises CannotListen, and TlsError where a certificate cannot be used.
    """
    opened: list[_Open] = []
    try:
        for door in doors:
            told = RefusedHandshakes([str(door.bind)], door.names)
            tls = ReloadingTls(door.tls, told) if door.tls is not None else None
            opened.append(await _open(door, tls, listen, refused))
            if tls is not None:
                certified(door.names[0], tls)
            _log.info("listening", at=[str(at) for at in opened[-1].at], serves=list(door.names))
        yield tuple(at for one in opened for at in one.at)
    finally:
        await _close(opened, stop_within_s)


async def _open(door: Door, tls: ReloadingTls | None, listen: Listen | None, refused: Callable[[str], None]) -> _Open:
    config = uvicorn.Config(
        door.around or door.app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    connections = Connections(door.bounds, loop, door.names, refused)

    def protocol(known: Connection | None = None) -> BoundedProtocol:
        return BoundedProtocol(config, state, loop, connections, known)

    bind = door.bind
    try:
        if listen is not None:
            if tls is not None:
                raise CannotListen(f"{', '.join(door.names)}: {bind}: these streams know no TLS")
            return _Open(door, listen(bind.host, bind.port, protocol), state, connections, (bind,))
        if tls is not None:
            secure = TlsListener(connections, loop, tls.context, protocol)
            found = await secure.open(bind.host or None, bind.port, BACKLOG)
            return _Open(door, secure, state, connections, tuple(BindAddress(*one) for one in found))
        server = await loop.create_server(protocol, bind.host or None, bind.port, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(
            f"{', '.join(door.names)}: {bind} cannot be listened at: {error.strerror or error}"
        ) from error
    at = tuple(BindAddress(*socket.getsockname()[:2]) for socket in server.sockets)
    return _Open(door, server, state, connections, at)


async def _close(opened: Sequence[_Open], within_s: float) -> None:
    """Close every door at once, so that a request on one cannot hold the others open."""
    for one in opened:
        one.listener.close()
        one.connections.stop()
        for connection in tuple(one.state.connections):
            connection.shutdown()
    try:
        async with asyncio.timeout(within_s):
            # uvicorn keeps sets and tells nobody when they change.
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
        await asyncio.sleep(0)  # an aborted transport tells its protocol in the next turn of the loop
