"""Track requests that change something until they are answered, also when their caller is cancelled.

An abandoned request may be executed seconds later, after the next caller has found no trace of it and has sent it
again. So a graceful stop waits for answers, although no task records them: their effects are visible then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class InFlightWrites:
    """The unanswered writes of one process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def shield(self, request: Coroutine[Any, Any, T]) -> T:
        """Send the request so that a cancelled caller does not cancel it; return its answer. Raises what it raises."""
        task = asyncio.get_running_loop().create_task(request)
        self._tasks.add(task)
        task.add_done_callback(self._remove)
        return await asyncio.shield(task)

    async def answered(self, within_s: float) -> int:
        """Wait until none is left, for `within_s` seconds at most; how many are."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=within_s)
        return len(self._tasks)

    def give_up(self) -> None:
        """Send no more of them, and wait for no answer."""
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Give up, and return when nothing of them is left."""
        self.give_up()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _remove(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller gets the exception; asyncio must not log it as never retrieved
