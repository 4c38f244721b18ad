"""Wake-ups of placeholders, in the order in which they are due."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

from extender.domain.ports import Clock

TICK = 0.001
"""Seconds; nothing is woken more exactly than that."""

SLACK = 64
"""Entries that may be out of date, besides as many as there are timers."""


class Timers:
    """One instant per key; setting it again replaces it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._earlier = asyncio.Event()

    def set(self, key: str, at: float | None) -> None:
        """Wake `key` at `at`, or never."""
        if at is None:
            self._due.pop(key, None)
            return
        if self._due.get(key) == at:
            return
        self._due[key] = at
        heapq.heappush(self._heap, (at, next(self._order), key))
        if len(self._heap) > SLACK + 2 * len(self._due):  # most of them were set to another time since
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        if self._heap[0][2] == key:
            self._earlier.set()

    async def run(self, fire: Callable[[str], None]) -> None:
        """Call `fire` for each key when it is due, until cancelled.

        A key that is set to an instant that is over is due a tick later: it leaves the loop its turns.
        """
        while True:
            for at, key in self._take_due():
                if self._due.get(key) == at:
                    del self._due[key]
                    fire(key)
            self._earlier.clear()
            # At least a tick: rounded, an instant may seem to lie ahead although the time-out for it has passed.
            wait = max(self._heap[0][0] - self._clock.now(), TICK) if self._heap else None
            try:
                async with asyncio.timeout(wait):
                    await self._earlier.wait()
            except TimeoutError:
                continue

    def _take_due(self) -> list[tuple[float, str]]:
        """Remove and return the entries that are due now, the earliest first. Some may be out of date."""
        now, entries = self._clock.now(), list[tuple[float, str]]()
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            entries.append((at, key))
        return entries
