"""Exchange messages over a WebSocket of the API server."""

from __future__ import annotations

import aiohttp

from extender.kube.answers import text_of
from extender.kube.errors import ApiUnavailable


class Channels:
    """Send and receive messages; the first byte of each is the number of the channel."""

    def __init__(self, name: str, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._name = name
        self._socket = socket

    async def send(self, message: bytes) -> None:
        """Send one message. Raises ApiUnavailable."""
        try:
            await self._socket.send_bytes(message)
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnavailable(f"{self._name}: {text_of(error)}") from error

    async def receive(self) -> bytes | None:
        """Return the next message; `None`: the other side has closed. Raises ApiUnavailable."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            data: bytes = message.data
            return data
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ApiUnavailable(f"{self._name}: {text_of(message.data)}")
        return None
