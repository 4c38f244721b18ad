"""Report gangs that have been incomplete for a long time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from extender.domain.views import PodView
from extender.domain.wellknown import Reason


class IncompleteGangs:
    """Announce once why a gang is incomplete, on one of its Pods. Keys are those of workloads."""

    def __init__(self, announce: Callable[[PodView, Reason, str], None]) -> None:
        self._announce = announce
        self._since: dict[str, float] = {}
        """Since when each gang has been incomplete; infinite: an Event was announced."""

    def report(
        self,
        lacking: Collection[str],
        text_of: Callable[[str], str],
        pod_of: Callable[[str], PodView | None],
        now: float,
        within_s: float,
    ) -> None:
        """Announce the text of each gang that has been incomplete for so many seconds. `lacking` are all such gangs.

        `pod_of` returns a Pod of a gang that the API server has.
        """
        for key in self._since.keys() - lacking:
            del self._since[key]
        for key in lacking:
            if now - self._since.setdefault(key, now) >= within_s and (pod := pod_of(key)) is not None:
                self._since[key] = math.inf
                self._announce(pod, Reason.GANG_INCOMPLETE, text_of(key))
