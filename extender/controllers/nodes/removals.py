"""Hold nodes of Pods that were removed without a report of their kubelet, until it is known that they ended.

The state machine receives the Pod's end only when its nodes are held, and then ends the job: nothing starts between.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import NAMESPACE_OID, uuid5

import structlog

from extender.controllers.nodes.controller import NodeController
from extender.domain import events as e
from extender.domain.jobs.job import JobView, Mark
from extender.domain.nodes.marks import NodePatch
from extender.domain.nodes.member_nodes import slurm_nodes_of, slurm_nodes_of_member
from extender.domain.nodes.removals import SETTLE_S, Removal, check, removal, removals_in
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.pods.outcome import outcome_of
from extender.domain.ports import Announcement, Announcer, Clock, KubeNodes, NodeLeases, PortError
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import RELEASED_AT, Reason
from extender.engine.engine import Engine
from extender.engine.missing_jobs import MissingJobTracker
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue, Resync
from extender.runtime.topics import NodeChanged, PodChanged

_log = structlog.get_logger(__name__)

CHECK_EVERY = 1.0
"""Seconds between two checks of the Pods whose end is not known."""

_ALL = "all"
"""The one key: Leases are read for all Pods of a Node at once."""

LEASE_EVERY = 5.0
"""Seconds between two readings of one Node's Lease: a kubelet renews it every 10 s."""

LEASES_AT_ONCE = 8
"""How many are read in a look; the others have their turn after."""

REMEMBERS_WITHIN = 15.0
"""Seconds within which a start has read the drains of the process before, once Slurm answers."""

UNKNOWN_NODE = "?"
"""Stands for the Node of a Slurm node whose own name is another Node's, as long as no Node is known to be that one."""

REMEMBERED = 10_000
"""Pods whose end is remembered, for jobs of theirs that are found later."""


_HOW_IT_ENDS = (
    "Slurm starts nothing there until its kubelet has reported after that grace. A restart of the kubelet ends what is "
    "left at once; then `kubectl slurm release {node}` ends the wait."
)


@dataclass(slots=True)
class _OpenRemoval:
    """One removal. `workload` is "" once the workload was notified; `slurm_nodes`, once known, are held for it."""

    known: Removal
    workload: str
    slurm_nodes: frozenset[str]
    outcome: str = ""
    held: bool = False
    since: float = 0.0
    """When it was removed; 0: before this process."""


