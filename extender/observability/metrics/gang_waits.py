"""Time how long gangs wait: from the moment at which all of their Pods are known to the Binding of the last one."""

from __future__ import annotations

from extender.domain.gangs.membership import is_key_of_gang
from extender.domain.placeholder import Placeholder, State

_WITHOUT_JOB = frozenset({State.ABSENT, State.REFUSED, State.RELEASING})
"""In all other states a job was found for it, before its Pods were read."""


class GangWaits:
    """Remember since when each gang has been complete. A gang that a start finds with its job is not timed."""

    def __init__(self) -> None:
        self._complete: dict[str, float] = {}

    def moved(self, before: Placeholder, after: Placeholder, now: float) -> float | None:
        """Return the wait of a gang whose members are all bound now, in seconds; `None`: it waits, or was not timed."""
        if not is_key_of_gang(after.key):
            return None
        if before.request is None and after.request is not None and before.state in _WITHOUT_JOB:
            self._complete[after.key] = now
        elif after.request is None or after.state in {State.GONE, State.LOST}:
            self._complete.pop(after.key, None)
        if after.state is not State.BOUND or any(member.wanting or member.binding for member in after.members):
            return None
        since = self._complete.pop(after.key, None)
        return None if since is None else now - since

    def forgotten(self, key: str) -> None:
        """Drop a gang that is remembered no more."""
        self._complete.pop(key, None)

    def __len__(self) -> int:
        """Return how many gangs are being timed."""
        return len(self._complete)
