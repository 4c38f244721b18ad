"""Log a repeated failure at its first time, and then at most once a minute with a count."""

from __future__ import annotations

from collections import Counter

from extender.domain.ports import Clock

LOG_INTERVAL_S = 60.0
"""Of each thing one line in this time."""


class LogThrottle:
    """Remembers when each kind of failure was last logged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._since: Counter[str] = Counter()

    def times(self, what: str) -> int:
        """Count one more occurrence. Return how many to report now, 0 if one was reported just now."""
        now = self._clock.now()
        self._since[what] += 1
        last = self._logged_at.get(what)
        if last is not None and now - last < LOG_INTERVAL_S:
            return 0
        self._logged_at[what] = now
        return self._since.pop(what)
