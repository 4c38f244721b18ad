"""Run one extender, kill or stop it at drawn times, and start it again, as kubelet restarts a container."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from simulator.cluster import SimCluster
from simulator.event_log import EventLog
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.quiescence import AvailabilityTracker, QuiescenceTracker

SCOPES = ("", "", "scope: {namespaces: [default]}\n", "scope: {namespaces: [kube-system]}\n")
"""Pods are created in `default`: the last scope excludes them."""

CHECK_EVERY_S, TICK_S = 1.0, 0.001


@dataclass
class Supervisor:
    """Run one replica. `every_s` is the mean time until it is ended; 0.0 never ends it."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    quiescence: QuiescenceTracker
    checker: InvariantChecker
    every_s: float = 0.0
    scopes: bool = False
    """Each start may serve other namespaces."""

    killed: int = 0
    stopped: int = 0
    died: int = 0
    quiet: bool = False
    """End no further replica."""

    _presence: AvailabilityTracker = field(init=False)
    _whole: bool = True
    """The running replica serves every namespace."""

    def __post_init__(self) -> None:
        self._presence = AvailabilityTracker(self.quiescence, self.event_log)

    @property
    def lives(self) -> int:
        """Return how many replicas have been started."""
        return 1 + self.killed + self.stopped + self.died

    async def run(self) -> None:
        """Run replicas one after the other until cancelled."""
        whole = self.cluster.config
        while True:
            self._presence.is_here(False)
            scope = self.rng.choice(SCOPES) if self.scopes and not self.quiet else ""
            self.cluster.config, self._whole = whole + scope, not scope
            if scope:
                self.event_log.add(scope.strip())
            try:
                await (self._one_that_is_killed() if self.rng.random() < 0.7 else self._one_that_stops())
            except Exception as error:
                self.died += 1
                self.checker.violate(Invariant.ALIVE, repr(error))
            self._presence.is_here(False)
            await asyncio.sleep(self.rng.choice([0.05, 1.0, 5.0, 60.0]))

    async def _one_that_is_killed(self) -> None:
        async with self.cluster.dying(ready=False) as life:
            await self._live(life.process)
            self.killed += 1
            self.event_log.add("the extender is killed")

    async def _one_that_stops(self) -> None:
        async with self.cluster.running(ready=False):
            await self._live(None)
            self.stopped += 1
            self.event_log.add("the extender is asked to stop")

    async def _live(self, process: asyncio.Task[None] | None) -> None:
        """Return when this replica is to end. Raises the exception that ended the process."""
        self.event_log.add("the extender begins")
        loop = asyncio.get_running_loop()
        end = loop.time() + self._length()
        while (self.quiet and self._whole) or (not self.quiet and loop.time() < end):
            if process is not None and process.done():
                process.result()
            self._presence.is_here(self.cluster.extender.ready)
            left = CHECK_EVERY_S if self.quiet else min(CHECK_EVERY_S, end - loop.time())
            await asyncio.sleep(max(TICK_S, left))

    def _length(self) -> float:
        if not self.every_s:
            return float("inf")
        if self.rng.random() < 0.3:  # A start is full of moments.
            return self.rng.choice([0.2, 2.0, 20.0]) * self.rng.random()
        return self.rng.expovariate(1 / self.every_s)
