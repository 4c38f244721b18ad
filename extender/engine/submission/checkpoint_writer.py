"""Write a checkpoint to Kubernetes before jobs are submitted. What a checkpoint proves: `domain.jobs.checkpoint`.

A number is raised only where the API server still has the number before it. After a restore it has an older one, so
the process goes on under another name, and what the old name proves stays as it was when etcd was saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.ports import CheckpointStore, Clock, PortError

_log = structlog.get_logger(__name__)

WRITE_AGAIN_AFTER = 2.0
"""Seconds after a failure for which none is tried: jobs are submitted without a checkpoint meanwhile."""

LOST = "the API server has another number: was etcd restored, or the Lease with the checkpoints changed by hand?"


class CheckpointWriter:
    """Write checkpoints, one at a time; submissions that wait meanwhile share the next one.

    `new_writer` gives a name that no other process ever had.
    """

    def __init__(self, store: CheckpointStore, clock: Clock, new_writer: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._new_writer = new_writer
        self._lock = asyncio.Lock()
        self._begun = 0
        """How many writes have begun."""

        self._last: Checkpoint | None = None
        """The last that was written; `None`: the next one begins under another name."""

        self._not_before = 0.0
        self.trouble = ""
        """Why the last one could not be written; ""."""

    async def write(self) -> Checkpoint | None:
        """Return a checkpoint whose write began after this call; `None`: it could not be written. Never raises."""
        begun_before = self._begun
        async with self._lock:
            if self._begun == begun_before and self._clock.now() >= self._not_before:
                await self._write_next()
            return self._last if self._begun > begun_before else None

    async def _write_next(self) -> None:
        self._begun += 1
        before, self._last = self._last, None  # also where this ends without an answer: it may have been carried out
        try:
            self._last = await self._following(before)
        except PortError as error:
            self._not_before = self._clock.now() + WRITE_AGAIN_AFTER
            if not self.trouble:
                _log.warning("checkpoint_not_written", error=str(error))
            self.trouble = str(error)
        else:
            if self.trouble:
                _log.info("checkpoint_written")
            self.trouble = ""

    async def _following(self, before: Checkpoint | None) -> Checkpoint:
        """Write the one after `before`, or the first of another writer. Raises PortError."""
        if before is not None:
            if await self._store.advance(before.writer, before.number + 1):
                return Checkpoint(before.writer, before.number + 1)
            _log.warning("checkpoint_lost", checkpoint=str(before), why=LOST)
        first = Checkpoint(self._new_writer(), 1)
        await self._store.begin(first.writer)
        return first
