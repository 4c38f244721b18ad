"""Everything in the simulated Slurm that happens later, on the time of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

EPOCH = 1_800_000_000.0
"""The wall clock of the simulated Slurm, and of the simulated cluster, when it begins."""


class SimTimers:
    """Calls and coroutines that end with `aclose`. Belongs to the loop that is running when it is made.

    `epoch` is the wall clock when the loop's clock says 0, in seconds since the epoch.
    """

    def __init__(self, epoch: float = EPOCH) -> None:
        self._loop = asyncio.get_running_loop()
        self._epoch = epoch
        self._handles: set[asyncio.TimerHandle] = set()
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began."""

        self._closed = False

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return self._epoch + self._loop.time()

    def after(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle | None:
        """Call later; `None` once closed."""
        if self._closed:
            return None

        def fire() -> None:
            self._handles.discard(handle)
            call()

        handle = self._loop.call_later(seconds, fire)
        self._handles.add(handle)
        return handle

    def drop(self, handle: asyncio.TimerHandle | None) -> None:
        """Take a call back; `None` is nothing to take back."""
        if handle is not None:
            handle.cancel()
            self._handles.discard(handle)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine beside everything else; its failure is raised by `aclose`."""
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def aclose(self) -> None:
        """Take back every call, cancel every task and wait for it. Raises what the tasks raised."""
        self._closed = True
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A task that failed stays, so that `aclose` meets its exception.
        if task.cancelled() or task.exception() is None:
            self._tasks.pop(task, None)
