"""Watch Slurm nodes that the extender keeps drained: `scontrol update state=resume` lifts its drain as any other.

slurmctld starts the next job 0.3 s to 1.1 s after that, when the node has responded. Where a Pod may be ending the node
is therefore read every moment. A hold that lasts longer waits for a machine that is away or for a report of its
kubelet, perhaps for days, and its node is read now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from extender.domain.ports import Clock
from extender.runtime.controller import Controller, Requeue

APART = 0.2
"""Seconds between two reads of a node on which a Pod may be ending."""

SHARE = 3.0
"""A pause is this many times as long as the read before it, within bounds. A slow answer means that slurmctld is busy.
"""

LONGEST = 0.25
"""Seconds of a pause at most while a Pod may be ending somewhere: slurmctld waits little longer."""

SLOW_READ_INTERVAL_S = 2.0
"""Seconds between two reads of every other node."""

AT_ONCE = 8
"""Reads under way of either kind; the other nodes have their turn after."""

AFTER_A_RESUME = 60.0
"""Seconds for which a node is read often after its drain was lifted from outside: it may be lifted again."""


class ResumeWatch:
    """Read drained nodes. `is_held`: a node is kept drained; `read` asks Slurm about one and reports what it says."""

    def __init__(self, clock: Clock, is_held: Callable[[str], bool], read: Callable[[str], Awaitable[None]]) -> None:
        self._clock = clock
        self._is_held = is_held
        self._read = read
        self._closely: dict[str, float] = {}
        """Until when each node is read every moment."""

        self._close = Controller("drained nodes, closely", self._read_closely, workers=AT_ONCE, keep_early=True)
        self._others = Controller("drained nodes", self._read_slowly, workers=AT_ONCE, keep_early=True)

    def begin(self, node: str) -> None:
        """Watch a node that is held now."""
        if self._is_close(node):
            self._close.add(node)
        else:
            self._others.add(node, after=SLOW_READ_INTERVAL_S)

    def closely(self, node: str, seconds: float) -> None:
        """Read this node every moment for so long, if it is held."""
        self._closely[node] = max(self._closely.get(node, 0.0), self._clock.now() + seconds)
        if self._is_held(node) and self._is_close(node):
            self._close.add(node)

    def forget(self, node: str) -> None:
        """Forget a node that Slurm no longer has."""
        self._closely.pop(node, None)

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._close.run(), name="drained nodes, closely")
            group.create_task(self._others.run(), name="drained nodes")

    def _is_close(self, node: str) -> bool:
        """Return whether a Pod may be ending on this node."""
        until = self._closely.get(node)
        if until is not None and until <= self._clock.now():
            del self._closely[node]
            return False
        return until is not None

    async def _read_closely(self, node: str) -> Requeue | None:
        if not self._is_held(node):
            self._closely.pop(node, None)
            return None
        if not self._is_close(node):
            self._others.add(node, after=SLOW_READ_INTERVAL_S)
            return None
        await self._check(node, APART, LONGEST)
        return Requeue(0.0)

    async def _read_slowly(self, node: str) -> Requeue | None:
        if not self._is_held(node):
            return None
        if self._is_close(node):
            self._close.add(node)
            return None
        pause = APART if self._closely else SLOW_READ_INTERVAL_S / 4
        await self._check(node, pause, pause)
        return Requeue(SLOW_READ_INTERVAL_S - pause)

    async def _check(self, node: str, least: float, most: float) -> None:
        """Read a node, and rest: the number of workers bounds how often Slurm is asked."""
        began = self._clock.now()
        await self._read(node)
        await asyncio.sleep(min(max(least, SHARE * (self._clock.now() - began)), most))
