"""The one rule for pauses after failures: the pause doubles up to a longest one."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DOUBLINGS = 32
"""Any longest pause is reached before; it only keeps the power from growing without a bound."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds: `first` after one failure, then twice as long each time, at most `most`."""

    first: float = 1.0
    most: float = 60.0

    def after(self, failures: int) -> float:
        """Return the pause after so many failures in a row, the last one counted."""
        return min(self.first * 2.0 ** min(max(failures - 1, 0), MOST_DOUBLINGS), self.most)
