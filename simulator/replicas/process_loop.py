"""Give each simulated process an event loop that can be stopped, as by SIGSTOP, while the others continue.

All processes of a simulation share one thread and one clock. Each turn of such a loop is a callback of the loop below.
While it is stopped none of its timers, tasks and arriving bytes are served; when it goes on, all that became due
meanwhile is, at the time that it is then.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio import events
from collections.abc import Callable
from typing import Any, TypeVar

from simulator.virtual_time import at_once, numbered_task

T = TypeVar("T")

RESOLUTION_S = 2e-6
"""Clocks below may round to a microsecond: a timer that is due there must be due here."""


class _NoWaiting:
    """Replaces the selector: never waits."""

    def select(self, _timeout: float | None) -> list[Any]:
        return []


class ProcessLoop(asyncio.BaseEventLoop):
    """An event loop on top of another one. Close it at the end."""

    def __init__(self, below: asyncio.AbstractEventLoop) -> None:
        self._below = below
        self._turn: asyncio.Handle | None = None
        self._paused = True  # until it is complete
        super().__init__()
        self._selector = _NoWaiting()  # nothing else is asked of it by `_run_once` of asyncio's base_events.py
        self._clock_resolution = RESOLUTION_S
        self.set_task_factory(numbered_task)
        self._paused = False

    def pause(self, paused: bool = True) -> None:
        """Stop the loop, or let it continue."""
        self._paused = paused
        self._plan()

    def time(self) -> float:
        """Return the time of the loop below."""
        return self._below.time()

    def call_soon(self, *given: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
        """Schedule a callback, as every loop."""
        handle = super().call_soon(*given, **more)
        self._plan()
        return handle

    def call_at(self, *given: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        """Schedule a callback, as every loop."""
        handle = super().call_at(*given, **more)
        self._plan()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, work: Callable[..., T], *given: Any
    ) -> asyncio.Future[T]:
        """Do it at once: a thread would wake the loop below from outside of it."""
        return at_once(self, work, *given)

    def is_running(self) -> bool:
        """Return whether the loop runs: as long as the loop below does."""
        return not self.is_closed()

    def close(self) -> None:
        """End it; what is left is dropped."""
        if self._turn is not None:
            self._turn.cancel()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self._closed = True

    def _plan(self) -> None:
        """Schedule the next turn on the loop below, if callbacks are due."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._paused or self.is_closed():
            return
        if self._ready:  # type: ignore[attr-defined]
            self._turn = self._below.call_soon(self._take_turn)
        elif self._scheduled:  # type: ignore[attr-defined]
            self._turn = self._below.call_at(self._scheduled[0].when(), self._take_turn)  # type: ignore[attr-defined]

    def _take_turn(self) -> None:
        self._turn = None
        outer = events._get_running_loop()
        events._set_running_loop(self)
        self._thread_id = threading.get_ident()
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(outer)
            self._plan()

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no file descriptors."""

    def _write_to_self(self) -> None:
        """Do nothing: no thread waits."""
        self._plan()
