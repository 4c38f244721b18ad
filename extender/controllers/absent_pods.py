"""Hold back the end of jobs whose Pods are absent from a list without a reported deletion.

A watch that reports a deletion states a fact. A Pod that is only absent from a list may have been deleted while no
watch was open; if many are absent at once, etcd may have been restored from a backup, or the API server may be the
wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from extender.domain.ports import Clock
from extender.domain.views import PodView
from extender.engine.mass_deletion_guard import MassDeletionGuard

_log = structlog.get_logger(__name__)

HOW_TO_RELEASE = (
    "many Pods are missing in a list of the API server, and no deletion was seen: has etcd been restored? Their jobs "
    "are ended after orphans.massGracePeriod. If the Pods are really gone, SIGUSR1 to this process ends them now"
)


@dataclass(frozen=True, slots=True)
class _Missing:
    pod: PodView
    since: float


class AbsentPods:
    """Keep Pods whose absence is not yet accepted as a deletion."""

    def __init__(self, clock: Clock, guard: MassDeletionGuard) -> None:
        self._clock = clock
        self._guard = guard
        self._wait = guard.options.mass_grace
        self._dry_run = guard.options.dry_run
        self._held: dict[str, _Missing] = {}

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, pods: Sequence[PodView], total: int) -> bool:
        """Return whether the absence of so many is not accepted yet; then the Pods are kept."""
        missing = len(self._held) + len(pods)
        if not pods or not self._guard.is_mass(missing, total):
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
        """Return and drop the Pods that count as gone now: after the grace time, or confirmed by an administrator."""
        oldest = self._clock.now() - self._wait
        pods = [one.pod for one in self._held.values() if now or (one.since <= oldest and not self._dry_run)]
        for pod in pods:
            del self._held[pod.uid]
        if pods:
            _log.warning(
                "missing_pods_gone", pods=[pod.full_name for pod in pods], why="confirmed" if now else "waited"
            )
        return pods
