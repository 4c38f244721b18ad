"""Nodes that we keep drained, looked at one by one: `scontrol update state=resume` lifts our drain as any other.

slurmctld then starts the next job 0.3 s to 1.1 s later, when the node has responded. Where a Pod may be ending there
that is when it hurts, and the node is looked at every moment; a hold that lasts longer waits for a machine that is away
or for a word of its kubelet, perhaps for days, and is looked at now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from extender.domain.ports import Clock

APART = 0.2
"""Seconds between two looks at a node on which a Pod may be ending."""

SHARE = 3.0
"""A pause is this many times as long as the look before it took, within its bounds: who is slow to answer is busy."""

LONGEST = 0.25
"""Seconds of a pause at most while a Pod may be ending somewhere: slurmctld waits little longer."""

SELDOM = 2.0
"""The same for every other node."""

AT_ONCE = 8
"""Nodes that are looked at in one turn; the others have theirs after."""

AFTER_A_RESUME = 60.0
"""Seconds for which a node is looked at every moment after somebody lifted our drain: it may be lifted again."""


class ResumeWatch:
    """Looks at nodes in turn. `held` gives those that are, `look` asks Slurm about one."""

    def __init__(
        self, clock: Clock, held: Callable[[], Collection[str]], look: Callable[[str], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._held = held
        self._look = look
        self._closely: dict[str, float] = {}
        """Until when each is looked at every moment."""

        self._looked: dict[str, float] = {}
        self._some_held = asyncio.Event()

    def begin(self) -> None:
        """A node is held now."""
        self._some_held.set()

    def closely(self, node: str, seconds: float) -> None:
        """Look at this node every moment for so long."""
        self._closely[node] = max(self._closely.get(node, 0.0), self._clock.now() + seconds)

    async def run(self) -> None:
        """Look until cancelled."""
        took = 0.0
        while True:
            held, now = self._held(), self._clock.now()
            self._looked = {node: self._looked.get(node, now) for node in held}
            self._closely = {node: until for node, until in self._closely.items() if until > now}
            if not held:
                self._some_held.clear()
                await self._some_held.wait()
                continue
            least, most = (APART, LONGEST) if any(node in self._closely for node in held) else (SELDOM / 4, SELDOM / 4)
            await asyncio.sleep(min(max(least, SHARE * took), most))
            began = self._clock.now()
            those = self._due(began)
            self._looked.update(dict.fromkeys(those, began))
            await asyncio.gather(*(self._look(node) for node in those))
            took = self._clock.now() - began

    def _due(self, now: float) -> list[str]:
        """Those whose turn it is: where it hurts first, and who has waited longest."""
        waited = {node: now - at for node, at in self._looked.items()}
        close = sorted((node for node in waited if node in self._closely), key=lambda node: (-waited[node], node))
        others = sorted(
            (node for node in waited if node not in self._closely and waited[node] >= SELDOM),
            key=lambda node: (-waited[node], node),
        )
        return (close + others)[:AT_ONCE]
