"""What keeps the extender running, and what kills it: lives one after the other, as kubelet restarts a container."""

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
"""Pods are made in `default`: in the last one they are out of scope."""

LOOK_EVERY_S, TICK_S = 1.0, 0.001


@dataclass
class Supervisor:
    """Runs one replica. `every_s` is the mean length of a life; 0.0 never ends one."""

    cluster: SimCluster
    rng: random.Random
    event_log: EventLog
    quiescence: QuiescenceTracker
    checker: InvariantChecker
    every_s: float = 0.0
    scopes: bool = False
    """Each life may serve other namespaces."""

    killed: int = 0
    stopped: int = 0
    died: int = 0
    quiet: bool = False
    """No more ends: what lives now goes on."""

    _presence: AvailabilityTracker = field(init=False)
    _whole: bool = True
    """What lives now serves every namespace."""

    def __post_init__(self) -> None:
        self._presence = AvailabilityTracker(self.quiescence, self.event_log)

    @property
    def lives(self) -> int:
        """How many there have been."""
        return 1 + self.killed + self.stopped + self.died

    async def run(self) -> None:
        """Life after life until cancelled."""
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
        """Return when this life is to end. Raises what the process died of."""
        self.event_log.add("the extender begins")
        loop = asyncio.get_running_loop()
        end = loop.time() + self._length()
        while (self.quiet and self._whole) or (not self.quiet and loop.time() < end):
            if process is not None and process.done():
                process.result()
            self._presence.is_here(self.cluster.extender.ready)
            left = LOOK_EVERY_S if self.quiet else min(LOOK_EVERY_S, end - loop.time())
            await asyncio.sleep(max(TICK_S, left))

    def _length(self) -> float:
        if not self.every_s:
            return float("inf")
        if self.rng.random() < 0.3:  # A start is full of moments.
            return self.rng.choice([0.2, 2.0, 20.0]) * self.rng.random()
        return self.rng.expovariate(1 / self.every_s)
