"""Listen on the loopback interface and forward each connection to a port of a Pod, as `kubectl port-forward` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from extender.kube.channels import Channels
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiError
from extender.kube.port_forward import DATA, ERRORS, PORT_BYTES, PROTOCOL, NotConnected, PodPort, path_of

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 32
"""Connections at once; a browser opens 6 to one address. More are closed."""

CHUNK = 16 * 1024
OPEN_S = 10.0


class PortListener:
    """Forward connections to `pod_port`, which may be another Pod for the next connection.

    `report` is given one sentence for each connection that fails.
    """

    def __init__(self, connection: ApiConnection, pod_port: PodPort, report: Callable[[str], None]) -> None:
        self._connection = connection
        self.pod_port = pod_port
        self._report = report
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def open(self, port: int) -> int:
        """Listen at this port, or any free one for 0, and return the port. Raises OSError."""
        self._server = await asyncio.start_server(self._accepted, LOOPBACK, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._open.add(task)
        try:
            await self._forward(reader, writer)
        except (ApiError, NotConnected, OSError) as error:
            self._report(f"port {self.pod_port.port} of Pod {self.pod_port.namespace}/{self.pod_port.pod}: {error}")
        except asyncio.CancelledError:
            pass  # the listener closes, and waits for this task
        finally:
            self._open.discard(task)
            with suppress(OSError):
                writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = {"ports": str(self.pod_port.port)}
        async with self._connection.channels(
            path_of(self.pod_port), query, PROTOCOL, open_timeout_s=OPEN_S
        ) as channels:
            both = [asyncio.create_task(_up(reader, channels)), asyncio.create_task(_down(channels, writer))]
            try:
                done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
            for task in done:
                task.result()


async def _up(reader: asyncio.StreamReader, channels: Channels) -> None:
    while chunk := await reader.read(CHUNK):
        await channels.send(bytes([DATA]) + chunk)


async def _down(channels: Channels, writer: asyncio.StreamWriter) -> None:
    """Write what the Pod answers. Both channels begin with the number of the port. Raises NotConnected."""
    skip = {DATA: PORT_BYTES, ERRORS: PORT_BYTES}
    while (message := await channels.receive()) is not None:
        if not message or message[0] not in skip:
            continue
        channel, body = message[0], message[1:]
        skipped = min(skip[channel], len(body))
        skip[channel] -= skipped
        if body := body[skipped:]:
            if channel == ERRORS:
                raise NotConnected(body[:200].decode("utf-8", "replace").strip())
            writer.write(body)
            await writer.drain()
