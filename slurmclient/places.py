"""Places at connections: so many requests at a time, in order, and those that cannot wait before all others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Places:
    """A semaphore with two queues."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._first: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def place(self, *, first: bool) -> AsyncIterator[None]:
        """Wait for a place, and keep it inside. `first`: before everybody who is not."""
        await self._take(self._first if first else self._others)
        try:
            yield
        finally:
            self._give()

    async def _take(self, queue: deque[asyncio.Future[None]]) -> None:
        if self._free:  # nobody waits then
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                queue.remove(turn)
            else:
                self._give()  # it came in the instant in which nobody wanted it any more
            raise

    def _give(self) -> None:
        for queue in (self._first, self._others):
            for turn in queue:
                if not turn.done():
                    queue.remove(turn)
                    turn.set_result(None)
                    return
        self._free += 1
