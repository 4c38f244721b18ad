"""Yield to the event loop every 10 ms during long CPU-bound loops: kube-scheduler and the Lease wait meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SLICE_S = 0.01
"""Seconds of work at a time; a call of kube-scheduler waits no longer for its turn."""


class CooperativeYield:
    """Counts the time since the last yield. `now` is in seconds; by default the running loop's."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or asyncio.get_running_loop().time
        self._since = self._now()

    @property
    def is_due(self) -> bool:
        """Return whether the other tasks have waited long enough."""
        return self._now() - self._since > SLICE_S

    async def maybe_yield(self) -> None:
        """Let the others run, if they have waited long enough."""
        if self.is_due:
            await asyncio.sleep(0)
            self._since = self._now()
