"""Write why each Pod waits on it: the condition `slurm-extender.io/Allocated`, and Events where nobody else does.

A Pod that is placed at once is written to no more than before. One that waits for a while is told why, and again when
that changes; once it has its node the condition becomes True. All Pods are looked at in turn and written to in turn, so
that ten thousand that wait cost no more a second than ten. What stands on the Pod is what was told: a start tells
nothing again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.why import Cause, Why
from extender.domain.ports import Announcement, Announcer, Clock, PodCache, Pods
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Resync
from extender.runtime.topics import PlaceholderForgotten

UNTOLD = frozenset({Cause.AWAY, Cause.OTHER_GATES, Cause.NOT_OFFERED, Cause.UNREAD, Cause.LOOKED_FOR, Cause.UNMAPPED})
"""Causes that no other Event tells of: all others follow from a step of the workload, which does."""

OVER = frozenset({Cause.LEAVING, Cause.ENDING, Cause.ELSEWHERE})
"""The Pod does not wait. Other conditions and Events say so, and this one only where it says something else."""


@dataclass(frozen=True, slots=True)
class ExplanationOptions:
    """Seconds, and Pods a second."""

    steady: float = 10.0
    """How long a cause has to last before it is written: most Pods are placed within that."""

    apart: float = 30.0
    """A Pod is written to no more often than this while it waits."""

    looks: float = 200.0
    writes: float = 10.0
    round: float = 1.0
    """A round of looks takes at least this long."""

    held: float = 60.0
    """While many Pods are being placed, a cause that lasts is written after this time: a placement matters more."""


@dataclass(slots=True)
class _Notified:
    """What is known of one Pod."""

    cause: Cause
    since: float
    written: Why | None = None
    """What was written last and the watch may not show yet."""

    not_before: float = 0.0


class Explanations:
    """Compare what each Pod says of its wait with the reason now. Keys are those of workloads."""

    def __init__(
        self,
        engine: Engine,
        pods: Pods,
        cache: PodCache,
        announcer: Announcer,
        clock: Clock,
        *,
        options: ExplanationOptions = ExplanationOptions(),
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._cache = cache
        self._announcer = announcer
        self._clock = clock
        self._options = options
        self._notified: dict[str, _Notified] = {}
        self._controller = Controller(
            "explanations",
            self._reconcile,
            owner_of=engine.placeholders.namespace_of,
            resync=Resync(lambda: engine.placeholders.all, options.round, options.looks),
        )
        self.written = self.failed = 0
        """Conditions, by what came of the request."""

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Forget what the Pods of a workload were told."""
        self._notified.pop(event.key, None)

    def of(self, p: Placeholder) -> Why:
        """Return why the Pods of this workload wait now."""
        return self._engine.explain(p)

    def waiting(self) -> Iterator[tuple[str, str]]:
        """Yield the key of each workload that waits, and the cause, as of the last look at it."""
        return (
            (key, str(one.cause)) for key, one in self._notified.items() if one.cause not in {*OVER, Cause.ALLOCATED}
        )

    async def run(self) -> None:
        """Compare and write, until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> None:
        p = self._engine.placeholders.get(key)
        if p is not None and await self._check(p):
            await asyncio.sleep(1 / self._options.writes)

    async def _check(self, p: Placeholder) -> bool:
        """Tell the Pods of a workload what has changed for them. Whether something was written."""
        ref = p.members[0].ref if len(p.members) == 1 and p.state is not State.GONE else None
        pod, now = self._cache.get(ref.uid) if ref is not None else None, self._clock.now()
        if ref is None or pod is None or pod.over or pod.deleted_at is not None:
            self._notified.pop(p.key, None)
            return False
        found, told = self.of(p), self._notified.get(p.key)
        if told is None or told.cause is not found.cause:
            written, not_before = (told.written, told.not_before) if told is not None else (None, 0.0)
            told = self._notified[p.key] = _Notified(found.cause, now, written, 0.0 if found.allocated else not_before)
        if told.written is not None and _shows(pod, told.written):
            told.written = None
        if not self._is_due(pod, found, told, now):
            return False
        changed = _cause_on(pod, told) != found.cause
        told.not_before = now + self._options.apart
        transition = _status_on(pod, told) is not found.allocated
        if not await self._pods.explain(ref, found, transition=transition, generation=pod.generation):
            self.failed += 1
            return True
        self.written += 1
        told.written = found
        if changed and found.cause in UNTOLD:
            said = Announcement("Pod", ref.namespace, ref.name, ref.uid, Reason.WAITING, found.text)
            self._announcer.announce(said)
        return True

    def _is_due(self, pod: PodView, found: Why, told: _Notified, now: float) -> bool:
        stands = _status_on(pod, told)
        if stands is None and (found.allocated or found.cause in OVER):
            return False
        if _text_on(pod, told) == (found.cause, found.text) and stands is found.allocated:
            return False
        least = 0.0 if found.allocated else self._options.steady
        if self._engine.placeholders.many_being_placed():
            least = self._options.held
        return now - told.since >= least and now >= told.not_before


def _shows(pod: PodView, written: Why) -> bool:
    stands = pod.allocated
    return stands is not None and (stands.status, stands.reason, stands.message) == (
        written.allocated,
        written.cause,
        written.text,
    )


def _status_on(pod: PodView, told: _Notified) -> bool | None:
    """What the condition says; `None`: there is none."""
    if told.written is not None:
        return told.written.allocated
    return None if pod.allocated is None else pod.allocated.status


def _cause_on(pod: PodView, told: _Notified) -> str:
    if told.written is not None:
        return told.written.cause
    return "" if pod.allocated is None else pod.allocated.reason


def _text_on(pod: PodView, told: _Notified) -> tuple[str, str]:
    if told.written is not None:
        return told.written.cause, told.written.text
    return ("", "") if pod.allocated is None else (pod.allocated.reason, pod.allocated.message)
