"""Where commands wait their turn: bounded concurrency, no command twice at the same time.

Ends go before starts where both wait, but one in `ENDS_IN_A_ROW` + 1 turns is for whatever else waits.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from extender.domain.commands import Command
from extender.domain.rules import ENDS_IN_A_ROW, rank

END = 0
"""The rank of ends."""

_Entry = tuple[int, int, str, Command]

Carry = Callable[[str, Command], Awaitable[None]]


class Lane:
    """One queue with a number of workers. `carry` must not raise: a worker that dies ends the process."""

    def __init__(self, name: str, workers: int, carry: Carry) -> None:
        self.name = name
        self._workers = workers
        self._carry = carry
        self._ends: list[_Entry] = []
        self._others: list[_Entry] = []
        self._in_a_row = 0
        """Ends that went while others waited."""

        self._order = itertools.count()
        self._known: dict[str, list[Command]] = {}
        """Queued and being carried out, by key."""

        self._arrived = asyncio.Semaphore(0)

    def __len__(self) -> int:
        return len(self._ends) + len(self._others)

    def put(self, key: str, command: Command) -> None:
        """Queue it, unless the very same is queued or being carried out."""
        known = self._known.setdefault(key, [])
        if command in known:
            return
        known.append(command)
        place = rank(command)
        heapq.heappush(self._ends if place == END else self._others, (place, next(self._order), key, command))
        self._arrived.release()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"lane {self.name} {number}")

    async def _work(self) -> None:
        while True:
            await self._arrived.acquire()
            _, _, key, command = self._next()
            try:
                await self._carry(key, command)
            finally:
                known = self._known[key]
                known.remove(command)
                if not known:
                    del self._known[key]

    def _next(self) -> _Entry:
        if not self._others:
            self._in_a_row = 0
            return heapq.heappop(self._ends)
        if self._ends and self._in_a_row < ENDS_IN_A_ROW:
            self._in_a_row += 1
            return heapq.heappop(self._ends)
        self._in_a_row = 0
        return heapq.heappop(self._others)
