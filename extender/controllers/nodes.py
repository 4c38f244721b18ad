"""Nodes of both sides, from watch and poll to the engine, and the drains that a lost Pod makes necessary."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from extender.domain import node as n
from extender.domain.cluster import SlurmPicture
from extender.domain.events import EndKind
from extender.domain.mapping import map_nodes
from extender.domain.placeholder import Placeholder, State
from extender.domain.views import NodeView
from extender.domain.wellknown import DRAIN_PREFIX, Reason
from extender.engine.engine import Engine
from extender.engine.world import World
from extender.ports import Announcement, Announcer, Clock, PortError, SlurmNodes

_log = structlog.get_logger(__name__)

REMAP_APART = 0.2
"""Seconds between two looks at which node is which."""

_WARNED = {EndKind.PREEMPTED, EndKind.TIME_LIMIT}


class NodeController:
    """Keeps the picture, and owns the holds of every Slurm node."""

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmNodes,
        clock: Clock,
        announcer: Announcer,
        *,
        kube_nodes: Callable[[], Mapping[str, NodeView]],
        settled: Callable[[], bool],
        interval: float = 5.0,
    ) -> None:
        self._engine = engine
        self._slurm = slurm
        self._clock = clock
        self._announcer = announcer
        self._kube_nodes = kube_nodes
        self._settled = settled
        self._interval = interval
        self._picture = SlurmPicture()
        self._holds: dict[str, n.SlurmNodeHold] = {}
        self._held_for: dict[str, set[str]] = {}
        """Slurm nodes held for a unit, by its key."""

        self._owed: dict[str, n.NodeCommand] = {}
        """The latest word for each Slurm node that has not been sent."""

        self._work = asyncio.Event()
        self._changed = asyncio.Event()
        self.error = ""
        self.found: Callable[[str, str], None] = lambda _node, _reason: None
        """Told of drains of ours, node and reason, before one that nobody remembers is lifted."""

        engine.listeners.append(self._placeholder_changed)
        engine.vanishing.listeners.append(self._held_changed)

    @property
    def holds(self) -> Mapping[str, n.SlurmNodeHold]:
        """Slurm nodes that we hold, or did, or that somebody else drained."""
        return self._holds

    def holds_by_state(self) -> Mapping[str, int]:
        """How many there are."""
        return Counter(str(hold.state) for hold in self._holds.values())

    def kube_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """The watch brought a change of a Node. Many at once are taken up together."""
        if old is None or new is None or _matters(old) != _matters(new):
            self._changed.set()

    def hold(self, slurm_node: str, unit: str, text: str) -> None:
        """Keep Slurm from starting anything on this node while Pods of this unit are there."""
        self._held_for.setdefault(unit, set()).add(slurm_node)
        self._tell(slurm_node, n.HoldAsked(unit, text))

    def let_go(self, cause: str) -> None:
        """That reason to hold nodes is gone."""
        for node in self._held_for.pop(cause, set()):
            self._tell(node, n.HoldReleased(cause))

    def keeps(self, slurm_node: str) -> bool:
        """Whether Slurm surely starts nothing there: a drain was seen since it was asked for, or there is no node."""
        hold = self._holds.get(slurm_node)
        drained = hold is not None and hold.state in {n.NodeState.DRAINED, n.NodeState.FOREIGN}
        return drained or (self._picture.known and slurm_node not in self._picture.nodes)

    async def run(self) -> None:
        """Read Slurm's nodes and carry drains out, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_ever(), name="node poll")
            group.create_task(self._remap_for_ever(), name="mapping")
            group.create_task(self._carry(), name="drains")

    async def look(self) -> None:
        """Read Slurm's nodes once. Raises `PortError`."""
        self._picture = await self._slurm.picture()
        settled = self._settled()
        for node in self._picture.nodes.values():
            # A drain of ours without a hold is from before this start: lifted once every unit of then is known again.
            if "DRAIN" in node.flags and settled and node.reason.startswith(DRAIN_PREFIX):
                self.found(node.name, node.reason)
            if node.name in self._holds or ("DRAIN" in node.flags and settled):
                self._tell(node.name, n.NodeSeen("DRAIN" in node.flags, node.reason))
        self.remap()

    def remap(self) -> None:
        """Work out again which node is which, and tell the engine."""
        nodes = self._kube_nodes()
        world = World(self._picture, map_nodes(nodes.values(), self._picture), nodes)
        was, now = self._engine.world.node_map.problems, world.node_map.problems
        for problem in now:
            if problem not in was:
                _log.warning("node_mapping_unclear", problem=problem)
                self._announce(problem, nodes)
        for problem in was:
            if problem not in now:
                _log.info("node_mapping_cleared", problem=problem)
        self._engine.picture_changed(world)

    def _announce(self, problem: str, nodes: Mapping[str, NodeView]) -> None:
        """An Event on every Node that the sentence names."""
        for name in dict.fromkeys(re.findall(r"[A-Za-z0-9._-]+", problem)):
            if (node := nodes.get(name)) is not None:
                said = Announcement("Node", "", name, node.uid, Reason.NODE_UNCLEAR, f"{problem}.", warning=True)
                self._announcer.announce(said)

    async def _remap_for_ever(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.remap()
            await asyncio.sleep(REMAP_APART)

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self.look()
                self.error = ""
            except PortError as error:
                if not self.error:
                    _log.warning("nodes_not_read", error=str(error))
                self.error = str(error)
            now = self._clock.now()
            for hold in list(self._holds.values()):
                if self._picture.known and hold.name not in self._picture.nodes:
                    continue  # deleted from Slurm: there is nothing to keep it from
                if hold.retry_at is not None and hold.retry_at <= now:
                    self._tell(hold.name, n.NodeTimer())
            owed = any(hold.holds or hold.retry_at is not None for hold in self._holds.values())
            await asyncio.sleep(1.0 if owed else self._interval)

    def _tell(self, slurm_node: str, event: n.NodeEvent) -> None:
        before = self._holds.get(slurm_node) or n.SlurmNodeHold(slurm_node)
        after, commands = n.step(before, event, self._clock.now())
        if after.state is n.NodeState.FREE and not after.holds:
            self._holds.pop(slurm_node, None)
        else:
            self._holds[slurm_node] = after
        for command in commands:
            self._owed[slurm_node] = command
            self._work.set()

    async def _carry(self) -> None:
        while True:
            await self._work.wait()
            if not self._owed:
                self._work.clear()
                continue
            command = self._owed.pop(next(iter(self._owed)))
            try:
                match command:
                    case n.DrainNode(node, reason):
                        _log.info("node_drained", node=node, reason=reason)
                        await self._slurm.drain(node, reason)
                    case n.ResumeNode(node):
                        _log.info("node_resumed", node=node)
                        await self._slurm.resume(node)
            except PortError as error:
                _log.warning("node_not_changed", node=command.node, error=str(error))
                self._tell(command.node, n.DrainAnswered(accepted=False))
            else:
                self._tell(command.node, n.DrainAnswered(accepted=True))

    def _placeholder_changed(self, _before: Placeholder, after: Placeholder) -> None:
        """Hold the nodes on which this unit's Pods outlive their job, until none of them is there any more."""
        if after.placed:
            for node in self._outlived(after):
                self.hold(node, after.key, f"Pod {after.pod_names} outlives its job {after.job_id}")
            return
        self.let_go(after.key)

    def _held_changed(self, unit: str, held: bool) -> None:
        """The brake keeps Pods whose job is missing: Slurm takes their nodes for free."""
        p = self._engine.record(unit)
        if not held:
            if p is None or p.state is not State.LOST:
                self.let_go(unit)
        elif p is not None and p.placed:
            for node in self._where(p):
                self.hold(node, unit, f"Pod {p.pod_names} runs and its job is missing")

    def _outlived(self, p: Placeholder) -> frozenset[str]:
        """Slurm nodes on which a Pod is still there although its job is over, or no longer keeps the node."""
        if p.state is not State.LOST or not p.placed or (p.job_alive and p.end_kind in _WARNED):
            return frozenset()
        return self._where(p)

    def _where(self, p: Placeholder) -> frozenset[str]:
        """The Slurm nodes on which Pods of this unit are."""
        where = self._engine.world.node_map.to_slurm(member.node for member in p.members if member.placed)
        return where or frozenset(p.slurm_nodes)


def _matters(node: NodeView) -> tuple[object, ...]:
    return (node.labels, node.annotations, node.allocatable, node.unschedulable, node.taints, node.ready)
