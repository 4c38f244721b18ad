"""Stop writes to Slurm and to Kubernetes while this replica does not hold the Lease.

Every write asks it in the turn of the loop in which its bytes are handed over, on a connection that is there already
and in a repetition too. It looks at a clock and not at what some task has noticed: a process that was stopped for a
minute finds out in its first write that it may not write any more, whatever its other tasks still believe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WriteGate:
    """Open for ever without leader election; else from one renewal of the Lease to the deadline of the next.

    `elapsed` gives seconds that go on while the process or its machine is stopped.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._within_s: float | None = None
        self._margin_s = 0.0
        self._until: float | None = None
        self._over = asyncio.Event()
        self.epoch = 0
        """How often the right has changed hands; 0 for a process that shares its work with nobody."""

    @property
    def shared(self) -> bool:
        """Others may hold it."""
        return self._within_s is not None

    def share(self, within_s: float, margin_s: float = 0.0) -> None:
        """From now on nothing may be written before `renewed`, nor `within_s` seconds after the last renewal.

        `margin_s`: how much later somebody else may write.
        """
        self._within_s, self._margin_s = within_s, margin_s

    def renewed(self, sent_at: float, epoch: int) -> None:
        """Whoever gives the right has granted a request that was *sent* at `sent_at`."""
        if self._within_s is not None and not self._over.is_set():
            self._until, self.epoch = sent_at + self._within_s, epoch

    def give_up(self) -> None:
        """Write nothing more."""
        self._over.set()

    @property
    def held(self) -> bool:
        """It was given, and has neither run out nor been given up."""
        return self.left_s > 0

    @property
    def left_s(self) -> float:
        """Seconds for which it is still held; `inf` where nobody shares it."""
        if self._over.is_set():
            return 0.0
        if self._within_s is None:
            return float("inf")
        return 0.0 if self._until is None else max(0.0, self._until - self._elapsed())

    @property
    def answer_within_s(self) -> float:
        """For how long an answer to a write that is sent now is of use: then another one may write."""
        return self.left_s + self._margin_s

    def may_write(self) -> bool:
        """Ask before each write. A right that was held and has run out is over for good."""
        if self.held:
            return True
        if self._until is not None:
            self._over.set()
        return False

    async def until_over(self) -> None:
        """Wait until somebody noticed that it is over."""
        await self._over.wait()
