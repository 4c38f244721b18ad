"""httpx over the in-memory network.

httpcore takes its byte streams from an `AsyncNetworkBackend`; this one dials a `Network`. `http_transport` gives the
httpx transport that uses it.

httpcore hands time-outs over as arguments, hence the exceptions from the rule against that.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from simulator.network.memory import Network


class MemoryStream(httpcore.AsyncNetworkStream):
    """A connection as httpcore wants it; errors are httpcore's own. Time-outs are in seconds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Read up to `max_bytes`; empty at the end. Raises httpcore.ReadTimeout, httpcore.ReadError."""
        try:
            async with asyncio.timeout(timeout):
                return await self._reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send all of `buffer`. Raises httpcore.WriteTimeout, httpcore.WriteError."""
        try:
            async with asyncio.timeout(timeout):
                self._writer.write(buffer)
                await self._writer.drain()
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        """Close; does not wait for the other side."""
        self._writer.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Raise an error always: the in-memory network has no TLS."""
        raise httpcore.ConnectError("the in-memory network has no TLS: use an http:// address")

    def get_extra_info(self, info: str) -> Any:
        """Answer httpcore: whether there is something to read (a closed connection is readable), and both addresses."""
        if info == "is_readable":
            return self._reader.at_eof() or self._writer.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._writer.get_extra_info(names[info]) if info in names else None


class MemoryBackend(httpcore.AsyncNetworkBackend):
    """Dials `network` wherever httpcore would open a socket."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect. Raises httpcore.ConnectTimeout, httpcore.ConnectError."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        try:
            async with asyncio.timeout(timeout):
                transport, protocol = await self._network.dial(
                    lambda: asyncio.StreamReaderProtocol(reader, loop=loop), host, port
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host}:{port}: no connection within {timeout} s") from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return MemoryStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def sleep(self, seconds: float) -> None:
        """Wait, on the loop's time."""
        await asyncio.sleep(seconds)


def http_transport(network: Network, limits: httpx.Limits | None = None) -> httpx.AsyncHTTPTransport:
    """Return an httpx transport whose connections are made in `network`. `limits` as for httpx."""
    # The network has no TLS; reading the certificates of the system for it would take longer than most simulations.
    transport = httpx.AsyncHTTPTransport(verify=False)
    limits = limits or httpx.Limits()
    # httpx has no argument for httpcore's backend; the pool is replaced by an equal one that has it.
    transport._pool = httpcore.AsyncConnectionPool(
        max_connections=limits.max_connections,
        max_keepalive_connections=limits.max_keepalive_connections,
        keepalive_expiry=None,  # httpcore counts it by the real clock, so that a slow machine had another run
        network_backend=MemoryBackend(network),
    )
    return transport
