"""Queue keys for workers: each key once, one worker at a time on a key, urgent ones first, flows in turn.

The model is client-go's work queue. What is queued is a key and no event: a worker compares what is with what should be
when it takes the key, so that ten changes of one object cost one reconciliation. Beyond client-go it has ranks, since
the end of a job is more urgent than a new one, and turns of flows, since a namespace with ten thousand Pods must not
delay the one Pod of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from extender.domain.fair_queue import FairQueue
from extender.runtime.timers import TICK

K = TypeVar("K", bound=Hashable)

IN_A_ROW = 3
"""Keys of better ranks that are taken before one of a rank that waits meanwhile: urgent work delays other work, and
does not stop it."""


class WorkQueue(Generic[K]):
    """Hold the keys that are to be worked on.

    `ranks`: how many there are; rank 0 is taken first. `flow_of` gives the flow of a key, such as its namespace; a
    flow that has had a turn waits for the turns of all others. `rerun`: a key that is added while a worker has it is
    queued again when that worker is done; otherwise it is dropped.
    """

    def __init__(self, *, ranks: int = 1, flow_of: Callable[[K], str] = lambda _key: "", rerun: bool = True) -> None:
        self._flow_of = flow_of
        self._rerun = rerun
        self._ready: tuple[FairQueue[K], ...] = tuple(FairQueue() for _ in range(ranks))
        self._rank: dict[K, int] = {}
        """The rank of each key that is ready. An entry of `_ready` under another rank is void."""

        self._passed = [0] * ranks
        """How many keys of better ranks were taken since the last of each rank that waits."""

        self._working: set[K] = set()
        self._again: dict[K, int] = {}
        """Keys that were added while a worker had them, and their rank."""

        self._later: dict[K, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Semaphore(0)

    def __len__(self) -> int:
        return len(self._rank)

    @property
    def idle(self) -> bool:
        """Return whether no key is ready, delayed or with a worker."""
        return not (self._rank or self._working or self._later)

    def __contains__(self, key: object) -> bool:
        """Return whether this key is ready."""
        return key in self._rank

    def works_on(self, key: K) -> bool:
        """Return whether a worker has this key now."""
        return key in self._working

    def add(self, key: K, rank: int = 0) -> bool:
        """Queue a key, or give one that is queued a better rank. Return whether the key is queued because of this."""
        if key in self._working:
            if self._rerun:
                self._again[key] = min(rank, self._again.get(key, rank))
            return self._rerun
        known = self._rank.get(key)
        if known is not None and known <= rank:
            return False
        if (timer := self._later.pop(key, None)) is not None:
            timer.cancel()
        self._rank[key] = rank
        self._ready[rank].push(self._flow_of(key), key)
        self._arrived.release()
        return known is None

    def add_after(self, key: K, seconds: float, rank: int = 0) -> None:
        """Queue a key after so many seconds, unless it is queued before. Of two delays the shorter counts.

        A delay is at least a tick: one that the clock cannot add, such as the rest of a rounded difference, would come
        back at the same instant again and again.
        """
        if key in self._rank:
            return
        if seconds <= 0.0:
            self.add(key, rank)
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(seconds, TICK)
        if (timer := self._later.get(key)) is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._later[key] = loop.call_at(at, self._ripe, key, rank)

    async def get(self) -> K:
        """Take the next key; wait until there is one. The caller says `done` when it has worked on it."""
        while True:
            await self._arrived.acquire()
            key = self._take()
            if key is not None:
                self._working.add(key)
                return key

    def done(self, key: K) -> None:
        """Take note that the worker is done with this key, so that another may take it."""
        self._working.discard(key)
        rank = self._again.pop(key, None)
        if rank is not None:
            self.add(key, rank)

    def close(self) -> None:
        """Cancel every delay. Ready keys stay in the queue, and no worker takes them."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _ripe(self, key: K, rank: int) -> None:
        del self._later[key]
        self.add(key, rank)

    def _take(self) -> K | None:
        """Return the next key of the best rank, or of one that was passed over `IN_A_ROW` times."""
        waiting = [rank for rank, queue in enumerate(self._ready) if queue]
        while waiting:
            chosen = waiting[0]
            if len(waiting) > 1:
                passed = max(waiting, key=lambda rank: (self._passed[rank], -rank))
                chosen = passed if self._passed[passed] >= IN_A_ROW else chosen
            key = self._ready[chosen].pop()
            if key is not None and self._rank.get(key) == chosen:
                del self._rank[key]
                self._passed[chosen] = 0
                for rank in waiting:
                    if rank > chosen:
                        self._passed[rank] += 1
                return key
            if not self._ready[chosen]:
                waiting.remove(chosen)
        return None
