"""Since when nothing disturbs the cluster: promises that need time are held against that, not against the clock."""

from __future__ import annotations

import asyncio
from collections import Counter


class Calm:
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
