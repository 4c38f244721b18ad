"""Make kube-scheduler retry, once, each Pod for which it has offered no Node since the start.

The answers of the previous process may be wrong now: a setting may be allowed, a rejection obsolete. kube-scheduler
retries by itself only when something else happens in the cluster, or after five minutes
(`--pod-max-in-unschedulable-pods-duration`). A changed annotation makes it retry at once, in every release.
"""

from __future__ import annotations

import asyncio

import structlog

from extender.domain.placeholder import Placeholder, State
from extender.domain.pods.allocation_record import woken_at
from extender.domain.ports import Clock, PodCache, Pods
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue
from extender.runtime.topics import PodsAdopted

_log = structlog.get_logger(__name__)

STEP = 0.1
"""Seconds between two Pods: ten a second, however many there are. Each costs a patch and a question."""

CHECK_EVERY = 1.0
"""Seconds between two checks of a workload whose job is not known yet, or that waits in Slurm."""

RETRY = 30.0
"""Seconds before a Pod that could not be written to is tried again."""


class RequeueController:
    """Wake Pods that were there at the start, want a job, and cannot get one because no node was offered for them.

    Pods that came later are on their way through kube-scheduler by themselves; gated ones it does not try. Keys are
    those of workloads.
    """

    def __init__(self, engine: Engine, pods: Pods, cache: PodCache, clock: Clock) -> None:
        self._engine = engine
        self._pods = pods
        self._cache = cache
        self._clock = clock
        self._controller = Controller(
            "requeue", self._reconcile, flow_of=engine.placeholders.namespace_of, keep_early=True
        )

    def adopted(self, _event: PodsAdopted) -> None:
        """Check the workloads that were there at the start."""
        for key, p in self._engine.placeholders.all.items():
            if _may_hang(p):
                self._controller.add(key, after=CHECK_EVERY)

    async def run(self) -> None:
        """Wake them, until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> Requeue | None:
        p = self._engine.placeholders.get(key)
        if p is None or not _may_hang(p):
            return None
        if self._gated(p) or p.state is not State.ABSENT or p.request is None:
            return Requeue(CHECK_EVERY)
        woken = await self._wake(p)
        await asyncio.sleep(STEP)
        return None if woken else Requeue(RETRY)

    def _gated(self, p: Placeholder) -> bool:
        return any((pod := self._cache.get(ref.uid)) is not None and pod.gates for ref in p.refs)

    async def _wake(self, p: Placeholder) -> bool:
        now = woken_at(self._clock.wall())
        woken = [await self._pods.annotate(m.ref, now) for m in p.members if m.wanting]
        if all(woken):
            _log.debug("pod_requeued", pod=p.pod_names, workload=p.key)
        return all(woken)


def _may_hang(p: Placeholder) -> bool:
    """Return whether the next attempt needs a list of nodes, of which only kube-scheduler can bring the first."""
    return p.candidates is None and p.wants
