"""Keep the API server's wall clock, by its answers: its times are not compared with the local clock.

Every answer has a Date (`net/http` of Go writes it), in whole seconds. The local wall clock may be off by any amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from extender.domain.ports import Clock


class ApiClock:
    """Implement `ports.Clock`: local time for durations, the API server's time for what it wrote."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: float | None = None
        """Of the clock for durations."""

        self._date: str | None = None
        self._server_time = 0.0
        """The time of the last Date that was read, in seconds: most answers of one second have the same."""

    def now(self) -> float:
        """Return the local clock's time."""
        return self._clock.now()

    def wall(self) -> float:
        """Return the API server's time; before its first answer the local one."""
        return self._clock.wall() if self._ahead is None else self._clock.now() + self._ahead

    def answered(self, headers: Mapping[str, str]) -> None:
        """Record the time in an answer of the API server. Header names are lower-case. A malformed Date is ignored."""
        try:
            date = headers["date"]
            if date != self._date:
                self._server_time, self._date = parsedate_to_datetime(date).timestamp(), date
        except (KeyError, ValueError, OverflowError):
            return
        self._ahead = self._server_time - self._clock.now()


_API_CLOCK_IS_CLOCK: type[Clock] = ApiClock
