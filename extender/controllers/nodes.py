"""Nodes of both sides, from watch and poll to the engine, and the drains that a lost Pod makes necessary."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

import structlog

from extender.controllers.resumes import AFTER_A_RESUME, ResumeWatch
from extender.domain import node as n
from extender.domain.cluster import SlurmNode, SlurmPicture
from extender.domain.drains import is_ours, named
from extender.domain.events import EndKind
from extender.domain.fences import weak
from extender.domain.mapping import NodeMap, map_nodes
from extender.domain.placeholder import Placeholder, State
from extender.domain.slurmds import slurmd_nodes
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import SLURM_NODE, Reason
from extender.domain.whereabouts import slurm_nodes_of
from extender.engine.engine import Engine
from extender.engine.turns import Turns
from extender.engine.world import World
from extender.ports import Announcement, Announcer, Clock, PortError, SlurmNodes

_log = structlog.get_logger(__name__)

REMAP_APART = 0.2
"""Seconds between two looks at which node is which."""

NAMED, TOLD = 20, 200
"""Nodes without a partner: how many are named in a line of the log, and how many get an Event at a time."""

ALONE = (
    f"No node of Slurm is this Node, so no Pod is placed here. It is one by the label or annotation {SLURM_NODE}, by "
    "the Pod of its slurmd (nodes.slurmdPods), by its name, or by Slurm's NodeHostname."
)

AT_ONCE = 4
"""Drains under way: when a rack goes, the last of its nodes must not wait for all others."""

SILENT = "NOT_RESPONDING"
"""The flag of a node that does not answer slurmctld's pings (`slurm.h`, NODE_STATE_NO_RESPOND)."""

SILENT_FOR = 3.0
"""Seconds for which it must have been there: a node whose drain was lifted has it for about a second."""

NODE_CAUSE = "node "
"""How the causes of holds begin that are about a Node and no Pod (`health`): nobody outlives a job for them."""

_SILENT = "silent "
"""How the cause of such a hold begins; no key of a unit has a space."""

_WARNED = {EndKind.PREEMPTED, EndKind.TIME_LIMIT}


