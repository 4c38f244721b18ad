"""Drain nodes on which Slurm has no room for all foreign Pods, until it has.

A job that lacks room never stays in the queue: with its priority it would keep every immediate allocation of the
partition waiting (2013, `_top_priority` in `job_mgr.c`). Nor is the drain lifted as soon as there is room: other queued
jobs would get it first. So the jobs are submitted while the drain is on, and then the drain is lifted: slurmctld starts
them by priority. Jobs that do not start nevertheless are cancelled, and the node is drained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from extender.controllers.nodes.controller import NodeController
from extender.controllers.nodes.drains import NODE_CAUSE
from extender.domain.amount import lacking, total
from extender.domain.backoff import Backoff
from extender.domain.cluster import SlurmSnapshot
from extender.domain.foreign_pods.foreign_pod import ForeignPod
from extender.domain.nodes.machine import DrainState
from extender.domain.ports import Clock
from extender.engine.engine import Engine

START_WITHIN = 20.0
"""Seconds within which jobs start after a drain is lifted: a slurmd that answers again, and a pass of the scheduler."""

COMPLETING = "COMPLETING"
"""A node's flag while an Epilog runs there, or a process does not end: it takes no new job, however much is free."""

TRY_FIRST, TRY_MOST = 2.0, 60.0
"""Seconds between two tries on one node; doubled each time."""


class ShortagePhase(StrEnum):
    """The progress of a node that had no room."""

    FULL = "full"
    """It is drained."""

    QUEUING = "queuing"
    """There seems to be room: the jobs are submitted while it is drained still."""

    LIFTED = "lifted"
    """The drain is lifted; the jobs are to start."""


@dataclass(slots=True)
class Shortage:
    """One node. `why` are Slurm's words, `before` what was known of its nodes then, which may be older."""

    why: str
    before: SlurmSnapshot
    phase: ShortagePhase = ShortagePhase.FULL
    since: float = 0.0
    tries: int = 0
    next_try: float = 0.0


class Shortages:
    """Every node that is or was short. `unheld` gives the foreign Pods of a node without a job that runs, in order."""

    def __init__(
        self, engine: Engine, nodes: NodeController, clock: Clock, unheld: Callable[[str], tuple[ForeignPod, ...]]
    ) -> None:
        self._engine = engine
        self._nodes = nodes
        self._clock = clock
        self._unheld = unheld
        self._all: dict[str, Shortage] = {}

    def get(self, node: str) -> Shortage | None:
        """Return the record of a Slurm node that has no room; `None`: there is no shortage."""
        return self._all.get(node)

    def nodes(self) -> Iterable[str]:
        """Return Slurm nodes that are or were just short."""
        return tuple(self._all)

    def no_room(self, node: str, why: str) -> None:
        """Record that Slurm did not give a foreign Pod its part of this node."""
        slurm = self._engine.snapshot.slurm
        shortage = self._all.setdefault(node, Shortage(why, slurm, next_try=self._clock.now() + TRY_FIRST))
        shortage.why, shortage.before = why, slurm
        if shortage.phase is not ShortagePhase.FULL:
            self._full_again(shortage)
        self._hold(node)

    def check(self, node: str, queued: bool) -> bool:
        """Continue with this node; return whether anything changed. `queued`: every foreign Pod has a job."""
        shortage, now = self._all[node], self._clock.now()
        if not self._unheld(node):
            del self._all[node]
            self._nodes.release_hold(_cause(node))
            return True
        match shortage.phase:
            case ShortagePhase.FULL:
                self._hold(node)
                read = self._engine.snapshot.slurm is not shortage.before
                if now >= shortage.next_try and read and self._is_only_hold(node) and self._room(node):
                    shortage.phase, shortage.since = ShortagePhase.QUEUING, now
                    return True
            case ShortagePhase.QUEUING if queued:
                self._nodes.release_hold(_cause(node))
                shortage.phase, shortage.since = ShortagePhase.LIFTED, now
                return True
            case ShortagePhase.QUEUING | ShortagePhase.LIFTED if now - shortage.since >= START_WITHIN:
                self._full_again(shortage)
                self._hold(node)
                return True
            case _:
                pass
        return False

    def _full_again(self, shortage: Shortage) -> None:
        shortage.tries += 1
        pause = Backoff(TRY_FIRST, TRY_MOST).after(shortage.tries + 1)
        shortage.phase, shortage.next_try = ShortagePhase.FULL, self._clock.now() + pause

    def _hold(self, node: str) -> None:
        foreign_pods = self._unheld(node)
        if foreign_pods:
            more = f" and {len(foreign_pods) - 1} more" if foreign_pods[1:] else ""
            text = f"Slurm has no room for {foreign_pods[0].pod}{more} on this node"
            self._nodes.hold(node, _cause(node), text, closely=0.0)

    def _is_only_hold(self, node: str) -> bool:
        """Return whether this shortage is the only drain hold, so that lifting it lets the foreign Pods' jobs in."""
        hold = self._nodes.holds.get(node)
        return hold is not None and hold.state is DrainState.DRAINED and set(hold.holds) == {_cause(node)}

    def _room(self, node: str) -> bool:
        slurm = self._engine.snapshot.slurm.nodes.get(node)
        if slurm is None or slurm.size is None or COMPLETING in slurm.flags:
            return False
        return lacking(total(foreign_pod.amount for foreign_pod in self._unheld(node)), slurm.size, slurm.used).nothing


def _cause(node: str) -> str:
    return f"{NODE_CAUSE}foreign Pods {node}"
