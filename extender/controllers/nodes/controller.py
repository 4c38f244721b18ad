"""Read the nodes of both sides, map them to each other, and hold Slurm nodes for those who have a reason."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import structlog

from extender.controllers.nodes.drains import SILENT_CAUSE, Drains
from extender.controllers.nodes.node_mapping_reporter import NodeMappingReporter
from extender.domain.cluster import SlurmNode, SlurmSnapshot
from extender.domain.events import EndKind
from extender.domain.nodes import machine as n
from extender.domain.nodes.drain_reasons import is_own_drain, named, quoted
from extender.domain.nodes.fences import weak
from extender.domain.nodes.mapping import DEFAULT_PAIRING, NodeMap, Pairing, grounds, map_nodes
from extender.domain.nodes.member_nodes import pods_on, slurm_nodes_of
from extender.domain.nodes.slurmds import slurmd_nodes
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Announcer, Clock, PortError, SlurmNodes
from extender.domain.views import NodeView, PodView
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.cooperative_yield import CooperativeYield
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import DrainFound, JobMissing, NodeChanged, PlaceholderChanged

_log = structlog.get_logger(__name__)

REMAP_APART = 0.2
"""Seconds between two looks at which node is which."""

SILENT = "NOT_RESPONDING"
"""The flag of a node that does not answer slurmctld's pings (`slurm.h`, NODE_STATE_NO_RESPOND)."""

SILENT_FOR = 3.0
"""Seconds for which it must have been there: a node whose drain was lifted has it for about a second."""

_WARNED = {EndKind.PREEMPTED, EndKind.TIME_LIMIT}


OWING_EVERY = 1.0
"""Seconds between two reads of Slurm's nodes at most while some node is not as it is to be."""

_ALL = "all"
"""The one key of controllers that work on all nodes at once."""