class NodeController:
    """Keeps the picture, and owns the holds of every Slurm node. `longest_end`: the most that a Pod is given to end.

    `owner` is named in our drains, so that other extenders leave them alone (`domain.drains`).
    """

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmNodes,
        clock: Clock,
        announcer: Announcer,
        *,
        kube_nodes: Callable[[], Mapping[str, NodeView]],
        slurmds: Callable[[], Iterable[PodView] | None] = tuple,
        by_name: bool = True,
        awaited: Callable[[NodeView], bool] = lambda _node: False,
        settled: Callable[[], bool],
        interval: float = 5.0,
        longest_end: float = 600.0,
        owner: str = "",
    ) -> None:
        self._engine = engine
        self._slurm = slurm
        self._clock = clock
        self._announcer = announcer
        self._kube_nodes = kube_nodes
        self._slurmds = slurmds
        self._by_name = by_name
        self._awaited = awaited
        """Nodes that are about to become nodes of Slurm."""

        self._settled = settled
        self._interval = interval
        self._longest_end = longest_end
        self._owner = owner
        self._picture = SlurmPicture()
        self._holds: dict[str, n.SlurmNodeHold] = {}
        self._held_for: dict[str, set[str]] = {}
        """Slurm nodes held for a unit, by its key."""

        self._owed: dict[str, n.NodeCommand] = {}
        """The latest word for each Slurm node that has not been sent."""

        self._sending: set[str] = set()
        self._taken: set[str] = set()
        """Nodes whose drain slurmctld has taken, seen or not, and none of whose is lifted since."""

        self._asked: Counter[str] = Counter()
        """How often each node was changed: what was read before the last change says nothing."""

        self._took = asyncio.Condition()
        self._resumes = ResumeWatch(clock, self._kept_drained, self._look_at)
        self._work = asyncio.Event()
        self._changed = asyncio.Event()
        self._soon = asyncio.Event()
        self.read_at = -math.inf
        """When the last reading of Slurm's nodes that came to its end was begun."""

        self._silent: dict[str, float] = {}
        """Since when nodes with Pods have not answered slurmctld."""

        self._weak: tuple[str, ...] = ()
        self._lifted: set[str] = set()
        """Nodes whose drain somebody else lifted, until slurmctld has taken it anew."""

        self.drift: Counter[str] = Counter()
        """Drains of ours that others lifted while they were needed: `found`, and `repaired`."""

        self.error = ""
        self.found: Callable[[str, str], None] = lambda _node, _reason: None
        """Told of drains of ours, node and reason, before one that nobody remembers is lifted."""

        engine.kept = self._kept_from
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

    def slurmd_changed(self) -> None:
        """The watch brought a change of a Pod that runs a slurmd."""
        self._changed.set()

    def hold(self, slurm_node: str, unit: str, text: str, *, closely: float | None = None) -> None:
        """Keep Slurm from starting anything on this node while Pods of this unit are there.

        For `closely` seconds, if not for as long as any Pod, they may be ending, so that a drain which somebody lifts
        has to come back at once.
        """
        if slurm_node not in self._held_for.get(unit, ()):
            self._resumes.closely(slurm_node, self._longest_end if closely is None else closely)
        self._held_for.setdefault(unit, set()).add(slurm_node)
        self._tell(slurm_node, n.HoldAsked(unit, text))

    def hold_for(self, p: Placeholder) -> None:
        """Keep the nodes of this unit's Pods, whose job is over or about to be."""
        for node in self.where(p):
            self.hold(node, p.key, f"Pod {p.pod_names} outlives its job {p.job_id}")

    def let_go(self, cause: str) -> None:
        """That reason to hold nodes is gone."""
        for node in self._held_for.pop(cause, set()):
            self._tell(node, n.HoldReleased(cause))

    def deleted(self, slurm_node: str) -> None:
        """Slurm has this node no more. A later one of its name is not drained, whatever this one was."""
        self._owed.pop(slurm_node, None)
        self._taken.discard(slurm_node)
        hold = self._holds.pop(slurm_node, None)
        if hold is not None and hold.holds:
            self._holds[slurm_node] = replace(hold, state=n.NodeState.DRAINED, retry_at=None)

    def keeps(self, slurm_node: str) -> bool:
        """Whether Slurm surely starts nothing there: a drain was seen since it was asked for, or there is no node."""
        hold = self._holds.get(slurm_node)
        drained = hold is not None and hold.state in {n.NodeState.DRAINED, n.NodeState.FOREIGN}
        return drained or (self._picture.known and slurm_node not in self._picture.nodes)

    def kept_for(self, slurm_node: str) -> tuple[str, ...]:
        """Why nothing may start on this node: a sentence for each unit whose Pods outlive their job there."""
        return tuple(text for _, text in self._told_causes(slurm_node))

    def _kept_from(self, slurm_node: str, unit: str) -> str:
        return next((text for cause, text in self._told_causes(slurm_node) if cause != unit), "")

    def _told_causes(self, slurm_node: str) -> list[tuple[str, str]]:
        hold = self._holds.get(slurm_node)
        return [one for one in hold.holds.items() if not one[0].startswith((_SILENT, NODE_CAUSE))] if hold else []

    async def held(self, slurm_node: str) -> None:
        """Wait until slurmctld gives this node nothing new: our drain is taken, or there is another one."""
        async with self._took:
            await self._took.wait_for(lambda: self._keeps_off(slurm_node))

    def _keeps_off(self, slurm_node: str) -> bool:
        hold = self._holds.get(slurm_node)
        return slurm_node in self._taken or (hold is not None and hold.state is n.NodeState.FOREIGN)

    async def run(self) -> None:
        """Read Slurm's nodes and carry drains out, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_ever(), name="node poll")
            group.create_task(self._resumes.run(), name="held nodes")
            group.create_task(self._remap_for_ever(), name="mapping")
            for number in range(AT_ONCE):
                group.create_task(self._carry(), name=f"drains {number}")

    def look_soon(self) -> None:
        """Nodes were made or deleted: read them all before their turn."""
        self._soon.set()

    async def look(self) -> None:
        """Read Slurm's nodes once. Raises `PortError`."""
        asked, began = dict(self._asked), self._clock.now()
        self._picture = await self._slurm.picture()
        self.read_at = began
        self._tell_weak(weak(self._picture))
        settled, turns = self._settled(), Turns()
        self.remap()
        await turns.give()
        self._keep_silent()
        for node in self._picture.nodes.values():
            await turns.give()
            # A drain of ours without a hold is from before this start, lifted once every unit of then is known again;
            # or from an Epilog that could not ask us, which may know of an end that we have not seen.
            drained = node.drained
            if drained and settled and self._ours(node):
                self.found(node.name, node.reason)
            if self._asked[node.name] != asked.get(node.name, 0):
                continue  # read before our last word to it
            if node.name in self._holds or (drained and settled and await self._all_run(node)):
                self._tell(node.name, n.NodeSeen(drained, node.reason))

    def _keep_silent(self) -> None:
        """Hold nodes of Pods whose slurmd does not answer: DOWN after SlurmdTimeout, each is given away at its return.

        A node that slurmctld cannot reach takes no job, so such a drain costs nobody anything.
        """
        now, nodes = self._clock.now(), self._picture.nodes
        taken = {name for p in self._engine.placeholders.values() if p.placed for name in self.where(p)} & nodes.keys()
        silent = {name for name in taken if SILENT in nodes[name].flags and not nodes[name].external}
        self._silent = {name: self._silent.get(name, now) for name in silent}
        for name, since in self._silent.items():
            if now - since >= SILENT_FOR:
                self.hold(name, _SILENT + name, "its slurmd does not answer, and Pods are on it", closely=0.0)
        for cause in [cause for cause in self._held_for if cause.startswith(_SILENT)]:
            name = cause.removeprefix(_SILENT)
            # DOWN, it answers again before its jobs' ends have been read.
            if name not in silent and not (name in taken and nodes[name].state == "DOWN"):
                self.let_go(cause)

    def _ours(self, node: SlurmNode) -> bool:
        """Whether this drain is ours. One that names nobody is so where the node is a Node of this cluster."""
        here = bool(named(node.reason)) or node.name in self._engine.world.node_map.kubernetes
        return here and is_ours(node.reason, self._owner)

    async def _all_run(self, node: SlurmNode) -> bool:
        """Whether Slurm says now of every job whose Pods are on this node how it is. Holds are up to date then."""
        if not self._ours(node):
            return not is_ours(node.reason, self._owner)
        here = [p for p in self._engine.placeholders.values() if p.job_id and p.placed and node.name in self.where(p)]
        # A read that nobody answered, of one of them, leaves the drain for the next look.
        return all([await self._engine.read_job(p.job_id, "drained") for p in here if p.job_id])

    def remap(self) -> None:
        """Work out again which node is which, and tell the engine."""
        nodes = self._kube_nodes()
        before = self._engine.world.node_map
        slurmds = self._slurmds()
        if slurmds is None:
            now_map = NodeMap(last=before.last)
        else:
            now_map = map_nodes(nodes.values(), self._picture, slurmd_nodes(slurmds), before, by_name=self._by_name)
        world = World(self._picture, now_map, nodes)
        self._tell_alone(before, now_map, nodes)
        was, now = before.problems, now_map.problems
        for problem in now:
            if problem not in was:
                _log.warning("node_mapping_unclear", problem=problem)
                self._announce(problem, nodes)
        for problem in was:
            if problem not in now:
                _log.info("node_mapping_cleared", problem=problem)
        self._engine.picture_changed(world)

    def _tell_weak(self, said: tuple[str, ...]) -> None:
        for sentence in said:
            if sentence not in self._weak:
                _log.warning("fence_weak", problem=sentence)
        self._weak = said

    def _tell_alone(self, before: NodeMap, now: NodeMap, nodes: Mapping[str, NodeView]) -> None:
        """Name the nodes of either side that have no partner, or not any more: in the log, and on the first Nodes."""
        if new := sorted(set(now.without_kubernetes) - set(before.without_kubernetes)):
            _log.info("slurm_nodes_without_node", count=len(new), first=new[:NAMED])
        if not (new := sorted(set(now.without_slurm) - set(before.without_slurm))):
            return
        _log.info("nodes_without_slurm_node", count=len(new), first=new[:NAMED])
        disputed = {name for problem in now.problems for name in _words(problem)}
        told = [name for name in new if name not in disputed and not self._awaited(nodes[name])]
        for name in told[:TOLD]:
            said = Announcement("Node", "", name, nodes[name].uid, Reason.NODE_ALONE, ALONE)
            self._announcer.announce(said)

    def _announce(self, problem: str, nodes: Mapping[str, NodeView]) -> None:
        """An Event on every Node that the sentence names."""
        for name in _words(problem):
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
            # A node that is kept drained is looked at by itself.
            owed = any(
                (hold.holds and hold.state is not n.NodeState.DRAINED) or hold.retry_at is not None
                for hold in self._holds.values()
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0 if owed else self._interval):
                    await self._soon.wait()
            self._soon.clear()

    def _kept_drained(self) -> list[str]:
        return [name for name, hold in self._holds.items() if hold.holds and self._keeps_off(name)]

    async def _look_at(self, name: str) -> None:
        asked = self._asked[name]
        try:
            node = await self._slurm.node(name)
        except PortError:
            return  # the look at all nodes tells of it
        if asked == self._asked[name]:
            self._tell(name, n.NodeSeen(node.drained, node.reason))

    def _tell(self, slurm_node: str, event: n.NodeEvent) -> None:
        if isinstance(event, n.NodeSeen) and not event.drained:
            if slurm_node in self._taken:
                self._resumes.closely(slurm_node, AFTER_A_RESUME)
            self._taken.discard(slurm_node)
        before = self._holds.get(slurm_node) or n.SlurmNodeHold(slurm_node, owner=self._owner)
        after, commands = n.step(before, event, self._clock.now())
        if before.state is n.NodeState.DRAINED and before.holds and isinstance(event, n.NodeSeen) and not event.drained:
            self._lifted.add(slurm_node)
            self.drift["found"] += 1
        if after.state is n.NodeState.FREE and not after.holds:
            self._holds.pop(slurm_node, None)
        else:
            self._holds[slurm_node] = after
        if after.holds and after.state is n.NodeState.FOREIGN:
            self._resumes.begin()  # whoever lifts that drain gives the node away
        for command in commands:
            self._owed[slurm_node] = command
            self._work.set()

    async def _carry(self) -> None:
        while True:
            await self._work.wait()
            node = next((name for name in self._owed if name not in self._sending), None)
            if node is None:
                self._work.clear()
                continue
            self._sending.add(node)
            self._asked[node] += 1
            command = self._owed.pop(node)
            accepted = await self._sent(command)
            self._sending.discard(node)
            self._asked[node] += 1
            self._tell(node, n.DrainAnswered(accepted))
            if accepted and isinstance(command, n.DrainNode) and node not in self._owed:
                self._tell(node, n.NodeSeen(True, command.reason))  # slurmctld has done it when it answers
            self._work.set()  # for what became owed on this node meanwhile
            async with self._took:
                self._took.notify_all()

    async def _sent(self, command: n.NodeCommand) -> bool:
        try:
            match command:
                case n.DrainNode(node, reason):
                    await self._slurm.drain(node, reason)
                    self._taken.add(node)
                    self._resumes.begin()
                    if node in self._lifted:
                        self._lifted.discard(node)
                        self.drift["repaired"] += 1
                    _log.info("node_drained", node=node, reason=reason)
                case n.ResumeNode(node):
                    self._taken.discard(node)
                    await self._slurm.resume(node)
                    _log.info("node_resumed", node=node)
        except PortError as error:
            _log.warning("node_not_changed", node=command.node, error=str(error))
            return False
        return True

    def _placeholder_changed(self, _before: Placeholder, after: Placeholder) -> None:
        """Hold the nodes on which this unit's Pods outlive their job, until none of them is there any more."""
        if after.placed:
            if self._outlives(after):
                self.hold_for(after)
            return
        self.let_go(after.key)

    def _held_changed(self, unit: str, held: bool) -> None:
        """The brake keeps Pods whose job is missing: Slurm takes their nodes for free."""
        p = self._engine.record(unit)
        if not held:
            if p is None or p.state is not State.LOST:
                self.let_go(unit)
        elif p is not None and p.placed:
            for node in self.where(p):
                self.hold(node, unit, f"Pod {p.pod_names} runs and its job is missing")

    def _outlives(self, p: Placeholder) -> bool:
        """Whether a Pod is still there although its job is over, or no longer keeps the node."""
        return p.state is State.LOST and p.placed and not (p.job_alive and p.end_kind in _WARNED)

    def where(self, p: Placeholder) -> frozenset[str]:
        """The Slurm nodes on which Pods of this unit are."""
        return slurm_nodes_of(p, self._engine.world.node_map)


def _words(sentence: str) -> list[str]:
    """What may be names of nodes in it."""
    return list(dict.fromkeys(word.rstrip(".") for word in re.findall(r"[A-Za-z0-9._-]+", sentence)))


def _matters(node: NodeView) -> tuple[object, ...]:
    return (node.labels, node.annotations, node.allocatable, node.unschedulable, node.taints, node.ready)
