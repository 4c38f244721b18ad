"""Remember the resource versions that were seen of an API server: a change that comes again, or late, is ignored.

Versions of objects of one kind are numbers that grow with every change, and can be compared (KEP-5504; stable since
Kubernetes 1.35, and so before in everything that etcd keeps). One that is no number is accepted.
"""

from __future__ import annotations

from collections import deque

REMEMBERED = 1000
"""Versions of the last lines of a watch. A line that is older than these is taken for one that was missed."""

ACCEPT_OLDER_LIST_AFTER_S = 150.0
"""A list that is older than what was seen comes from a cache that lags, and the next answer may not; one that is still
older then, from an etcd that was restored from a backup and gives out its versions once more."""


class OutOfOrder(Exception):
    """A change comes after a later one: other changes may be missing."""


class VersionOrder:
    """Of one kind of object."""

    def __init__(self) -> None:
        self._seen = 0
        self._begun = 0
        self._notified: deque[int] = deque(maxlen=REMEMBERED)
        self._doubted_since: float | None = None

    def doubts(self, version: str, now: float) -> bool:
        """Return whether to request a list of this version again, as it is older than a version seen before."""
        if not version.isdecimal() or int(version) >= self._seen:
            return False
        if self._doubted_since is None:
            self._doubted_since = now
        return now - self._doubted_since < ACCEPT_OLDER_LIST_AFTER_S

    def listed(self, version: str) -> None:
        """Accept this list; a watch from its version follows."""
        self._doubted_since = None
        self._notified.clear()
        self._begun = self._seen = int(version) if version.isdecimal() else 0

    def is_news(self, version: str) -> bool:
        """Return whether a line of the watch with this version is new. Raises OutOfOrder."""
        if not version.isdecimal():
            return True
        number = int(version)
        if number > self._seen:
            self._seen = number
            self._notified.append(number)
            return True
        if number <= self._begun or number in self._notified:
            return False
        raise OutOfOrder(f"a change of version {number} after one of version {self._seen}")
