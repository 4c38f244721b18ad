"""Run a reconciler: workers that take keys of a work queue, repeat what failed, and come back when they are asked to.

Every controller is a set of subscriptions that add keys, and one `reconcile` that compares what is with what should be
for one key. Loops, queues, delays, back-off and yielding to the event loop are here and nowhere else.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from extender.domain.backoff import Backoff
from extender.domain.fair_queue import in_turns
from extender.domain.ports import PortError
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.work_queue import WorkQueue

_log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

DEFAULT_BACKOFF = Backoff()

BATCH = 20
"""Keys that a resync with a rate adds at a time."""

SHORTEST_PAUSE = 0.1
"""Seconds between two rounds of a resync at least, however long a round takes."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Ask for a key to be reconciled again after so many seconds, whatever happens meanwhile."""

    after: float
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Resync(Generic[K]):
    """Add all of `keys` when the controller starts, and every so many seconds after that.

    `every` `None`: at the start alone. The first round finds every change from before the start. `per_second` spreads a
    round, so that ten thousand keys cost no more a second than ten.
    """

    keys: Callable[[], Iterable[K]]
    every: float | None = None
    per_second: float = math.inf


Reconcile = Callable[[K], Awaitable[Requeue | None]]
"""Compare what is with what should be for one key, and act. Raises `PortError` where the other side did not answer."""


class Controller(Generic[K]):
    """Call `reconcile` for keys, with so many workers and never for one key twice at a time.

    Keys that are added while the controller does not run are dropped: a replica that does not lead keeps no work, and
    `resync` finds everything at the start. `keep_early` keeps them. A `PortError` is logged and the key repeated after
    `backoff`; any other exception is a fault of the program, and ends it.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        ranks: int = 1,
        flow_of: Callable[[K], str] = lambda _key: "",
        rerun: bool = True,
        backoff: Backoff = DEFAULT_BACKOFF,
        resync: Resync[K] | None = None,
        keep_early: bool = False,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(ranks=ranks, flow_of=flow_of, rerun=rerun)
        self._reconcile = reconcile
        self._workers = workers
        self._flow_of = flow_of
        self._last_rank = ranks - 1
        self._backoff = backoff
        self._resync = resync
        self._accepts = keep_early
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Return how many keys wait for a worker."""
        return len(self.queue)

    @property
    def running(self) -> bool:
        """Return whether the controller accepts keys."""
        return self._accepts

    def add(self, key: K, rank: int = 0, after: float = 0.0) -> bool:
        """Have a key reconciled, after so many seconds. Return whether it was queued because of this."""
        if not self._accepts:
            return False
        if after > 0.0:
            self.queue.add_after(key, after, rank)
            return True
        return self.queue.add(key, rank)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._accepts = True
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name} {number}")
                if self._resync is not None:
                    group.create_task(self._resync_regularly(self._resync), name=f"{self.name} resync")
        finally:
            self._accepts = False
            self.queue.close()

    async def _resync_regularly(self, resync: Resync[K]) -> None:
        turns, loop = CooperativeYield(), asyncio.get_running_loop()
        while True:
            began = loop.time()
            for number, key in enumerate(in_turns(tuple(resync.keys()), self._flow_of), 1):
                await turns.maybe_yield()
                self.add(key, self._last_rank)
                if number % BATCH == 0 and resync.per_second < math.inf:
                    await asyncio.sleep(BATCH / resync.per_second)
            if resync.every is None:
                return
            await asyncio.sleep(max(resync.every - (loop.time() - began), SHORTEST_PAUSE))

    async def _work(self) -> None:
        turns = CooperativeYield()
        while True:
            await turns.maybe_yield()  # a queue that is never empty would block the event loop
            key = await self.queue.get()
            again: Requeue | None = None
            try:
                again = await self._reconcile(key)
            except PortError as error:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                again = Requeue(self._backoff.after(failures), self._last_rank)
                _log.info("reconcile_failed", controller=self.name, key=key, error=str(error), again_after=again.after)
            else:
                self._failures.pop(key, None)
            finally:
                self.queue.done(key)
            if again is not None:
                self.queue.add_after(key, again.after, again.rank)