class NodeController:
    """Keep the snapshot of both sides' nodes, and know for whom each Slurm node is held.

    `longest_end`: the most that a Pod is given to end. `awaited`: Nodes that are about to become nodes of Slurm.
    `owner`: see `Drains`. `deferred_on`: Nodes with a Pod that is not adopted yet.
    It runs in every replica; only the leader's drains are sent.
    """

    def __init__(
        self,
        engine: Engine,
        slurm: SlurmNodes,
        drains: Drains,
        clock: Clock,
        announcer: Announcer,
        *,
        events: EventBus,
        kube_nodes: Callable[[], Mapping[str, NodeView]],
        slurmds: Callable[[], Iterable[PodView] | None] = tuple,
        pairing: Pairing = DEFAULT_PAIRING,
        awaited: Callable[[NodeView], bool] = lambda _node: False,
        settled: Callable[[], bool],
        deferred_on: Callable[[str], bool] = lambda _node: False,
        interval: float = 5.0,
        longest_end: float = 600.0,
        owner: str = "",
    ) -> None:
        self._engine = engine
        self._slurm = slurm
        self._clock = clock
        self._kube_nodes = kube_nodes
        self._slurmds = slurmds
        self._pairing = pairing
        self._settled = settled
        self._deferred_on = deferred_on
        self._interval = interval
        self._longest_end = longest_end
        self._owner = owner
        self._slurm_snapshot = SlurmSnapshot()
        self._grounds: tuple[object, ...] | None = None
        """What the mapping of now was found from."""

        self._events = events
        self._drains = drains
        self._mapping_reporter = NodeMappingReporter(announcer, awaited)
        self._held_for: dict[str, set[str]] = {}
        """Slurm nodes held for a workload, by its key."""

        self._poll = Controller("node poll", self._poll_nodes, resync=Resync(lambda: (_ALL,)))
        self._mapping = Controller("mapping", self._remap_soon)
        self.read_at = -math.inf
        """When the last reading of Slurm's nodes that came to its end was begun."""

        self._silent: dict[str, float] = {}
        """Since when nodes with Pods have not answered slurmctld."""

        self.error = ""

    # What is known.

    @property
    def holds(self) -> Mapping[str, n.SlurmNodeHold]:
        """Return the Slurm nodes that the extender holds or held, or that are drained otherwise."""
        return self._drains.holds

    @property
    def drift(self) -> Counter[str]:
        """Count drains of the extender that were lifted while they were needed: `found`, and `repaired`."""
        return self._drains.drift

    def holds_by_state(self) -> Mapping[str, int]:
        """Count the holds by state."""
        return Counter(str(hold.state) for hold in self.holds.values())

    def keeps(self, slurm_node: str) -> bool:
        """Return whether Slurm surely starts nothing there: a drain was seen since the request, or there is no node."""
        return self._drains.keeps(slurm_node)

    def kept_for(self, slurm_node: str) -> tuple[str, ...]:
        """Return why nothing may start on this node: a sentence for each workload whose Pods outlive their job."""
        return tuple(text for _, text in self._drains.workload_causes(slurm_node))

    def where(self, p: Placeholder) -> frozenset[str]:
        """Return the Slurm nodes on which Pods of this workload are."""
        return slurm_nodes_of(p, self._engine.snapshot.node_map)

    # Who holds what.

    def hold(self, slurm_node: str, workload: str, text: str, *, closely: float | None = None) -> None:
        """Keep Slurm from starting anything on this node while Pods of this workload are there.

        The Pods may be ending for `closely` seconds, by default as long as any Pod may: in that time a drain that is
        lifted is restored at once.
        """
        if slurm_node not in self._held_for.get(workload, ()):
            self._drains.closely(slurm_node, self._longest_end if closely is None else closely)
        self._held_for.setdefault(workload, set()).add(slurm_node)
        self._drains.notify(slurm_node, n.HoldRequested(workload, text))

    def hold_for(self, p: Placeholder) -> None:
        """Keep the nodes of this workload's Pods, whose job is over or about to be."""
        for node in sorted(self.where(p)):
            self.hold_on(node, p)

    def hold_on(self, slurm_node: str, p: Placeholder, site_reason: str = "") -> None:
        """Keep one of these nodes. Quote `site_reason` in the reason of the drain."""
        self.hold(
            slurm_node, p.key, f"Pod {self._pods_on(p, slurm_node)} outlives its job {p.job_id}{quoted(site_reason)}"
        )

    def release_hold(self, cause: str) -> None:
        """Release the holds of nodes that have this cause."""
        for node in sorted(self._held_for.pop(cause, set())):
            self._drains.notify(node, n.HoldReleased(cause))

    def job_lives(self, key: str) -> None:
        """Release the nodes of a workload whose job was doubted, except those that Slurm took from the job."""
        p = self._engine.placeholders.get(key)
        taken = set() if p is None else {p.slurm_node_of(member.ref.uid) for member in p.stranded}
        kept = self._held_for.get(key, set()) & taken
        for node in sorted(self._held_for.pop(key, set()) - kept):
            self._drains.notify(node, n.HoldReleased(key))
        if p is not None and kept:
            self._held_for[key] = kept
            self._hold_taken(p)

    def deleted(self, slurm_node: str) -> None:
        """Handle a node that Slurm no longer has."""
        self._drains.deleted(slurm_node)

    async def wait_until_drained(self, slurm_node: str) -> None:
        """Wait until slurmctld starts nothing new on this node: the drain was accepted, or there is another one."""
        await self._drains.wait_until_drained(slurm_node)

    def placeholder_changed(self, event: PlaceholderChanged) -> None:
        """Hold the nodes on which this workload's Pods outlive their job, until none of them is there any more."""
        after = event.after
        if after.placed:
            self._release_left(event.before, after)
            if self._outlives(after):
                self.hold_for(after)
            elif after.job is not event.before.job or after.members is not event.before.members:
                self._hold_taken(after)
            return
        self.release_hold(after.key)

    def _hold_taken(self, p: Placeholder) -> None:
        """Keep the nodes that Slurm took from the job while their members are still there."""
        for member in p.stranded:
            node = p.slurm_node_of(member.ref.uid)
            text = f"Pod {member.ref.full_name} is there, and job {p.job_id} does not have the node any more"
            self.hold(node, p.key, text)

    def _release_left(self, before: Placeholder, after: Placeholder) -> None:
        """Release the nodes that the last member there has left, while others of the workload are on other nodes."""
        held = self._held_for.get(after.key)
        if held is None or before.members is after.members:
            return
        for node in sorted((held & self.where(before)) - self.where(after)):
            held.discard(node)
            self._drains.notify(node, n.HoldReleased(after.key))

    def job_missing(self, event: JobMissing) -> None:
        """Hold the nodes of Pods that run on although their job is missing: Slurm takes these nodes for free."""
        workload = event.key
        p = self._engine.placeholders.get(workload)
        if not event.missing:
            if p is None or p.state is not State.LOST:
                self.job_lives(workload)
        elif p is not None and p.placed:
            for node in sorted(self.where(p)):
                self.hold(node, workload, f"Pod {self._pods_on(p, node)} runs and its job is missing")

    def _pods_on(self, p: Placeholder, slurm_node: str) -> str:
        return pods_on(p, slurm_node, self._engine.snapshot.node_map)

    def _outlives(self, p: Placeholder) -> bool:
        """Return whether a Pod is still there although its job is over, or no longer keeps the node."""
        return p.placed and (p.outlives_job or (p.state is State.LOST and p.end_kind not in _WARNED))

    # Looks.

    def kube_changed(self, event: NodeChanged) -> None:
        """Recompute the mapping when a Node changed. Many changes at once are handled together."""
        old, new = event.old, event.new
        if old is None or new is None or _matters(old) != _matters(new):
            self._mapping.add(_ALL)

    def slurmd_changed(self) -> None:
        """Map the nodes again, since a Pod that runs a slurmd changed."""
        self._mapping.add(_ALL)

    def read_soon(self) -> None:
        """Read all nodes before their turn, since Nodes were created or deleted."""
        self._poll.add(_ALL)

    async def run(self) -> None:
        """Read Slurm's nodes and carry drains out, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll.run(), name="node poll")
            group.create_task(self._drains.run(), name="drains")
            group.create_task(self._mapping.run(), name="mapping")

    async def check(self) -> None:
        """Read Slurm's nodes once. Raises `PortError`."""
        changes, began = dict(self._drains.changes), self._clock.now()
        self._slurm_snapshot = await self._slurm.snapshot()
        self._drains.nodes_read(self._slurm_snapshot)
        self.read_at = began
        self._mapping_reporter.report_weakly_fenced_partitions(weak(self._slurm_snapshot))
        settled, turns = self._settled(), CooperativeYield()
        self.remap()
        await turns.maybe_yield()
        self._keep_silent()
        for node in self._slurm_snapshot.nodes.values():
            await turns.maybe_yield()
            # A drain of this extender without a hold is from before this start: adopted at once, since another reason
            # may be written next, and lifted once every workload of that time is known. Or an Epilog that could not
            # reach the extender wrote it, after an end not yet seen here.
            drained = node.drained
            if drained and self._made_drain(node):
                self._events.publish(DrainFound(node.name, node.reason))
            if self._drains.changes[node.name] != changes.get(node.name, 0):
                continue  # read before the last change of it
            if node.name in self.holds or (drained and settled and await self._is_known(node)):
                self._drains.notify(node.name, n.NodeSeen(drained, node.reason))
        self._drains.forget_gone()

    def remap(self) -> None:
        """Recompute which Slurm node is which Node, and notify the engine."""
        nodes = self._kube_nodes()
        before = self._engine.snapshot.node_map
        slurmds = self._slurmds()
        if slurmds is None:
            now_map, self._grounds = NodeMap(last=before.last), None
        else:
            on = slurmd_nodes(slurmds)
            was, self._grounds = self._grounds, grounds(nodes.values(), self._slurm_snapshot, on)
            now_map = before
            if was != self._grounds:
                now_map = map_nodes(nodes.values(), self._slurm_snapshot, on, before, pairing=self._pairing)
        snapshot = ClusterSnapshot(self._slurm_snapshot, now_map, nodes)
        if now_map is not before:
            self._mapping_reporter.report_changes(before, now_map, nodes)
        self._engine.update_snapshot(snapshot)

    def _keep_silent(self) -> None:
        """Hold nodes of Pods whose slurmd does not respond: DOWN after SlurmdTimeout, it takes jobs when it returns.

        A node that slurmctld cannot reach takes no job, so such a drain has no cost.
        """
        now, nodes = self._clock.now(), self._slurm_snapshot.nodes
        taken = {
            name for p in self._engine.placeholders.all.values() if p.placed for name in self.where(p)
        } & nodes.keys()
        silent = {name for name in taken if SILENT in nodes[name].flags and not nodes[name].external}
        self._silent = {name: self._silent.get(name, now) for name in sorted(silent)}
        for name, since in self._silent.items():
            if now - since >= SILENT_FOR:
                self.hold(name, SILENT_CAUSE + name, "its slurmd does not answer, and Pods are on it", closely=0.0)
        for cause in [cause for cause in self._held_for if cause.startswith(SILENT_CAUSE)]:
            name = cause.removeprefix(SILENT_CAUSE)
            # DOWN, it answers again before its jobs' ends have been read.
            if name not in silent and not (name in taken and nodes[name].state == "DOWN"):
                self.release_hold(cause)

    def _made_drain(self, node: SlurmNode) -> bool:
        """Return whether the extender made this drain. A drain without a name counts on a Node of this cluster."""
        here = bool(named(node.reason)) or node.name in self._engine.snapshot.node_map.kubernetes
        return here and is_own_drain(node.reason, self._owner)

    async def _is_known(self, node: SlurmNode) -> bool:
        """Return whether the workloads of all Pods on this node are known, and so are the states of their jobs."""
        deferred = self._deferred_on(self._engine.snapshot.node_map.kubernetes.get(node.name) or "")
        return not deferred and await self._all_run(node)

    async def _all_run(self, node: SlurmNode) -> bool:
        """Return whether Slurm reports now the state of every job with Pods on this node. Holds are then current."""
        if not self._made_drain(node):
            return not is_own_drain(node.reason, self._owner)
        here = [
            p for p in self._engine.placeholders.all.values() if p.job_id and p.placed and node.name in self.where(p)
        ]
        # An unanswered read of one of them leaves the drain for the next check.
        return all([await self._engine.read_job(p.job_id, "drained") for p in here if p.job_id])

    async def _remap_soon(self, _all: str) -> None:
        self.remap()
        await asyncio.sleep(REMAP_APART)

    async def _poll_nodes(self, _all: str) -> Requeue:
        try:
            await self.check()
            self.error = ""
        except PortError as error:
            if not self.error:
                _log.warning("nodes_not_read", error=str(error))
            self.error = str(error)
        # A node that is kept drained is read by itself.
        return Requeue(OWING_EVERY if self._drains.owing else self._interval)


def _matters(node: NodeView) -> tuple[object, ...]:
    return (node.labels, node.annotations, node.allocatable, node.unschedulable, node.taints, node.ready)
