"""Ends connections on which a request does not arrive: uvicorn waits for one for ever, and each costs a descriptor.

Its own timer runs between an answer and the first byte after it, and no longer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from uvicorn.server import ServerState

_log = structlog.get_logger(__name__)

LOOK_EVERY_S = 30.0

FORGET_AFTER_S = 120.0
"""A connection is looked for so long after it was accepted: until its TLS handshake ends (asyncio allows it 60 s) it is
in no list."""

Phase = tuple[object, bool]


class Patience:
    """Looks at the connections of `state`, while there are any, and ends those that are stuck for `for_s` seconds.

    That is as long as idle ones are kept: Go's client may open one in advance and use it later.
    """

    def __init__(self, state: ServerState, loop: asyncio.AbstractEventLoop, for_s: float) -> None:
        self._state = state
        self._loop = loop
        self._for_s = for_s
        self._stuck: dict[Any, tuple[Phase, float]] = {}
        self._accepted_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def accepted(self) -> None:
        """There is a new connection."""
        self._accepted_at = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        again = bool(self._state.connections) or now - self._accepted_at < FORGET_AFTER_S
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look) if again else None
        before, self._stuck = self._stuck, {}
        for connection in tuple(self._state.connections):
            phase = _incomplete(connection)
            if phase is None:
                continue
            was, since = before.get(connection, (phase, now))
            if was != phase:
                since = now
            if now - since >= self._for_s:
                _log.info("connection_without_a_request_ended", after_s=round(now - since))
                connection.transport.abort()
            else:
                self._stuck[connection] = (phase, since)


def _incomplete(connection: Any) -> Phase | None:
    """Which request of a connection has begun to arrive, or should, and has not arrived; `None`: all is well.

    The cycle is uvicorn's last request of the connection: what is true of the same one twice was true in between.
    """
    cycle = connection.cycle
    if cycle is not None and not cycle.response_complete:
        return (cycle, False) if cycle.more_body else None
    return (cycle, True) if connection.timeout_keep_alive_task is None else None
