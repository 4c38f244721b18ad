"""Write a checkpoint to Kubernetes before jobs are submitted. What a checkpoint proves: `domain.jobs.checkpoint`.

A number is raised only where the API server still has the number before it. After a restore it has an older one, so
the process goes on under another name, and what the old name proves stays as it was when etcd was saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.ports import CheckpointStore, Clock, PortError

_log = structlog.get_logger(__name__)

WRITE_AGAIN_AFTER = 2.0
"""Seconds after a failure for which none is tried: jobs are submitted without a checkpoint meanwhile."""

SHARED_FOR = 10.0
"""Seconds for which a checkpoint may still be named by new jobs: after a restore of etcd it proves no deletion."""

LOST = "the API server has another number: etcd was restored, or the Lease with the checkpoints was edited"


@dataclass(frozen=True, slots=True)
class _Written:
    checkpoint: Checkpoint
    number: int
    """It was the `number`-th write that began."""

    at: float
    """When the write began."""


class CheckpointWriter:
    """Write checkpoints, one at a time; submissions share one that covers their Pods.

    A checkpoint covers the Pods that were seen before its write began, however long their submission waits for its
    turn. `new_writer` gives a name that no other process ever had.
    """

    def __init__(self, store: CheckpointStore, clock: Clock, new_writer: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._new_writer = new_writer
        self._lock = asyncio.Lock()
        self.begun = 0
        """How many writes have begun. Pods that are seen now are covered by the writes that begin after these."""

        self._last: Checkpoint | None = None
        """The last that was written; `None`: the next one begins under another name."""

        self._written: _Written | None = None
        self._not_before = 0.0
        self.trouble = ""
        """Why the last one could not be written; ""."""

    async def write(self, seen: int) -> Checkpoint | None:
        """Return a checkpoint that covers Pods that were seen when `begun` was `seen`. Never raises.

        `None`: it could not be written.
        """
        if (known := self._covering(seen)) is not None:
            return known
        async with self._lock:
            if (known := self._covering(seen)) is not None:
                return known
            if self._clock.now() >= self._not_before:
                await self._write_next()
            return self._covering(seen)

    async def has(self, checkpoint: Checkpoint) -> bool:
        """Return whether Kubernetes has a checkpoint now. Raises PortError."""
        return (await self._store.read()).get(checkpoint.writer, 0) >= checkpoint.number

    def _covering(self, seen: int) -> Checkpoint | None:
        written = self._written
        if written is None or written.number <= seen or self._clock.now() - written.at > SHARED_FOR:
            return None
        return written.checkpoint

    async def _write_next(self) -> None:
        self.begun += 1
        number, at = self.begun, self._clock.now()
        before, self._last = self._last, None  # also where this ends without an answer: it may have been carried out
        try:
            self._last = await self._following(before)
            self._written = _Written(self._last, number, at)
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
