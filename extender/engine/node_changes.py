"""Notify units when nodes of either side, or their mapping, have changed."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from extender.engine.cluster_snapshot import ClusterSnapshot, same_reach, same_sizes
from extender.engine.emit_event import EmitEvent
from extender.engine.units import Units
from extender.runtime.controller import Controller

_FOLLOWS = (State.WAITING, State.SUBMITTING, State.UNSURE, State.GRANTED)
"""Whose job may have to be told other exclusions: now, once it is known, or once it is queued again."""


class NodeChangeNotifier:
    """Notify whom a change concerns. `ask` queues a command for Slurm. Keys are those of workloads."""

    def __init__(self, units: Units, tell: EmitEvent, ask: Callable[[str, c.Command], None]) -> None:
        self._units = units
        self._tell = tell
        self._ask = ask
        self._controller = Controller("news of nodes", self._reconcile, owner_of=units.namespace_of, keep_early=True)

    def changed(self, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
        """Compare two snapshots, and queue what has to be told of the difference."""
        if new.node_map.known and not old.node_map.known:
            self._read(State.WAITING)
        if new.node_map.kubernetes != old.node_map.kubernetes:
            self._read(State.GRANTED)  # its node may be another Node now
        self._tell_of_nodes(old, new)

    async def run(self) -> None:
        """Notify until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: str) -> None:
        if self._units.get(key) is not None:
            self._tell(key, e.PictureChanged(), "nodes")

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
        for p in told:
            self._controller.add(p.key)
