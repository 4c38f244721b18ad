"""Observe the requests of one process, and replace or drop a request or its response.

A tap is called before the first byte of a request is sent and before the first byte of its answer is received. The
first call is made in the context of the requesting task, so that context variables say on whose behalf.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from simulator.network.memory import MemoryTransport


@dataclass(frozen=True, slots=True, eq=False)
class TappedRequest:
    """One request, from its request line."""

    host: str
    method: str
    path: str

    @property
    def line(self) -> str:
        """Return the entry as one line."""
        return f"{self.method} {self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class Interception:
    """Replace a request or response: deliver `answer`, then cut the connection or let it hang."""

    answer: bytes = b""
    cut: bool = False


DROPPED = Interception()
"""Drop the request or response."""


@dataclass(slots=True)
class RequestTap:
    """Call `on_request` before a request is sent and `on_response` before its response arrives. None passes it on."""

    on_request: Callable[[TappedRequest], Interception | None] = lambda _sent: None
    on_response: Callable[[TappedRequest], Interception | None] = lambda _sent: None


class TappedConnection:
    """One connection: separates requests from answers, and keeps to what the tap said. Implements `network.Gate`."""

    def __init__(self, transport: MemoryTransport, host: str, tap: RequestTap) -> None:
        self._transport = transport
        self._host = host
        self._tap = tap
        self._under_way: TappedRequest | None = None
        self._answering = False
        self._intercepted = False

    def sends(self, data: bytes) -> bool:
        """Return whether these bytes are sent."""
        if self._intercepted:
            return False
        if self._under_way is None or self._answering:
            self._answering = False
            self._under_way = self._read(data)
            return self._pass_unless(self._tap.on_request(self._under_way))
        return True

    def receives(self, _data: bytes) -> bool:
        """Return whether these bytes are received."""
        if self._intercepted:
            return False
        if self._under_way is not None and not self._answering:
            self._answering = True
            return self._pass_unless(self._tap.on_response(self._under_way))
        return True

    def _read(self, data: bytes) -> TappedRequest:
        method, _, rest = data.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        return TappedRequest(self._host, method, rest.partition(" ")[0].partition("?")[0])

    def _pass_unless(self, instead: Interception | None) -> bool:
        if instead is None:
            return True
        self._intercepted = True
        loop, protocol = asyncio.get_running_loop(), self._transport.get_protocol()
        if instead.answer and isinstance(protocol, asyncio.Protocol):
            loop.call_soon(protocol.data_received, instead.answer)
        if instead.cut:
            loop.call_soon(self._transport.lose)
        return False
