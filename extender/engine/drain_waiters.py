"""Wait until the Pods of a unit have left their nodes, for the hooks that asked."""

from __future__ import annotations

import asyncio

from extender.domain.placeholder import Placeholder
from extender.engine.units import Units


class PodDrainWaiters:
    """One event for each unit that somebody waits for."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._left: dict[str, asyncio.Event] = {}

    def stepped(self, before: Placeholder, after: Placeholder) -> None:
        """A unit changed."""
        if before.placed and not after.placed and (left := self._left.pop(after.key, None)) is not None:
            left.set()

    async def until_over(self, job_id: int, wait: float) -> bool:
        """Wait until no Pod of this job's unit is on a node any more. False: some still is after `wait` seconds."""
        p = self._units.by_job(job_id)
        if p is None or not p.placed:
            return True
        left = self._left.setdefault(p.key, asyncio.Event())
        try:
            async with asyncio.timeout(wait):
                await left.wait()
        except TimeoutError:
            return False
        return True
