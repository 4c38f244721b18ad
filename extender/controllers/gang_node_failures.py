"""Read the job of a gang as soon as one of its nodes is down: it may go on without that node (`on-node-failure: keep`).

The state of such a job does not change, so a poll of all states does not show that it has fewer nodes.
"""

from __future__ import annotations

from extender.domain.placeholder import Placeholder, State
from extender.engine.engine import Engine
from extender.runtime.controller import Controller
from extender.runtime.topics import PlaceholderForgotten, SnapshotChanged

DOWN = "DOWN"
"""Base state of a Slurm node that was lost."""


class GangNodeFailures:
    """Watch the Slurm nodes of gangs whose members run. Keys are those of workloads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._down: dict[str, frozenset[str]] = {}
        """The nodes of each gang that were down when its job was read last."""

        self._reads = Controller("gangs with failed nodes", self._read)

    async def run(self) -> None:
        """Read jobs until cancelled."""
        await self._reads.run()

    def snapshot_changed(self, _event: SnapshotChanged) -> None:
        """Find gangs of which a node is down since the last look."""
        nodes = self._engine.snapshot.slurm.nodes
        down = {name for name, node in nodes.items() if node.state == DOWN}
        if not down and not self._down:
            return
        for p in self._engine.placeholders.in_state(State.BOUND, State.GRANTED):
            if p.state is State.GRANTED and not p.job_occupied:
                continue
            lost = frozenset(down.intersection(p.slurm_nodes)) if _is_spread(p) else frozenset()
            if lost - self._down.get(p.key, frozenset()):
                self._reads.add(p.key)
            if lost:
                self._down[p.key] = lost
            else:
                self._down.pop(p.key, None)

    def forgotten(self, event: PlaceholderForgotten) -> None:
        """Drop what is remembered of a workload that is over."""
        self._down.pop(event.key, None)

    async def _read(self, key: str) -> None:
        p = self._engine.placeholders.get(key)
        if p is not None and p.job_id is not None:
            await self._engine.read_job(p.job_id, "node down")


def _is_spread(p: Placeholder) -> bool:
    return len(p.slurm_nodes) > 1
