"""Know whether Slurm answers polls: since when it does not, and what was wrong with the last one."""

from __future__ import annotations

import asyncio

from extender.domain.ports import Clock

AWAY_AFTER = 30.0
"""Seconds without an answered poll before Slurm counts as away."""


class SlurmHealth:
    """Hold the result of the last poll: the job controller writes it; components that depend on Slurm read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self.polled_at: float | None = None
        """When Slurm last answered a poll, on the clock for durations; `None`: never."""

        self.error = ""
        """What was wrong with the last poll; "": it was answered."""

        self.answers = asyncio.Event()
        """Set while the last poll was answered."""

        self._away: tuple[float | None, float] | None = None
        """The poll that was answered last, and since when none was, by the wall clock."""

    def answered(self) -> bool:
        """Take note of an answered poll. Return whether the one before was not."""
        back, self.error = bool(self.error), ""
        self.polled_at = self._clock.now()
        self.answers.set()
        return back

    def failed(self, error: str) -> bool:
        """Take note of a poll without an answer. Return whether the one before was answered."""
        first, self.error = not self.error, error
        self.answers.clear()
        return first

    def away_since(self) -> float | None:
        """Return since when Slurm is away, in seconds since the epoch; 0: from before the start; `None`: it is not."""
        now = self._clock.now()
        if self._began is None:
            self._began = now
        last = self.polled_at
        if now - (self._began if last is None else last) < AWAY_AFTER or not (self.error or last is None):
            self._away = None
            return None
        if self._away is None or self._away[0] != last:
            self._away = (last, 0.0 if last is None else self._clock.wall() - (now - last))
        return self._away[1]