class RemovalController:
    """Hold nodes for removed Pods, and release them. `longest_grace_s`: the longest grace of Pods that are accepted."""

    def __init__(
        self,
        engine: Engine,
        missing_jobs: MissingJobTracker,
        workloads: WorkloadResolver,
        nodes: NodeController,
        leases: NodeLeases,
        *,
        clock: Clock,
        announcer: Announcer,
        writer: KubeNodes,
        kube_nodes: Callable[[], Mapping[str, NodeView]],
        longest_grace_s: int,
    ) -> None:
        self._engine = engine
        self._missing_jobs = missing_jobs
        self._workloads = workloads
        self._nodes = nodes
        self._clock = clock
        self._announcer = announcer
        self._leases = leases
        self._lease_read: dict[str, float] = {}
        """When the Lease of each Node was read, for Nodes whose Lease matters."""

        self._lease_error = ""
        self._writer = writer
        self._kube_nodes = kube_nodes
        self._longest_grace_s = longest_grace_s
        self._released: dict[str, tuple[str, float]] = {}
        """Nodes that an administrator has released: what stands on each, and when that was seen first."""

        self._open: dict[str, _OpenRemoval] = {}
        self._adopted: set[str] = set()
        self._proven: OrderedDict[str, None] = OrderedDict()
        """UIDs of Pods that are known to be gone."""

        self._began: float | None = None
        self._controller = Controller("removals", self._reconcile, resync=Resync(lambda: (_ALL,)))

    def removed(self, workload: str, pod: PodView) -> None:
        """Handle a Pod that the API server no longer has."""
        if (found := self._open.get(pod.uid)) is not None and found.held and self._is_unknown(workload, pod.uid):
            found.workload = workload  # the process before held its node
            return
        node = pod.node_name or self._bound_to(workload, pod.uid)
        placed = self._placed_by_slurm(workload, pod.uid)
        if not node or (pod.stopped and pod.node_name) or placed is False:
            self._prove(pod.uid)
            self._notify(workload, pod.uid, outcome_of(pod))
            return
        known = removal(pod.uid, pod.full_name, node, pod.grace_s, self._kube_nodes().get(node))
        nodes = self._slurm_nodes(workload, pod.uid, node)
        one = _OpenRemoval(known, workload, nodes, outcome_of(pod), since=self._clock.now())
        if pod.node_name and placed:
            self._keep(one)
        else:
            self._open[pod.uid] = one  # what became of its Binding, or whether it has a job, will be known in a moment

    def pod_changed(self, event: PodChanged) -> None:
        """Report no end of a Pod that a restored etcd brought back, unless it shows that end itself.

        A node that is held for it is held until what ran there is gone.
        """
        new = event.new
        if event.old is not None or new is None or new.ended or (one := self._open.get(new.uid)) is None:
            return
        if one.held:
            one.workload = ""
        else:
            del self._open[new.uid]

    def left_behind(self, job: JobView, mark: Mark) -> bool:
        """Handle a job whose Pod was removed unnoticed. True: its nodes are held, or the Pod is known to be gone.

        Its name is not known any more, nor on which of several nodes it was: each of these has a removal of its own,
        since the kubelet of another node says nothing about it.
        """
        snapshot = self._engine.snapshot
        uids = [uid for uid in self._workloads.uids(mark.workload) if uid not in self._proven]
        if not job.nodes or not uids:
            return True
        if not snapshot.node_map.known:
            return False
        left = dict.fromkeys((uid for uid in uids if uid not in self._open), job.nodes[0])
        if left and len(job.nodes) > 1:
            left = {_uid_on(one, mark.workload, job.job_id): one for one in job.nodes}
        for uid, slurm_node in left.items():
            if uid in self._open or uid in self._proven:
                continue
            node = snapshot.node_map.last_kubernetes(slurm_node) or UNKNOWN_NODE
            pod = "-".join(job.name.rpartition("-")[0].split()) or "?"
            known = removal(uid, pod, node, mark.longest_grace_s, self._kube_nodes().get(node))
            self._keep(_OpenRemoval(known, "", frozenset({slurm_node})))
        held = [self._open[uid] for uid in (*uids, *left) if uid in self._open]
        return all(self._nodes.keeps(slurm_node) for one in held for slurm_node in one.slurm_nodes)

    def found(self, slurm_node: str, reason: str) -> None:
        """Adopt a drain found at the start: the previous process may have held the node for removed Pods.

        A grace in the text counts up to `longest_grace_s`, with which Pods are accepted. A replica that does not lead
        adopts nothing: the leader may change the drain.
        """
        if slurm_node in self._adopted or not self._controller.running:
            return
        if self._engine.snapshot.slurm.known:
            self._adopted &= self._engine.snapshot.slurm.nodes.keys()
        self._adopted.add(slurm_node)
        for one in removals_in(reason):
            if (found_before := self._open.get(one.uid)) is not None:
                found_before.slurm_nodes |= {slurm_node}  # the drains of several nodes may name one Pod
                if found_before.held:
                    self._hold(found_before)
            elif one.uid not in self._proven:
                seen = self._kube_nodes().get(one.node)
                known = removal(one.uid, one.pod, one.node, min(one.grace_s, self._longest_grace_s), seen)
                self._keep(_OpenRemoval(known, "", frozenset({slurm_node})))

    def release_removed_pods(self, slurm_node: str) -> list[str]:
        """Accept an administrator's statement that the node is empty. Return the Pods for which it was held."""
        released = [one for one in self._open.values() if slurm_node in one.slurm_nodes]
        for one in released:
            self._done(one, "confirmed by an administrator")
        return [one.known.pod for one in released]

    def node_changed(self, event: NodeChanged) -> None:
        """Remember that an administrator has released this Node, and when that was seen first."""
        if event.new is not None:
            self._note_release(event.new)

    def _note_release(self, node: NodeView) -> None:
        released_at = node.annotations.get(RELEASED_AT)
        if released_at is None:
            self._released.pop(node.name, None)
        elif self._released.get(node.name, ("", 0.0))[0] != released_at:
            self._released[node.name] = (released_at, self._clock.now())

    async def _end_released_holds(self, nodes: Mapping[str, NodeView], remembered: bool) -> None:
        """End the holds that were there when a Node was released; then take the annotation off.

        It says nothing about Pods that are removed later. `remembered`: holds of the process before are known.
        """
        for name, (_, seen_at) in list(self._released.items()):
            slurm_node = self._engine.snapshot.node_map.slurm.get(name)  # another Node may have its own name in Slurm
            for one in list(self._open.values()):
                if one.since <= seen_at and (one.known.node == name or slurm_node in one.slurm_nodes):
                    self._done(one, "an administrator released the Node")
            node = nodes.get(name)
            if node is None or RELEASED_AT not in node.annotations:
                self._released.pop(name, None)
            elif remembered:
                await self._writer.mark(node, NodePatch(annotations={RELEASED_AT: None}))

    async def run(self) -> None:
        """Check until cancelled."""
        await self._controller.run()

    async def _reconcile(self, _all: str) -> Requeue:
        if self._began is None:
            self._began = self._clock.now()
            for seen in list(self._kube_nodes().values()):
                self._note_release(seen)
            return Requeue(CHECK_EVERY)
        known = self._engine.snapshot.slurm.known and self._clock.now() - self._began > REMEMBERS_WITHIN
        await self._end_released_holds(self._kube_nodes(), known)
        nodes, now, those = self._kube_nodes(), self._clock.now(), list(self._open.values())
        for one in those:
            self._find_node(one, nodes)
        renewed = await self._renewed(nodes, now)
        for one in those:
            if self._open.get(one.known.uid) is one:  # else an administrator has released it meanwhile
                self._check(one, nodes.get(one.known.node), now, renewed.get(one.known.node, ""))
        return Requeue(CHECK_EVERY)

    def _find_node(self, one: _OpenRemoval, nodes: Mapping[str, NodeView]) -> None:
        """Name the Node that its Slurm node is, where that was deleted at the start: its name was not known then."""
        if one.known.node in nodes or len(one.slurm_nodes) != 1:
            return
        (slurm_node,) = one.slurm_nodes
        found = self._engine.snapshot.node_map.partner(slurm_node)
        if found is not None and found in nodes and one.known.node in {slurm_node, UNKNOWN_NODE}:
            one.known = replace(one.known, node=found)

    def _check(self, one: _OpenRemoval, node: NodeView | None, now: float, renewed: str) -> None:
        """Take the next step about one removed Pod."""
        one.known, proven = check(one.known, node, now, renewed)
        if proven:
            self._done(one, "its kubelet lives and the grace is over")
        elif not one.held and not self._bound_to(one.workload, one.known.uid):
            self._done(one, "it was never bound")
        elif not one.held:
            self._decide(one)
        elif one.workload and self._covered(one):
            workload, one.workload = one.workload, ""
            self._notify(workload, one.known.uid, one.outcome)

    async def _renewed(self, nodes: Mapping[str, NodeView], now: float) -> dict[str, str]:
        """Return when those Leases were renewed that matter now and have to be read again."""
        doubtful = {
            one.known.node for one in self._open.values() if one.known.needs_lease(nodes.get(one.known.node), now)
        }
        self._lease_read = {node: at for node, at in self._lease_read.items() if node in doubtful}
        due = [node for node in sorted(doubtful) if now - self._lease_read.get(node, -LEASE_EVERY) >= LEASE_EVERY]
        due.sort(key=lambda node: self._lease_read.get(node, 0.0))
        those = due[:LEASES_AT_ONCE]
        self._lease_read.update(dict.fromkeys(those, now))
        return dict(zip(those, await asyncio.gather(*map(self._renewal, those)), strict=True))

    async def _renewal(self, node: str) -> str:
        """Return the last renewal of a Node's Lease; "" where it cannot be read. A missing Lease proves nothing."""
        try:
            renewed = await self._leases.renewed(node)
        except PortError as error:
            if not self._lease_error:
                _log.warning("lease_not_read", node=node, error=str(error))
            self._lease_error = str(error)
            return ""
        self._lease_error = ""
        return renewed

    def _decide(self, one: _OpenRemoval) -> None:
        """Hold the node once it is known that Slurm placed the Pod."""
        placed = self._placed_by_slurm(one.workload, one.known.uid)
        if placed:
            self._keep(one)
        elif placed is False:
            self._done(one, "Slurm did not place it")

    def _placed_by_slurm(self, workload: str, uid: str) -> bool | None:
        """Return whether the Pod was on its node for a job of its own; `None`: Slurm has not answered yet.

        Every user who may create Pods can name a node in `spec.nodeName`, and delete the Pod by force. No node is held
        for such a Pod: Slurm did not account for it while it ran either.
        """
        p, member = self._member(workload, uid)
        if p is None or member is None or p.occupies_job(member):
            return True
        return None if p.state is State.UNSURE else False

    def _keep(self, one: _OpenRemoval) -> None:
        known, one.held = one.known, True
        self._open[known.uid] = one
        _log.warning("pod_end_unknown", pod=known.pod, uid=known.uid, node=known.node)
        if (node := self._kube_nodes().get(known.node)) is not None:
            text = f"{known.text}. {_HOW_IT_ENDS.format(node=node.name)}"
            announcement = Announcement("Node", "", node.name, node.uid, Reason.POD_END_UNKNOWN, text, warning=True)
            self._announcer.announce(announcement)
        self._hold(one)

    def _hold(self, one: _OpenRemoval) -> None:
        known = one.known
        for slurm_node in one.slurm_nodes:
            self._nodes.hold(slurm_node, known.cause, known.text, closely=known.grace_s + SETTLE_S)

    def _covered(self, one: _OpenRemoval) -> bool:
        """Return whether Slurm starts nothing on the Pod's node, so that its workload may end the job.

        The Slurm node may not be known yet: after a start, if the Node was deleted, only the job itself names it, and
        only while Slurm answers.
        """
        if not one.slurm_nodes:
            one.slurm_nodes = self._slurm_nodes(one.workload, one.known.uid, one.known.node)
            self._hold(one)
        if one.slurm_nodes:
            return all(self._nodes.keeps(node) for node in one.slurm_nodes)
        p = self._engine.placeholders.get(one.workload)
        waits = p is not None and p.job_occupied and p.state in {State.UNSURE, State.WAITING}
        missing = p is not None and self._missing_jobs.misses(p.key)
        return self._engine.snapshot.slurm.known and (missing or not waits)

    def _done(self, one: _OpenRemoval, why: str) -> None:
        _log.info("pod_end_known", pod=one.known.pod, uid=one.known.uid, node=one.known.node, why=why)
        del self._open[one.known.uid]
        self._prove(one.known.uid)
        if one.workload:
            self._notify(one.workload, one.known.uid, one.outcome)
        self._nodes.release_hold(one.known.cause)

    def _prove(self, uid: str) -> None:
        self._proven[uid] = None
        if len(self._proven) > REMEMBERED:
            self._proven.popitem(last=False)

    def _notify(self, workload: str, uid: str, outcome: str) -> None:
        self._engine.handle(workload, e.PodGone(uid, e.PodEnd.REMOVED, outcome), "watch")

    def _slurm_nodes(self, workload: str, uid: str, node: str) -> frozenset[str]:
        p, snapshot = self._engine.placeholders.get(workload), self._engine.snapshot
        slurm_nodes = frozenset[str]()
        if p is not None:
            member = p.member(uid)
            slurm_nodes = frozenset() if member is None else slurm_nodes_of_member(p, member, snapshot.node_map)
            slurm_nodes = slurm_nodes or slurm_nodes_of(p, snapshot.node_map)
        own_name = {node} if snapshot.node_map.last_kubernetes(node) == node else set[str]()
        given = slurm_nodes or snapshot.node_map.last_slurm([node]) or frozenset(p.slurm_nodes if p else ())
        return given or frozenset(own_name & snapshot.slurm.nodes.keys())

    def holds(self, slurm_node: str) -> bool:
        """Return whether this Slurm node is held for a removed Pod."""
        return any(one.held and slurm_node in one.slurm_nodes for one in self._open.values())

    def _member(self, workload: str, uid: str) -> tuple[Placeholder | None, Member | None]:
        p = self._engine.placeholders.get(workload)
        return p, None if p is None else p.member(uid)

    def _is_unknown(self, workload: str, uid: str) -> bool:
        _, member = self._member(workload, uid)
        return member is not None and member.unknown

    def _bound_to(self, workload: str, uid: str) -> str:
        """Return the node of a Binding that the watch has not shown."""
        p, member = self._member(workload, uid)
        if p is None or member is None:
            return ""
        return member.node or (p.node_of(uid) if member.binding else "")


def _uid_on(slurm_node: str, workload: str, job_id: int) -> str:
    """Return what stands for the UID of the Pod that a job had on this node. It is the same after each start."""
    return str(uuid5(NAMESPACE_OID, f"{workload} {job_id} {slurm_node}"))
