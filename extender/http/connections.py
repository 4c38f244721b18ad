"""Bound the connections of one listener: their number, the time of each phase, and the bytes that they hold together.

Any client that reaches a port can open connections and send slowly. A full listener ends the connection that has been
longest without a complete request head, and does not refuse new ones: otherwise a flood would block the kubelet's
probe. Phases have a fixed time each, so that the first connection of a phase is the next one that is due.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

_log = structlog.get_logger(__name__)

SILENT_S = 120.0
"""Seconds for the first byte: Go's client may open a connection in advance and use it later."""

ARRIVING_S = 10.0
"""Seconds for a TLS handshake, for the head of a request, and for its body."""

STALLED_S = 30.0
"""Seconds in which the other side has to read something of an answer."""

CLOSING_S = 10.0
"""Seconds in which what is left of an answer has to be read before a connection that is closed is cut off."""

CHECK_EVERY_S = 1.0
LOG_EVERY_S = 60.0
"""Of each reason one line of the log in this time."""


class ConnectionPhase(StrEnum):
    """The event that a connection waits for. The values are words of metrics and of the log."""

    CLOSING = "unread answer of a closed connection"
    STALLED = "unread answer"
    HANDSHAKE = "TLS handshake"
    SILENT = "first request"
    HEAD = "request head"
    IDLE = "next request"
    BODY = "request body"
    ANSWER = "answer"


SECONDS: Mapping[ConnectionPhase, float] = {
    ConnectionPhase.CLOSING: CLOSING_S,
    ConnectionPhase.STALLED: STALLED_S,
    ConnectionPhase.HANDSHAKE: ARRIVING_S,
    ConnectionPhase.SILENT: SILENT_S,
    ConnectionPhase.HEAD: ARRIVING_S,
    ConnectionPhase.BODY: ARRIVING_S,
}
"""How long each may last. An idle connection is closed by uvicorn, and an answer takes as long as its route."""

