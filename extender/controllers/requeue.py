"""Make kube-scheduler retry, once, each Pod for which it has offered no Node since the start.

What it was told by the process before may be wrong now: a setting may be allowed, a refusal be over. It would find that
out by itself only when something else happens in the cluster, or after five minutes
(`--pod-max-in-unschedulable-pods-duration`). A changed annotation makes it ask at once, in every release.
"""

from __future__ import annotations

import asyncio

import structlog

from extender.domain.fair_queue import in_turns
from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.claim import woken_at
from extender.engine.engine import Engine
from extender.ports import Clock, PodCache, Pods

_log = structlog.get_logger(__name__)

STEP = 0.1
"""Seconds between two Pods: ten a second, however many there are. Each costs a patch and a question."""

LOOK_EVERY = 1.0
"""Seconds between two looks at those whose jobs are not known yet, or that wait in Slurm."""

RETRY = 30.0
"""Seconds before a Pod that could not be written to is tried again."""


class RequeueController:
    """Wakes Pods that were there at the start, want a job, and cannot get one because no node was offered for them.

    Pods that came later are on their way through kube-scheduler by themselves; gated ones it does not try.
    """

    def __init__(self, engine: Engine, pods: Pods, cache: PodCache, clock: Clock) -> None:
        self._engine = engine
        self._pods = pods
        self._cache = cache
        self._clock = clock
        self._open: dict[str, float] = {}
        """Units that may have to be woken, and the instant before which that is not tried."""

    def taken_up(self) -> None:
        """Everything that was there at the start is known to the engine."""
        self._open = {key: 0.0 for key, p in self._engine.units.all.items() if _may_hang(p)}

    async def run(self) -> None:
        """Wake them, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            for key in in_turns(tuple(self._open), self._engine.units.namespace_of):
                not_before = self._open[key]
                p = self._engine.units.get(key)
                if p is None or not _may_hang(p):
                    del self._open[key]
                elif self._gated(p):
                    continue
                elif p.state is State.ABSENT and p.request is not None and not_before <= self._clock.now():
                    await self._wake(p)
                    await asyncio.sleep(STEP)

    def _gated(self, p: Placeholder) -> bool:
        return any((pod := self._cache.get(ref.uid)) is not None and pod.gates for ref in p.refs)

    async def _wake(self, p: Placeholder) -> None:
        now = woken_at(self._clock.wall())
        woken = [await self._pods.annotate(m.ref, now) for m in p.members if m.wanting]
        if all(woken):
            del self._open[p.key]
            _log.debug("pod_requeued", pod=p.pod_names, uid=p.key)
        else:
            self._open[p.key] = self._clock.now() + RETRY


def _may_hang(p: Placeholder) -> bool:
    """Its next attempt needs a list of nodes, and only kube-scheduler can bring the first one."""
    return p.candidates is None and p.wants
