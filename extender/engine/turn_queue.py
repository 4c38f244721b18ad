"""Work that waits for a worker: the better rank first, and within a rank namespaces take turns."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from extender.domain.fair_queue import FairQueue

T = TypeVar("T")


class TurnQueue(Generic[T]):
    """A queue without a bound of its own: who puts work into it sees to it that nothing is queued twice."""

    def __init__(self, ranks: int = 1) -> None:
        self._queues: tuple[FairQueue[T], ...] = tuple(FairQueue() for _ in range(ranks))
        self._arrived = asyncio.Semaphore(0)

    def __len__(self) -> int:
        return sum(map(len, self._queues))

    def put(self, namespace: str, item: T, rank: int = 0) -> None:
        """Queue it; rank 0 is the best."""
        self._queues[rank].push(namespace, item)
        self._arrived.release()

    async def get(self) -> T:
        """Take the next one; wait until there is one."""
        while True:
            await self._arrived.acquire()
            for queue in self._queues:
                if (item := queue.pop()) is not None:
                    return item
