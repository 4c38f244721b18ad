"""Wait until the Pods of a workload have left their nodes, for the hooks that asked."""

from __future__ import annotations

import asyncio

from extender.domain.placeholders import Placeholders
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PlaceholderChanged


class PodDrainWaiters:
    """Keep one event for each workload that a hook waits for."""

    def __init__(self, placeholders: Placeholders, events: EventBus) -> None:
        self._placeholders = placeholders
        self._left: dict[str, asyncio.Event] = {}
        events.subscribe(PlaceholderChanged, self._placeholder_changed)

    def _placeholder_changed(self, event: PlaceholderChanged) -> None:
        before, after = event.before, event.after
        if before.placed and not after.placed and (left := self._left.pop(after.key, None)) is not None:
            left.set()

    async def wait_drained(self, job_id: int, wait: float) -> bool:
        """Wait until no Pod of this job's workload is on a node any more. False: some still is after `wait` seconds."""
        p = self._placeholders.by_job(job_id)
        if p is None or not p.placed:
            return True
        left = self._left.setdefault(p.key, asyncio.Event())
        try:
            async with asyncio.timeout(wait):
                await left.wait()
        except TimeoutError:
            return False
        return True