_BEFORE_A_HEAD = (ConnectionPhase.HANDSHAKE, ConnectionPhase.SILENT, ConnectionPhase.HEAD)
_THEN = (ConnectionPhase.IDLE, ConnectionPhase.BODY)


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Of one listener. `held_bytes` are those of heads and bodies that have not been answered yet, of all together."""

    connections: int = 256
    per_address: int = 64
    held_bytes: int = 8 * 1024 * 1024
    head_bytes: int = 64 * 1024
    url_bytes: int = 16 * 1024
    body_bytes: int = 64 * 1024

    def or_more(self, other: ListenerLimits) -> ListenerLimits:
        """Return the larger of each, for what is served at one address."""
        return ListenerLimits(
            max(self.connections, other.connections),
            max(self.per_address, other.per_address),
            max(self.held_bytes, other.held_bytes),
            max(self.head_bytes, other.head_bytes),
            max(self.url_bytes, other.url_bytes),
            max(self.body_bytes, other.body_bytes),
        )


DEFAULT_BOUNDS = ListenerLimits()
"""Of what operators and their machines look at: health, metrics, debugging."""


@dataclass(eq=False, slots=True)
class ServedConnection:
    """One connection. `end` cuts it off."""

    address: str
    end: Callable[[], None]
    phase: ConnectionPhase = ConnectionPhase.SILENT
    since: float = 0.0
    held: int = 0
    ended: bool = False

    def end_by(self, end: Callable[[], None]) -> None:
        """Cut it off by this function from now on."""
        self.end = end


@dataclass(slots=True)
class _Queues:
    """Connections by phase, the oldest first."""

    of: dict[ConnectionPhase, OrderedDict[ServedConnection, None]] = field(
        default_factory=lambda: {one: OrderedDict() for one in ConnectionPhase}
    )
    count: int = 0

    def oldest_to_end(self) -> ServedConnection | None:
        """Return the connection whose end costs least: `None` if all of them wait for an answer of the extender."""
        for phase in (ConnectionPhase.CLOSING, ConnectionPhase.STALLED):
            if found := next(iter(self.of[phase]), None):
                return found
        first = [one for phase in _BEFORE_A_HEAD if (one := next(iter(self.of[phase]), None)) is not None]
        if first:
            return min(first, key=lambda one: one.since)
        return next((found for phase in _THEN if (found := next(iter(self.of[phase]), None))), None)


class ListenerConnections:
    """The connections of one listener. `refused` is called with the reason of each that is not served."""

    def __init__(
        self,
        bounds: ListenerLimits,
        loop: asyncio.AbstractEventLoop,
        names: tuple[str, ...] = (),
        refused: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        self.bounds = bounds
        self._loop = loop
        self._names = list(names)
        self._refused = refused
        self._all = _Queues()
        self._by_address: dict[str, _Queues] = {}
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self._notified: dict[str, float] = {}
        self._since_notified: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Return the bytes of requests that have not been answered."""
        return self._held

    def __len__(self) -> int:
        return self._all.count

    def open(self, address: str, end: Callable[[], None], phase: ConnectionPhase) -> ServedConnection | None:
        """Register a new connection, and end an older one if there are too many; `None`: the new one has to close."""
        here = self._by_address.get(address)
        if here is not None and here.count >= self.bounds.per_address and not self._make_room(here, "address full"):
            return None
        if self._all.count >= self.bounds.connections and not self._make_room(self._all, "listener full"):
            return None
        connection = ServedConnection(address, end, phase, self._loop.time())
        for queues in self._queues(connection):
            queues.of[phase][connection] = None
            queues.count += 1
        self._watch()
        return connection

    def enter(self, connection: ServedConnection, phase: ConnectionPhase) -> None:
        """Record that the connection waits for something else now."""
        if connection.ended or connection.phase is phase:
            return
        for queues in self._queues(connection):
            del queues.of[connection.phase][connection]
            queues.of[phase][connection] = None
        connection.phase, connection.since = phase, self._loop.time()
        if phase in SECONDS:
            self._watch()

    def hold(self, connection: ServedConnection, size: int) -> bool:
        """Count bytes that a request has brought. False: there is no room, and the connection has been ended."""
        if connection.ended:
            return False
        connection.held += size
        self._held += size
        while self._held > self.bounds.held_bytes:
            slow = self._all.of[ConnectionPhase.BODY] or self._all.of[ConnectionPhase.HEAD]
            victim = next(iter(slow), connection)
            self._end(victim, "too many bytes held")
            if victim is connection:
                return False
        return True

    def release(self, connection: ServedConnection) -> None:
        """Release the bytes of a request that has been answered."""
        self._held -= connection.held
        connection.held = 0

    def closed(self, connection: ServedConnection) -> None:
        """Forget a connection that is closed."""
        if connection.ended:
            return
        connection.ended = True
        self.release(connection)
        for queues in self._queues(connection):
            del queues.of[connection.phase][connection]
            queues.count -= 1
        if not self._by_address[connection.address].count:
            del self._by_address[connection.address]

    def notify(self, reason: str) -> None:
        """Count something that was not served, and log it now and then."""
        self._refused(reason)
        now = self._loop.time()
        self._since_notified[reason] += 1
        last = self._notified.get(reason)
        if last is None or now - last >= LOG_EVERY_S:
            self._notified[reason] = now
            _log.warning("http_rejected", serves=self._names, reason=reason, times=self._since_notified.pop(reason))

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _queues(self, connection: ServedConnection) -> tuple[_Queues, _Queues]:
        here = self._by_address.get(connection.address)
        if here is None:
            here = self._by_address[connection.address] = _Queues()
        return self._all, here

    def _make_room(self, queues: _Queues, reason: str) -> bool:
        victim = queues.oldest_to_end()
        if victim is None:
            self.notify(reason)
            return False
        self._end(victim, reason)
        return True

    def _end(self, connection: ServedConnection, reason: str) -> None:
        self.notify(reason)
        self.closed(connection)
        connection.end()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_EVERY_S, self._check)

    def _check(self) -> None:
        self._timer = None
        now = self._loop.time()
        for connection in list(self._due(now)):
            self._end(connection, f"no {connection.phase} in time")
        if any(self._all.of[phase] for phase in SECONDS):
            self._watch()

    def _due(self, now: float) -> Iterator[ServedConnection]:
        for phase, seconds in SECONDS.items():
            for connection in self._all.of[phase]:
                if now - connection.since < seconds:
                    break
                yield connection
