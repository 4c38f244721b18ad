"""Write on each Pod why it waits: the condition `slurm-extender.io/Allocated`, and Events where no other code writes
one.

A Pod that is placed at once causes no additional write. A Pod that waits for a while shows the reason, and again when
it changes; once it has its node the condition becomes True. All Pods are checked and written to in turn, so that ten
thousand waiting Pods cost no more per second than ten. The Pod itself shows what was written: a start writes nothing
twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from extender.domain.events import MemberRef
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.why import Cause, Why
from extender.domain.ports import Announcement, Announcer, Clock, PodCache, Pods
from extender.domain.views import PodView
from extender.domain.wellknown import Reason
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Resync
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.topics import PlaceholderForgotten

WITHOUT_EVENT = frozenset(
    {
        Cause.SLURM_UNREACHABLE,
        Cause.OTHER_SCHEDULING_GATES,
        Cause.NO_NODE_OFFERED,
        Cause.NODES_NOT_READ,
        Cause.JOB_LOOKUP,
        Cause.NODE_NOT_MAPPED,
        Cause.RESOURCE_CLAIM_MISSING,
    }
)
"""Causes without an Event of their own: all others follow from a step of the workload, which writes one."""

NOT_WAITING = frozenset({Cause.POD_TERMINATING, Cause.ALLOCATION_ENDING, Cause.BOUND_WITHOUT_SLURM})
"""Causes with which the Pod does not wait. They are written only if the condition still names another cause."""

AGE_S = 1.0
"""For so long the members of a workload that does not change share one computed reason."""


@dataclass(frozen=True, slots=True)
class ExplanationOptions:
    """Seconds, and Pods a second."""

    steady: float = 10.0
    """How long a cause has to last before it is written: most Pods are placed within that."""

    apart: float = 30.0
    """A Pod is written to no more often than this while it waits."""

    checks: float = 200.0
    writes: float = 10.0
    round: float = 1.0
    """A round of looks takes at least this long."""

    held: float = 60.0
    """While many Pods are being placed, a cause that lasts is written after this time: a placement matters more."""


@dataclass(slots=True)
class _Notified:
    """The last cause of one Pod, and the last write on it."""

    cause: Cause
    since: float
    written: Why | None = None
    """What was written last and the watch may not show yet."""

    not_before: float = 0.0


class _Reason:
    """Compute once why a workload waits, for all its members, until it changes or AGE_S have passed."""

    def __init__(self, explain: Callable[[Placeholder], Why], clock: Clock) -> None:
        self._explain = explain
        self._clock = clock
        self._last: tuple[Placeholder, Why, float] | None = None

    def of(self, p: Placeholder) -> Why:
        """Return why the members of this workload wait."""
        now = self._clock.now()
        if self._last is None or self._last[0] is not p or now - self._last[2] > AGE_S:
            self._last = (p, self._explain(p), now)
        return self._last[1]


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
        self._notified: dict[str, dict[str, _Notified]] = {}
        """By workload and member."""

        self._controller = Controller(
            "explanations",
            self._reconcile,
            flow_of=engine.placeholders.namespace_of,
            resync=Resync(lambda: engine.placeholders.all, options.round, options.checks),
        )
        self.written = self.failed = 0
        """Conditions, by what came of the request."""

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Forget what was written on the Pods of a workload."""
        self._notified.pop(event.key, None)

    def of(self, p: Placeholder) -> Why:
        """Return why the Pods of this workload wait now."""
        return self._engine.explain(p)

    def waiting(self) -> Iterator[tuple[str, str]]:
        """Yield the key of each workload that waits, and the cause, as of the last look at it."""
        return (
            (key, str(first.cause))
            for key, members in self._notified.items()
            if (first := next(iter(members.values()), None)) is not None
            if first.cause not in {*NOT_WAITING, Cause.ALLOCATED}
        )

    async def run(self) -> None:
        """Compare and write, until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> None:
        p = self._engine.placeholders.get(key)
        reason, turns = _Reason(self.of, self._clock), CooperativeYield()
        for ref in () if p is None else p.refs:
            await turns.maybe_yield()
            p = self._engine.placeholders.get(key)
            if p is not None and await self._check(p, ref, reason):
                await asyncio.sleep(1 / self._options.writes)

    async def _check(self, p: Placeholder, ref: MemberRef, reason: _Reason) -> bool:
        """Write what has changed for a member on its Pod. Return whether something was written."""
        pod, now = self._cache.get(ref.uid), self._clock.now()
        if pod is None or p.state is State.GONE or pod.ended or pod.deleted_at is not None:
            self._drop(p.key, ref.uid)
            return False
        notified = self._notified.setdefault(p.key, {})
        last = notified.get(ref.uid)
        if last is not None and _is_settled(p, pod, last):
            return False
        found = reason.of(p)
        if last is None or last.cause is not found.cause:
            written, not_before = (last.written, last.not_before) if last is not None else (None, 0.0)
            last = notified[ref.uid] = _Notified(found.cause, now, written, 0.0 if found.allocated else not_before)
        if last.written is not None and _shows(pod, last.written):
            last.written = None
        if not self._is_due(pod, found, last, now):
            return False
        changed = _cause_on(pod, last) != found.cause
        last.not_before = now + self._options.apart
        transition = _status_on(pod, last) is not found.allocated
        if not await self._pods.explain(ref, found, transition=transition, generation=pod.generation):
            self.failed += 1
            return True
        self.written += 1
        last.written = found
        if changed and found.cause in WITHOUT_EVENT:
            announcement = Announcement("Pod", ref.namespace, ref.name, ref.uid, Reason.JOB_PENDING, found.text)
            self._announcer.announce(announcement)
        return True

    def _drop(self, key: str, uid: str) -> None:
        members = self._notified.get(key, {})
        members.pop(uid, None)
        if not members:
            self._notified.pop(key, None)

    def _is_due(self, pod: PodView, found: Why, last: _Notified, now: float) -> bool:
        stands = _status_on(pod, last)
        if stands is None and (found.allocated or found.cause in NOT_WAITING):
            return False
        if _text_on(pod, last) == (found.cause, found.text) and stands is found.allocated:
            return False
        least = 0.0 if found.allocated else self._options.steady
        if self._engine.placeholders.many_being_placed():
            least = self._options.held
        return now - last.since >= least and now >= last.not_before


def _is_settled(p: Placeholder, pod: PodView, last: _Notified) -> bool:
    """Return whether a Pod is bound and has no condition: most Pods of a cluster, and nothing to explain."""
    if p.state is not State.BOUND or last.cause is not Cause.ALLOCATED:
        return False
    return last.written is None and pod.allocated is None


def _shows(pod: PodView, written: Why) -> bool:
    stands = pod.allocated
    return stands is not None and (stands.status, stands.reason, stands.message) == (
        written.allocated,
        written.cause,
        written.text,
    )


def _status_on(pod: PodView, last: _Notified) -> bool | None:
    """Return the status of the condition; `None`: there is none."""
    if last.written is not None:
        return last.written.allocated
    return None if pod.allocated is None else pod.allocated.status


def _cause_on(pod: PodView, last: _Notified) -> str:
    if last.written is not None:
        return last.written.cause
    return "" if pod.allocated is None else pod.allocated.reason


def _text_on(pod: PodView, last: _Notified) -> tuple[str, str]:
    if last.written is not None:
        return last.written.cause, last.written.text
    return ("", "") if pod.allocated is None else (pod.allocated.reason, pod.allocated.message)
