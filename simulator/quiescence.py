"""Track since when no fault is active: invariants that need time are measured from then, not by the clock."""

from __future__ import annotations

import asyncio
from collections import Counter

from simulator.event_log import EventLog


class QuiescenceTracker:
    """Count active disturbances. A new cluster has none."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._since = 0.0

    def begin(self, what: str) -> None:
        """Start a disturbance."""
        self._under_way[what] += 1

    def end(self, what: str) -> None:
        """End a disturbance."""
        self._under_way[what] -= 1
        if self._under_way[what] <= 0:
            del self._under_way[what]
        self._since = asyncio.get_running_loop().time()

    def touch(self) -> None:
        """Record a disturbance without a duration."""
        self._since = asyncio.get_running_loop().time()

    def lasted(self, since: float) -> float:
        """Return how many undisturbed seconds have passed since `since`."""
        if self._under_way:
            return 0.0
        return asyncio.get_running_loop().time() - max(since, self._since)


ABSENT = "no extender"


class AvailabilityTracker:
    """Report a disturbance while no extender is ready. Initially one is assumed to be ready."""

    def __init__(self, quiescence: QuiescenceTracker, event_log: EventLog) -> None:
        self._quiescence = quiescence
        self._event_log = event_log
        self._here = True

    def is_here(self, here: bool) -> None:
        """Set whether an extender is ready."""
        if here == self._here:
            return
        self._here = here
        if here:
            self._quiescence.end(ABSENT)
            self._event_log.add("the extender is ready")
        else:
            self._quiescence.begin(ABSENT)
