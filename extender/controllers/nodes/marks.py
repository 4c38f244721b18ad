"""Write marks on Nodes: whether Slurm gives them anything new, and what the site wants to be on them for that.

Level-based: what a Node shall have is compared with what it has, whenever either side changes, so that a start finds
the marks of the process before by looking. Nothing is written where nothing is to change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping

import structlog

from extender.controllers.nodes.native_jobs import NativeJobs
from extender.domain.cluster import SlurmNode
from extender.domain.nodes.mapping import speaks_no_more
from extender.domain.nodes.marks import (
    MarkRules,
    NodePatch,
    NodeStatus,
    Report,
    change,
    marked,
    report,
    wanted_taints,
    without_tolerance,
)
from extender.domain.nodes.unavailable import REASONS, unavailable
from extender.domain.ports import Announcement, Announcer, Clock, KubeNodes
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import NATIVE_JOB_TAINT, Reason
from extender.engine.cluster_snapshot import ClusterSnapshot
from extender.engine.engine import Engine
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import NativeJobsChanged, NodeChanged, SnapshotChanged

_log = structlog.get_logger(__name__)

AT_ONCE = 4
"""Writes under way."""

AGAIN_AFTER = 10.0
"""Seconds before a write is tried again whose effect the watch has not shown, on a Node that is as it was."""

SOON = 3.0
"""The same where the write was refused, or its outcome is not known."""

REST = 0.5
"""Seconds of rest after such a one: an API server in trouble is asked eight times a second at most."""

SILENT = "NOT_RESPONDING"
DOWN = "DOWN"


class MarkController:
    """Own the extender's marks on Nodes. Keys are names of Nodes. `native` knows the jobs that lock them.

    `slurmds`: the Pods that run a slurmd; `None`: not known yet. `in_pods`: slurmds run in Pods here.
    """

    def __init__(
        self,
        engine: Engine,
        writes: KubeNodes,
        clock: Clock,
        announcer: Announcer,
        rules: MarkRules,
        *,
        kube_nodes: Callable[[], Iterable[NodeView]],
        kube_node: Callable[[str], NodeView | None],
        slurmds: Callable[[], Iterable[PodView] | None],
        in_pods: bool,
        native: NativeJobs,
    ) -> None:
        self._engine = engine
        self._writes = writes
        self._clock = clock
        self._announcer = announcer
        self._rules = rules
        self._kube_nodes = kube_nodes
        self._kube_node = kube_node
        self._slurmds = slurmds
        self._in_pods = in_pods
        self._native = native
        self._pods: dict[str, tuple[PodView, ...]] = {}
        """The Pods that run the slurmd of each Slurm node, or did last."""

        self._silent: dict[str, float] = {}
        """Since when Slurm nodes have not answered slurmctld."""

        self._tried: dict[str, tuple[str, float]] = {}
        """What was last written to: the version of each Node, and when."""

        self._notified: set[tuple[str, str]] = set()
        """Nodes, and the taints of which it was said that a slurmd does not tolerate them."""

        self._controller = Controller("marks", self._reconcile, workers=AT_ONCE, resync=Resync(self._first))
        self._moved = asyncio.Condition()
        self._seen: ClusterSnapshot | None = None
        """The snapshot that was compared last. Before that the jobs that are named on Nodes are not known."""

    def unavailable_by_reason(self) -> Mapping[str, int]:
        """Count the Nodes on which Slurm starts nothing new, by the reason in their condition."""
        snapshot, now = self._engine.snapshot, self._clock.now()
        found = Counter(dict.fromkeys(REASONS, 0))
        for its in snapshot.node_map.last.values():
            slurm = snapshot.slurm.nodes.get(its)
            why = None if slurm is None else unavailable(slurm, now - self._silent.get(its, now))
            if why is not None:
                found[why.reason] += 1
        return found

    def node_changed(self, event: NodeChanged) -> None:
        """Compare the marks of this Node."""
        if (node := event.new or event.old) is not None:
            self._controller.add(node.name)

    def native_jobs_changed(self, event: NativeJobsChanged) -> None:
        """Compare the marks of the Node on which native jobs came or went."""
        name = self._engine.snapshot.node_map.partner(event.slurm_node)
        if name is not None:
            self._controller.add(name)

    def _first(self) -> list[str]:
        self.snapshot_changed(SnapshotChanged())
        return []

    async def wait_until_marked(self, slurm_node: str) -> bool:
        """Wait until the marks of its Node are written. Return whether the Node is locked then."""
        name = self._engine.snapshot.node_map.partner(slurm_node) or ""
        async with self._moved:
            await self._moved.wait_for(lambda: self._change_of(name) is None)
        node = self._kube_node(name)
        return node is not None and any(taint.key == NATIVE_JOB_TAINT for taint in node.taints)

    async def run(self) -> None:
        """Write until cancelled."""
        await self._controller.run()

    def snapshot_changed(self, _event: SnapshotChanged) -> None:
        """Compare the Nodes of which either side is different from the snapshot before."""
        snapshot = self._engine.snapshot
        known = snapshot.slurm.known and snapshot.node_map.known
        if self._controller.running and snapshot is not self._seen and known:
            self._compare(snapshot)

    def _compare(self, snapshot: ClusterSnapshot) -> None:
        """Queue the Nodes whose Slurm node changed: thousands are not compared for one that is busy now."""
        now, pairs, before = self._clock.now(), snapshot.node_map.last, self._seen
        nodes = snapshot.slurm.nodes
        silent = {name for name, node in nodes.items() if node.flags and SILENT in node.flags}
        self._silent = {name: self._silent.get(name, now) for name in silent}
        changed = self._slurmds_changed(nodes) | silent
        if before is None:
            self._native.adopt(self._kube_nodes(), lambda name: pairs.get(name, ""))
        elif snapshot.slurm is not before.slurm:
            changed |= _changed(before.slurm.nodes, nodes)
        self._seen = snapshot
        if before is None or pairs != before.node_map.last:
            there = set()
            for one in self._kube_nodes():
                there.add(one.uid)
                if one.name in pairs or marked(one, self._rules.owner):
                    self._controller.add(one.name)
            self._notified = {(uid, taint) for uid, taint in self._notified if uid in there}
            return
        for name, its in pairs.items() if changed else ():
            if its in changed:
                self._controller.add(name)

    def _slurmds_changed(self, known: Container[str]) -> set[str]:
        """Take note of the Pods that run a slurmd; the Slurm nodes of those that are others than before."""
        found: dict[str, tuple[PodView, ...]] = {}
        for pod in self._slurmds() or ():
            if not pod.finished:
                found[pod.name] = (*found.get(pod.name, ()), pod)
        before = self._pods
        self._pods = {name: pods for name, pods in (before | found).items() if name in known}
        return {name for name, pods in self._pods.items() if pods != before.get(name)}

    async def _reconcile(self, name: str) -> Requeue | None:
        again = await self._write(name)
        async with self._moved:
            self._moved.notify_all()
        return again

    async def _write(self, name: str) -> Requeue | None:
        """Write what a Node is to bear, unless it does. Return when to look whether the watch has shown it."""
        node = self._kube_node(name)
        wanted, status_report = (None, None) if node is None else self._owed(node)
        if node is None or not (wanted or status_report):
            self._tried.pop(name, None)
            return None
        version, at = self._tried.get(name, ("", 0.0))
        if version == node.resource_version and (left := at + AGAIN_AFTER - self._clock.now()) > 0.0:
            return Requeue(left)  # the watch has yet to show the result
        self._tried[name] = (node.resource_version, self._clock.now())
        done = True
        if wanted is not None:
            done = await self._writes.mark(node, wanted)
            if done:
                _log.info("node_marked", node=name, **_shown(wanted))
        if status_report is not None:
            reported = await self._writes.report(node, status_report)
            done = done and reported
            if reported:
                _log.info(
                    "node_condition_written", node=name, unavailable=status_report.unavailable, why=status_report.text
                )
        if done:
            return Requeue(AGAIN_AFTER)
        self._tried[name] = (node.resource_version, self._clock.now() - AGAIN_AFTER + SOON)
        await asyncio.sleep(REST)
        return Requeue(SOON - REST)

    def _owed(self, node: NodeView) -> tuple[NodePatch | None, Report | None]:
        """Return the write that is due. While the mapping or Slurm's nodes are unknown, everything stays as it is."""
        snapshot = self._engine.snapshot
        if not (self._seen is not None and snapshot.slurm.known and snapshot.node_map.known):
            return None, None
        status = self._status_of(node)
        self._notify(node, status)
        return change(node, status, self._rules), report(node, status, self._rules)

    def _change_of(self, name: str) -> NodePatch | None:
        node = self._kube_node(name)
        return None if node is None else self._owed(node)[0]

    def _status_of(self, node: NodeView) -> NodeStatus:
        snapshot, now = self._engine.snapshot, self._clock.now()
        name = snapshot.node_map.last.get(node.name, "")
        slurm = snapshot.slurm.nodes.get(name)
        if slurm is None:
            return NodeStatus()
        silent_s = now - self._silent.get(name, now)
        pods = self._pods.get(name, ()) if self._in_pods else None
        if node.name not in snapshot.node_map.slurm and not self._in_pods and speaks_no_more(node, slurm):
            return NodeStatus(jobs=self._native.on(name))  # jobs that began there while it was that node
        return NodeStatus(True, unavailable(slurm, silent_s), self._native.on(name), pods)

    def _notify(self, node: NodeView, status: NodeStatus) -> None:
        """Announce once each taint of a Node that is not there for the sake of its slurmd."""
        for taint in wanted_taints(status, self._rules):
            pods = without_tolerance(status, taint)
            if not pods or (node.uid, taint.key) in self._notified:
                continue
            self._notified.add((node.uid, taint.key))
            text = f"Its slurmd Pod {pods[0]} does not tolerate {taint.key}:{taint.effect}, so it is not added."
            _log.warning("node_not_tainted", node=node.name, why=text)
            announcement = Announcement("Node", "", node.name, node.uid, Reason.TAINT_NOT_TOLERATED, text, warning=True)
            self._announcer.announce(announcement)


def _changed(before: Mapping[str, SlurmNode], now: Mapping[str, SlurmNode]) -> set[str]:
    """Return the nodes whose fields for marks changed in Slurm: jobs that come and go change no Node."""
    return {
        name
        for name, node in now.items()
        if (was := before.get(name)) is None
        or was.flags != node.flags
        or was.reason != node.reason
        or was.reason_user != node.reason_user
        or (was.state != node.state and DOWN in {was.state, node.state})
    }


def _shown(wanted: NodePatch) -> dict[str, object]:
    shown: dict[str, object] = {}
    if wanted.add:
        shown["tainted"] = [f"{taint.key}:{taint.effect}" for taint in wanted.add]
    if wanted.remove:
        shown["untainted"] = [f"{taint.key}:{taint.effect}" for taint in wanted.remove]
    if wanted.unschedulable is not None:
        shown["cordoned"] = wanted.unschedulable
    return shown
