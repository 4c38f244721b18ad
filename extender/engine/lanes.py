"""Where commands wait their turn: bounded concurrency, no command twice at the same time.

Ends go before starts where both wait, but after `IN_A_ROW` turns of better ranks each other one has its own.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

from extender.domain.commands import Command
from extender.domain.rules import IN_A_ROW, rank
from extender.engine.turns import Turns

_Entry = tuple[int, str, Command]

Carry = Callable[[str, Command], Awaitable[None]]


class Lane:
    """One queue with a number of workers. `carry` must not raise: a worker that dies ends the process."""

    def __init__(self, name: str, workers: int, carry: Carry) -> None:
        self.name = name
        self._workers = workers
        self._carry = carry
        self._heaps: defaultdict[int, list[_Entry]] = defaultdict(list)
        self._passed: Counter[int] = Counter()
        """Turns of better ranks while this one waited."""

        self._order = itertools.count()
        self._known: dict[str, list[Command]] = {}
        """Queued and being carried out, by key."""

        self._arrived = asyncio.Semaphore(0)

    def __len__(self) -> int:
        return sum(map(len, self._heaps.values()))

    def put(self, key: str, command: Command) -> bool:
        """Queue it, unless the very same is queued or being carried out; whether it was."""
        known = self._known.setdefault(key, [])
        if command in known:
            return False
        known.append(command)
        heapq.heappush(self._heaps[rank(command)], (next(self._order), key, command))
        self._arrived.release()
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"lane {self.name} {number}")

    async def _work(self) -> None:
        turns = Turns()
        while True:
            await turns.give()  # a semaphore that is free lets nobody else run
            await self._arrived.acquire()
            _, key, command = self._next()
            try:
                await self._carry(key, command)
            finally:
                known = self._known[key]
                known.remove(command)
                if not known:
                    del self._known[key]

    def _next(self) -> _Entry:
        """The best rank's first; after so many turns of better ones, one of each rank that was passed over."""
        waiting = sorted(place for place, heap in self._heaps.items() if heap)
        chosen = max(waiting, key=lambda place: (self._passed[place], -place))
        if self._passed[chosen] < IN_A_ROW:
            chosen = waiting[0]
        self._passed[chosen] = 0
        for place in waiting:
            if place > chosen:
                self._passed[place] += 1
        return heapq.heappop(self._heaps[chosen])
