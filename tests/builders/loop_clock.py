"""A clock on the time of the running event loop, virtual or not."""

from __future__ import annotations

import asyncio


class LoopClock:
    """Show the time of the loop on both clocks; the wall clock begins at `epoch`."""

    def __init__(self, epoch: float = 1_800_000_000.0) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return self._epoch + self.now()
