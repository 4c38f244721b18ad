"""ASGI applications served by uvicorn's own HTTP protocol: on the in-memory network, or on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from extender.http.server import http_config
from simulator.network.memory import Listener, Network

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
"""`app(scope, receive, send)`; typed loosely, because every framework types it differently."""

KEEP_ALIVE_S = 75
"""Idle seconds before the server closes a connection; longer than clients keep theirs, so that reuse meets no close."""


@asynccontextmanager
async def serve(network: Network, app: AsgiApp, host: str, port: int) -> AsyncIterator[Listener]:
    """Serve `app` at `host`:`port`. On leaving, connections are reset and the requests under way are waited for.

    An application that streams must therefore return when `receive` says `http.disconnect`. It gets no lifespan events.
    """
    connection, state = _protocol(app)
    listener = network.listen(host, port, connection)
    try:
        yield listener
    finally:
        listener.close()
        await _end(state)


@asynccontextmanager
async def serve_on_loopback(app: AsgiApp) -> AsyncIterator[int]:
    """Serve as `serve`, on a free port of 127.0.0.1, which is given."""
    connection, state = _protocol(app)
    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await _end(state)


def _protocol(app: AsgiApp) -> tuple[Callable[[], HttpToolsProtocol], ServerState]:
    config = http_config(app, KEEP_ALIVE_S)
    state = ServerState()
    loop = asyncio.get_running_loop()
    return lambda: HttpToolsProtocol(config=config, server_state=state, app_state={}, _loop=loop), state


async def _end(state: ServerState) -> None:
    for open_connection in tuple(state.connections):
        open_connection.transport.abort()
    while state.tasks:
        await asyncio.wait(tuple(state.tasks))
    await asyncio.sleep(0)  # An aborted transport notifies its protocol in the next turn of the loop.
