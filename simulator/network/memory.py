"""An in-memory network: asyncio transports in pairs, with no socket and no thread, so that they run on virtual time.

A server listens at a (host, port), a client dials it; bytes travel through `loop.call_soon` (or `call_at`, where a
latency is set). Names are compared as strings, nothing is resolved. What TCP shows to asyncio is reproduced as far as
clients and servers can observe: ordered bytes, flow control, half-close, an orderly close that lets written bytes
arrive, an abort that the other side sees as `ConnectionResetError`, and a refused connection. TLS is not.

Faults are set for an address and act on every connection to it: `refuse`, `cut`, `cut_after`, `stall` and `resume`.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

Address = tuple[str, int]

HIGH_WATER = 64 * 1024
"""Bytes under way in one direction above which the writer is asked to pause; asyncio's own default."""

FIRST_EPHEMERAL_PORT = 49152
"""Where the numbers of dialling ends and of `listen(port=0)` begin (RFC 6335, dynamic ports)."""


def no_latency() -> float:
    """Return the default one-way delay in seconds: the next turn of the loop."""
    return 0.0


class Gate(Protocol):
    """Filter the bytes at one end of a connection."""

    def sends(self, data: bytes) -> bool:
        """Return whether the bytes are sent."""
        ...

    def receives(self, data: bytes) -> bool:
        """Return whether the bytes are delivered."""
        ...


class _Sign(Enum):
    """Signals that travel besides bytes."""

    EOF = "eof"
    RESET = "reset"


