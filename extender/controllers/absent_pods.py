"""Hold back the end of jobs whose Pods are absent from a list without a reported deletion.

A watch tells of a deletion: that is a fact. What is only absent from a list may have been deleted while nobody watched;
many at once may as well be an etcd that was restored from a backup, or the wrong API server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from extender.domain.rules import MassDeletionGuard
from extender.domain.views import PodView
from extender.ports import Clock

_log = structlog.get_logger(__name__)

HOW_TO_RELEASE = (
    "many Pods are missing in a list of the API server, and no deletion was seen: has etcd been restored? Their jobs "
    "are ended after orphans.manyGrace. If the Pods are really gone, SIGUSR1 to this process ends them now"
)


@dataclass(frozen=True, slots=True)
class _Missing:
    pod: PodView
    since: float


class AbsentPods:
    """Keeps Pods whose absence is not believed yet. `wait` seconds are enough, unless `dry_run`."""

    def __init__(self, clock: Clock, brake: MassDeletionGuard, wait: float, *, dry_run: bool = False) -> None:
        self._clock = clock
        self._brake = brake
        self._wait = wait
        self._dry_run = dry_run
        self._held: dict[str, _Missing] = {}

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, pods: Sequence[PodView], total: int) -> bool:
        """Whether the absence of these, of so many, is not believed; then they are kept."""
        missing = len(self._held) + len(pods)
        if not pods or not self._brake.many(missing, total):
            return False
        now = self._clock.now()
        self._held.update({pod.uid: _Missing(pod, now) for pod in pods})
        _log.error("missing_pods", missing=missing, of=total, seconds=self._wait, what=HOW_TO_RELEASE)
        return True

    def back(self, uid: str) -> PodView | None:
        """A Pod is there again; as it was last seen, if it was missing."""
        found = self._held.pop(uid, None)
        if found is not None and not self._held:
            _log.warning("missing_pods_returned", why="no Pod is missing any more")
        return found.pod if found is not None else None

    def due(self, *, now: bool = False) -> list[PodView]:
        """Those that are believed to be gone by now, or because a person says so; they are kept no longer."""
        oldest = self._clock.now() - self._wait
        pods = [one.pod for one in self._held.values() if now or (one.since <= oldest and not self._dry_run)]
        for pod in pods:
            del self._held[pod.uid]
        if pods:
            _log.warning("missing_pods_gone", pods=[pod.full_name for pod in pods], why="a person" if now else "waited")
        return pods
