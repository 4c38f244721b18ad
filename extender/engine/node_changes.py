"""Notify units when nodes of either side, or their mapping, have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from extender.domain.ports import Clock
from extender.engine.cluster_snapshot import ClusterSnapshot, same_reach, same_sizes
from extender.engine.cooperative_yield import CooperativeYield
from extender.engine.emit_event import EmitEvent
from extender.engine.units import Units

_FOLLOWS = (State.WAITING, State.SUBMITTING, State.UNSURE, State.GRANTED)
"""Whose job may have to be told other exclusions: now, once it is known, or once it is queued again."""


class NodeChangeNotifier:
    """Tells whom it concerns, in slices. `ask` puts a command for Slurm into its lane."""

    def __init__(self, clock: Clock, units: Units, tell: EmitEvent, ask: Callable[[str, c.Command], None]) -> None:
        self._clock = clock
        self._units = units
        self._tell = tell
        self._ask = ask
        self._untold: dict[str, None] = {}
        """Units that are to be told of other nodes, in their order."""

        self._some_untold = asyncio.Event()

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """The world was so, and is so now."""
        if new.node_map.known and not old.node_map.known:
            self._read(State.WAITING)
        if new.node_map.kubernetes != old.node_map.kubernetes:
            self._read(State.GRANTED)  # its node may be another Node now
        self._tell_of_nodes(old, new)

    async def run(self) -> None:
        """Tell the rest, slice by slice, until cancelled."""
        while True:
            await self._some_untold.wait()
            self._some_untold.clear()
            await asyncio.sleep(0)
            self._tell_some()

    def _read(self, state: State) -> None:
        for p in self._units.in_state(state):
            if p.job_id is not None:
                self._ask(p.key, c.ReadJob(p.job_id))

    def _tell_of_nodes(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Tell whoever waits, and those that fitted nowhere, where something has changed for them."""
        reach = same_reach(old, new)
        told = [] if reach else self._units.in_state(*_FOLLOWS)
        nowhere = [p for p in self._units.in_state(State.ABSENT, State.REFUSED) if p.fits_nowhere]
        if nowhere and not (reach and same_sizes(old, new)):
            told += nowhere
        self._untold.update(dict.fromkeys(p.key for p in told))
        self._tell_some()

    def _tell_some(self) -> None:
        """For one slice; the others have their turn before the rest."""
        turns = CooperativeYield(self._clock.now)
        while self._untold:
            key = next(iter(self._untold))
            del self._untold[key]
            if self._units.get(key) is not None:
                self._tell(key, e.PictureChanged(), "nodes")
            if turns.over:
                break
        if self._untold:
            self._some_untold.set()