class MemoryTransport(asyncio.Transport):
    """One end of a connection. Made by `Network.dial` in pairs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: _Server, own: Address, other: Address) -> None:
        super().__init__({"sockname": own, "peername": other})
        self._loop = loop
        self._server = server
        self._peer: MemoryTransport
        self._protocol: asyncio.BaseProtocol
        self._inbox: deque[tuple[float, bytes | _Sign]] = deque()
        self._inbox_bytes = 0
        self._pump: asyncio.Handle | None = None
        self._reading = True
        self._eof_sent = False
        self._closing = False
        self._lost = False
        self._writer_paused = False
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        self._counts_for_cut = False
        self._held = False
        self.gate: Gate | None = None

    # What a protocol may ask of its transport.

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give further callbacks to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the callbacks."""
        return self._protocol

    def is_closing(self) -> bool:
        """Return whether the transport is closed, or about to be."""
        return self._closing

    def is_reading(self) -> bool:
        """Return whether bytes are handed on as they come."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Keep arriving bytes until `resume_reading`."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver what has arrived and what will arrive."""
        self._reading = True
        self._wake()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the bytes under way at which the own protocol is paused and resumed."""
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return (low, high), in bytes."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Return the bytes written and not yet taken by the other side."""
        return self._peer._inbox_bytes

    def can_write_eof(self) -> bool:
        """Return whether a half-close is possible."""
        return True

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send bytes. After the connection is closed or lost they go nowhere, as with a socket."""
        if self._closing or not data:
            return
        if self._eof_sent:
            raise RuntimeError("cannot write after write_eof()")
        if self.gate is not None and not self.gate.sends(bytes(data)):
            return
        self._peer._arrive(bytes(data))
        if not self._writer_paused and self.get_write_buffer_size() > self._high:
            self._writer_paused = True
            _as_protocol(self._protocol).pause_writing()

    def write_eof(self) -> None:
        """Close the writing half; the other side may go on."""
        if not self._eof_sent and not self._closing:
            self._eof_sent = True
            self._peer._arrive(_Sign.EOF)

    def close(self) -> None:
        """Close once; what was written still arrives at the other side."""
        if not self._closing:
            self._closing = True
            if not self._eof_sent:
                self._eof_sent = True
                self._peer._arrive(_Sign.EOF)
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """Close at once; what has not arrived never will, and the other side sees a reset."""
        if not self._closing:
            self._closing = True
            self._eof_sent = True
            self._peer._arrive(_Sign.RESET)
        self._loop.call_soon(self._lose, None)

    def hold(self, held: bool = True) -> None:
        """Hold what is under way in both directions, as where a cable between these two is cut, or let it go on."""
        for end in (self, self._peer):
            end._held = held
            end._wake()

    def lose(self) -> None:
        """Lose the connection now, at both ends: both see a reset."""
        self._cut()

    # The way of the bytes.

    def _arrive(self, item: bytes | _Sign) -> None:
        """Put one item on its way to this end; it never overtakes what was sent before."""
        if self._lost:
            if isinstance(item, bytes):  # The peer is closed: TCP answers a segment for a closed socket with a reset.
                self._peer._arrive(_Sign.RESET)
            return
        network = self._server.network
        due = self._loop.time() + network.latency()
        if item is _Sign.RESET:
            self._inbox.clear()
            self._inbox_bytes = 0
        if isinstance(item, bytes):
            self._inbox_bytes += len(item)
            step = network.segment or len(item)
            self._inbox.extend((due, item[start : start + step]) for start in range(0, len(item), step))
        else:
            self._inbox.append((due, item))
        self._wake()

    def _wake(self) -> None:
        """Have the inbox looked at when its first item is due."""
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None
        if self._lost or self._held or self._server.stalled or not self._inbox:
            return
        due, item = self._inbox[0]
        if not self._reading and item is not _Sign.RESET:
            return
        if due <= self._loop.time():
            self._pump = self._loop.call_soon(self._deliver)
        else:
            self._pump = self._loop.call_at(due, self._deliver)

    def _deliver(self) -> None:
        """Hand on the first item of the inbox, then look for the next."""
        self._pump = None
        if self._lost or not self._inbox:
            return
        _, item = self._inbox.popleft()
        if item is _Sign.RESET:
            self._lose(ConnectionResetError("the other side reset the connection"))
            return
        if item is _Sign.EOF:
            if not self._closing and not _as_protocol(self._protocol).eof_received():
                self.close()
        elif isinstance(item, bytes):
            self._hand_on(item)
        self._wake()

    def _hand_on(self, data: bytes) -> None:
        self._inbox_bytes -= len(data)
        allowed = self._server.allowance(len(data)) if self._counts_for_cut else len(data)
        if allowed and not self._closing and (self.gate is None or self.gate.receives(data[:allowed])):
            _as_protocol(self._protocol).data_received(data[:allowed])
        if allowed < len(data):
            self._cut()
            return
        writer = self._peer
        if writer._writer_paused and self._inbox_bytes <= writer._low:
            writer._writer_paused = False
            _as_protocol(writer._protocol).resume_writing()

    def _cut(self) -> None:
        """Lose the connection at both ends."""
        for end in (self, self._peer):
            end._loop.call_soon(end._lose, ConnectionResetError("the connection was cut"))

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._inbox.clear()
        self._inbox_bytes = 0
        self._wake()
        self._server.ends.pop(self, None)
        peer = self._peer
        if peer._writer_paused and not peer._lost:  # Its bytes have nowhere to go: nothing else would let it on.
            peer._writer_paused = False
            _as_protocol(peer._protocol).resume_writing()
        self._protocol.connection_lost(error)


def _as_protocol(protocol: asyncio.BaseProtocol) -> asyncio.Protocol:
    if not isinstance(protocol, asyncio.Protocol):
        raise TypeError(
            f"{type(protocol).__name__} is no asyncio.Protocol: only streaming protocols can use this network"
        )
    return protocol


@dataclass(slots=True, eq=False)
class _Server:
    """One address: its listener, its connections and its faults."""

    network: Network
    factory: Callable[[], asyncio.BaseProtocol] | None = None
    loop: asyncio.AbstractEventLoop | None = None
    """The loop of the listener."""

    refused: bool = False
    stalled: bool = False
    cut_after: int | None = None
    ends: dict[MemoryTransport, None] = field(default_factory=dict)
    """In the order in which they were made, which a set would not keep."""

    dialling: list[asyncio.Future[None]] = field(default_factory=list)
    """Who waits for the end of a stall, each on a loop of its own."""

    def allowance(self, wanted: int) -> int:
        """Return how many of `wanted` bytes from the server still pass; fewer than wanted spends the fault."""
        if self.cut_after is None:
            return wanted
        allowed = min(wanted, self.cut_after)
        self.cut_after = None if allowed < wanted else self.cut_after - allowed
        return allowed


@dataclass(frozen=True, slots=True)
class Listener:
    """Listens at `host`:`port` until `close`."""

    network: Network
    host: str
    port: int

    def close(self) -> None:
        """Refuse new connections; those that exist live on."""
        self.network._server(self.host, self.port).factory = None


class Network:
    """Every address and every connection of one simulated world.

    `latency` gives the one-way delay of each write, in seconds. `segment` is the most bytes that arrive at once; 0: as
    they were written.
    """

    def __init__(self, latency: Callable[[], float] = no_latency, segment: int = 0) -> None:
        self.latency = latency
        self.segment = segment
        self.services: dict[str, list[str]] = {}
        """Names that stand for several hosts: each new connection goes to the next one that listens."""

        self._servers: dict[Address, _Server] = {}
        self._next_port = FIRST_EPHEMERAL_PORT

    def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Serve connections to (`host`, `port`), one protocol each; port 0 takes a free one.

        Raises OSError when the address has a listener.
        """
        if port == 0:
            port = self._take_port()
        server = self._server(host, port)
        if server.factory is not None:
            raise OSError(f"{host}:{port}: the address is in use")
        server.factory, server.loop = protocol_factory, asyncio.get_running_loop()
        return Listener(self, host, port)

    async def dial(
        self, protocol_factory: Callable[[], ProtocolT], host: str, port: int
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Connect to (`host`, `port`), as `loop.create_connection` does.

        Waits while the address is stalled. Raises ConnectionRefusedError without a listener, or if `refuse` was set.
        """
        server = self._server(self._backend(host, port), port)
        await asyncio.sleep(self.latency())
        while server.stalled:
            resumed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            server.dialling.append(resumed)
            await resumed
        if server.refused or server.factory is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port}: connection refused")
        loop = asyncio.get_running_loop()
        here, there = ("127.0.0.1", self._take_port()), (host, port)
        client = MemoryTransport(loop, server, here, there)
        accepted = MemoryTransport(server.loop or loop, server, there, here)
        client._peer, accepted._peer = accepted, client
        client._counts_for_cut = True
        accepted._protocol = server.factory()
        protocol = protocol_factory()
        client._protocol = protocol
        server.ends |= {client: None, accepted: None}
        if accepted._loop is loop:
            accepted._protocol.connection_made(accepted)
        else:
            accepted._loop.call_soon(accepted._protocol.connection_made, accepted)
        protocol.connection_made(client)
        return client, protocol

    def _backend(self, host: str, port: int) -> str:
        hosts = self.services.get(host) or [host]
        hosts.append(hosts.pop(0))
        return next((one for one in hosts if self._server(one, port).factory is not None), hosts[0])

    def connections(self, host: str, port: int) -> int:
        """Return how many connections to the address are open at one end at least."""
        return len({frozenset({id(end), id(end._peer)}) for end in self._server(host, port).ends})

    def refuse(self, host: str, port: int, refused: bool = True) -> None:
        """Refuse new connections, or accept them again."""
        self._server(host, port).refused = refused

    def cut(self, host: str, port: int) -> None:
        """Lose every connection now; both sides see a reset."""
        for end in tuple(self._server(host, port).ends):
            end._cut()

    def cut_after(self, host: str, port: int, count: int) -> None:
        """Let `count` more bytes of the server's pass, then lose the connection whose byte is the next. Acts once."""
        self._server(host, port).cut_after = count

    def stall(self, host: str, port: int) -> None:
        """Hold everything under way, both directions and new connections too, as a cable pulled out does."""
        server = self._server(host, port)
        server.stalled = True
        for end in tuple(server.ends):
            end._wake()

    def resume(self, host: str, port: int) -> None:
        """End a stall; what was held goes on."""
        server = self._server(host, port)
        server.stalled = False
        waiting, server.dialling = server.dialling, []
        for resumed in waiting:
            if not resumed.done():
                resumed.set_result(None)
        for end in tuple(server.ends):
            end._wake()

    def _server(self, host: str, port: int) -> _Server:
        return self._servers.setdefault((host, port), _Server(self))

    def _take_port(self) -> int:
        port = self._next_port
        self._next_port += 1
        return port
