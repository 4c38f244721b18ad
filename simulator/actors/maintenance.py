"""Act as administrators who set nodes to MAINT or FAIL with scontrol."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.wellknown import DRAIN_PREFIX
from simulator.actors.pacing import repeat_at_random
from simulator.cluster import SimCluster
from simulator.event_log import node_subject
from simulator.invariants.checker import READ_BEFORE_S, InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.slurm.records import SimNode

REASON = "upkeep: "
"""Prefix of the reason of each FAIL."""


@dataclass
class MaintenanceOperators:
    """Set MAINT or FAIL about every `every_s`; undone after a time, or by `heal`. It has its own random generator."""

    cluster: SimCluster
    rng: random.Random
    checker: InvariantChecker
    every_s: float
    done: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    _failed_at: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Start to check that FAIL states remain."""
        self.checker.also.append(self._check)

    async def run(self) -> None:
        """Run until cancelled."""
        await repeat_at_random(self.rng, self.every_s, self._act, lambda: self.stopped)

    def heal(self) -> None:
        """Stop, and end all MAINT and FAIL states."""
        self.stopped = True
        for node in self._nodes():
            self._take_back(node.name)
            self.cluster.slurm.controller.maintain(node.name, False)

    def _act(self) -> None:
        node = self.rng.choice(self._nodes())
        if self.rng.random() < 0.5:
            if not node.maintenance:
                self._record("maintenance", node.name)
                self.cluster.slurm.controller.maintain(node.name)
                self._later(lambda: self._end_maintenance(node.name))
        elif not (node.drained or node.down or self.checker.operators.has_in_hand(node.name)):
            reason = f"{REASON}fan {self.done['fail']}"
            self._record("fail", node.name)
            self.checker.operators.failing[node.name] = reason
            self._failed_at[node.name] = self.cluster.slurm.controller.timers.wall()
            self.cluster.slurm.controller.fail(node.name, reason)
            self._later(lambda: self._take_back(node.name))

    def _nodes(self) -> list[SimNode]:
        return list(self.cluster.slurm.controller.nodes.values())

    def _end_maintenance(self, name: str) -> None:
        if name in self.cluster.slurm.controller.nodes:
            self.checker.event_log.add("its maintenance is over", node_subject(name))
            self.cluster.slurm.controller.maintain(name, False)

    def _take_back(self, name: str) -> None:
        node = self.cluster.slurm.controller.nodes.get(name)
        self.checker.operators.failing.pop(name, None)
        if node is not None and node.failing:
            self.checker.event_log.add("it is not called failing any more", node_subject(name))
            self.cluster.slurm.controller.resume(name)

    def _check(self) -> None:
        """Check that the reason of a FAIL stays until an administrator lifts it."""
        for name, reason in list(self.checker.operators.failing.items()):
            node = self.cluster.slurm.controller.nodes.get(name)
            if node is None or not node.failing:  # recreated, or an older state is back
                del self.checker.operators.failing[name]
                continue
            since = self.cluster.slurm.controller.foreign_redrained_at.get(name, -1.0) - self._failed_at[name]
            overwritten = node.reason.startswith(DRAIN_PREFIX)
            if overwritten and 0.0 <= since <= READ_BEFORE_S:
                self.checker.windows["a drain of the extender over one that came after its read of the node"] += 1
                del self.checker.operators.failing[name]
                continue
            text = f"{reason!r} became {node.reason!r}"
            self.checker.hold(Invariant.FOREIGN_DRAINS, f"{name} failing", overwritten, text, node_subject(name))

    def _later(self, act: Callable[[], None]) -> None:
        def unless_healed() -> None:
            if not self.stopped:
                act()

        self.cluster.slurm.controller.timers.after(self.rng.uniform(5.0, 300.0), unless_healed)

    def _record(self, what: str, node: str) -> None:
        self.done[what] += 1
        self.checker.event_log.add(f"upkeep: {what}", node_subject(node))
