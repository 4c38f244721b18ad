"""Stop writes to Slurm and to Kubernetes while this replica does not hold the Lease.

Every write checks the gate right before its bytes are handed over, also on an open connection and in a repetition. The
gate reads a clock and depends on no task: a process that was stopped for a minute finds the gate closed at its first
write, whatever its other tasks know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WriteGate:
    """Open without end if leader election is off; else from one renewal of the Lease to the deadline of the next.

    `elapsed` returns seconds that include the time in which the process or its machine is stopped.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._within_s: float | None = None
        self._margin_s = 0.0
        self._until: float | None = None
        self._closed = asyncio.Event()
        self.epoch = 0
        """The number of changes of the leader; 0 for a process that is the only one."""

    @property
    def shared(self) -> bool:
        """Return whether another process may hold the gate."""
        return self._within_s is not None

    def share(self, within_s: float, margin_s: float = 0.0) -> None:
        """Close the gate until `renewed`, and again `within_s` seconds after the last renewal.

        `margin_s`: how much later another replica may write.
        """
        self._within_s, self._margin_s = within_s, margin_s

    def renewed(self, sent_at: float, epoch: int) -> None:
        """Open the gate: the API server accepted a renewal that was *sent* at `sent_at`."""
        if self._within_s is not None and not self._closed.is_set():
            self._until, self.epoch = sent_at + self._within_s, epoch

    def give_up(self) -> None:
        """Write nothing more."""
        self._closed.set()

    @property
    def held(self) -> bool:
        """Return whether the gate was given, and has neither run out nor been given up."""
        return self.left_s > 0

    @property
    def left_s(self) -> float:
        """Return the seconds until the gate closes; `inf` for a process that is the only one."""
        if self._closed.is_set():
            return 0.0
        if self._within_s is None:
            return float("inf")
        return 0.0 if self._until is None else max(0.0, self._until - self._elapsed())

    @property
    def answer_within_s(self) -> float:
        """Return for how many seconds an answer to a write is of use: after that another process may write."""
        return self.left_s + self._margin_s

    def may_write(self) -> bool:
        """Ask before each write. A right that was held and has run out is over for good."""
        if self.held:
            return True
        if self._until is not None:
            self._closed.set()
        return False

    async def wait_closed(self) -> None:
        """Wait until the loss of the Lease was noticed."""
        await self._closed.wait()
