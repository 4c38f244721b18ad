"""aiohttp over the in-memory network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.client_proto import ResponseHandler

from simulator.network.memory import Network

if TYPE_CHECKING:
    from aiohttp.tracing import Trace


class MemoryConnector(aiohttp.BaseConnector):
    """Makes a session's connections in `network`. Make it on the loop that uses it; the session closes it."""

    def __init__(self, network: Network, limit: int = 100) -> None:
        super().__init__(limit=limit)
        self._network = network

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> ResponseHandler:
        host, port = req.url.host, req.url.port
        if host is None or port is None:
            raise aiohttp.InvalidURL(req.url)
        try:
            async with asyncio.timeout(timeout.sock_connect):
                _, protocol = await self._network.dial(lambda: ResponseHandler(self._loop), host, port)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"{host}:{port}: no connection in time") from error
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        return protocol
