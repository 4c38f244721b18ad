"""Since when nothing disturbs the cluster: promises that need time are held against that, not against the clock."""

from __future__ import annotations

import asyncio
from collections import Counter

from simulator.event_log import EventLog


class QuiescenceTracker:
    """Counts the disturbances under way. A cluster begins calm."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._since = 0.0

    def begin(self, what: str) -> None:
        """Something disturbs from now on."""
        self._under_way[what] += 1

    def end(self, what: str) -> None:
        """It does not any more."""
        self._under_way[what] -= 1
        if self._under_way[what] <= 0:
            del self._under_way[what]
        self._since = asyncio.get_running_loop().time()

    def touch(self) -> None:
        """Something disturbed for an instant."""
        self._since = asyncio.get_running_loop().time()

    def lasted(self, since: float) -> float:
        """For how many calm seconds something that began then has lasted."""
        if self._under_way:
            return 0.0
        return asyncio.get_running_loop().time() - max(since, self._since)


ABSENT = "no extender"


class AvailabilityTracker:
    """Tells the calm and the diary of each change; one is taken to be there at first."""

    def __init__(self, quiescence: QuiescenceTracker, event_log: EventLog) -> None:
        self._calm = quiescence
        self._diary = event_log
        self._here = True

    def is_here(self, here: bool) -> None:
        """What is so now."""
        if here == self._here:
            return
        self._here = here
        if here:
            self._calm.end(ABSENT)
            self._diary.add("the extender is ready")
        else:
            self._calm.begin(ABSENT)
