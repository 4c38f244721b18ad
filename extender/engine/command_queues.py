"""Queue commands with bounded concurrency; the same command never runs twice at the same time.

Ends go before starts where both wait, but after `IN_A_ROW` turns of better ranks each other one has its own. Within a
rank namespaces take turns, so that a namespace with a great many Pods delays no Pod of another one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

from extender.domain.commands import Command
from extender.domain.fair_queue import FairQueue
from extender.domain.rules import IN_A_ROW, rank
from extender.runtime.cooperative_yield import CooperativeYield

_Entry = tuple[str, Command]

Carry = Callable[[str, Command], Awaitable[None]]


class CommandQueue:
    """One queue with a number of workers. `carry` must not raise: a worker that dies ends the process.

    `namespace_of` gives the namespace of a unit by its key.
    """

    def __init__(
        self, name: str, workers: int, carry: Carry, namespace_of: Callable[[str], str] = lambda _key: ""
    ) -> None:
        self.name = name
        self._workers = workers
        self._carry = carry
        self._namespace_of = namespace_of
        self._queues: defaultdict[int, FairQueue[_Entry]] = defaultdict(FairQueue)
        self._passed: Counter[int] = Counter()
        """Turns of better ranks while this one waited."""

        self._known: dict[str, list[Command]] = {}
        """Queued and being carried out, by key."""

        self._arrived = asyncio.Semaphore(0)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def put(self, key: str, command: Command) -> bool:
        """Queue it, unless the very same is queued or being carried out; whether it was."""
        known = self._known.setdefault(key, [])
        if command in known:
            return False
        known.append(command)
        self._queues[rank(command)].push(self._namespace_of(key), (key, command))
        self._arrived.release()
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"lane {self.name} {number}")

    async def _work(self) -> None:
        turns = CooperativeYield()
        while True:
            await turns.maybe_yield()  # a semaphore that is free lets nobody else run
            await self._arrived.acquire()
            key, command = self._next()
            try:
                await self._carry(key, command)
            finally:
                known = self._known[key]
                known.remove(command)
                if not known:
                    del self._known[key]

    def _next(self) -> _Entry:
        """The next of the best rank; after so many turns of better ones, one of each rank that was passed over."""
        waiting = sorted(place for place, queue in self._queues.items() if queue)
        chosen = max(waiting, key=lambda place: (self._passed[place], -place))
        if self._passed[chosen] < IN_A_ROW:
            chosen = waiting[0]
        self._passed[chosen] = 0
        for place in waiting:
            if place > chosen:
                self._passed[place] += 1
        entry = self._queues[chosen].pop()
        if entry is None:
            raise RuntimeError("a worker was woken and nothing is queued")
        return entry
