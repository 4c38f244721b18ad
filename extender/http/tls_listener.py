"""Accepts connections for TLS and counts them before their handshake, which asyncio's own servers do not show.

Neither loop lets a server's connection be ended while it makes its handshake: half handshakes took all descriptors.
uvloop loses what arrives between accepting and `start_tls`, so that sockets are accepted here.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine

import structlog

from extender.http.bounded_protocol import BoundedProtocol
from extender.http.connections import ConnectionPhase, ListenerConnections, ServedConnection

_log = structlog.get_logger(__name__)

HANDSHAKE_TIMEOUT_S = 60.0
"""asyncio's own; `ConnectionPhase.HANDSHAKE` ends a connection before."""

AFTER_A_FAILURE_S = 0.2
"""Pause where the system has no descriptor left."""


class TlsListener:
    """Serves with TLS on the sockets of an address until it is closed."""

    def __init__(
        self,
        connections: ListenerConnections,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        make: Callable[[ServedConnection], BoundedProtocol],
    ) -> None:
        self._connections = connections
        self._loop = loop
        self._context = context
        self._make = make
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str | None, port: int, backlog: int) -> list[tuple[str, int]]:
        """Listen; gives the addresses. Raises OSError where one is taken."""
        bound = await self._loop.create_server(asyncio.Protocol, host, port, start_serving=False)
        try:
            for one in bound.sockets:
                own = socket.socket(fileno=os.dup(one.fileno()))
                own.setblocking(False)
                own.listen(backlog)
                self._sockets.append(own)
        finally:
            bound.close()
        for own in self._sockets:
            self._start(self._accept(own))
        return [own.getsockname()[:2] for own in self._sockets]

    def close(self) -> None:
        """Accept no more; connections that have made their handshake live on."""
        for task in self._tasks:
            task.cancel()
        for own in self._sockets:
            own.close()

    async def _accept(self, own: socket.socket) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(own)
            except OSError as error:
                _log.warning("connection_not_accepted", error=str(error))
                await asyncio.sleep(AFTER_A_FAILURE_S)
                continue
            known = self._connections.open(str(address[0]), accepted.close, ConnectionPhase.HANDSHAKE)
            if known is None:
                accepted.close()
            else:
                self._end_with(known, self._start(self._greet(accepted, known)))

    async def _greet(self, accepted: socket.socket, known: ServedConnection) -> None:
        """Make the handshake; the context logs why one fails."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make(known), accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except OSError:  # which ssl.SSLError is one of
            self._connections.closed(known)
        except asyncio.CancelledError:
            self._connections.closed(known)
            raise
        finally:
            if known.ended:
                accepted.close()

    @staticmethod
    def _end_with(known: ServedConnection, task: asyncio.Task[None]) -> None:
        def end() -> None:
            task.cancel()

        known.end_by(end)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
