"""Compute the candidate nodes of gated Pods, which kube-scheduler never sees, and remove gates that are in the way.

A gated Pod costs nothing while it waits: kube-scheduler does not try it, and the grant takes the gate away. Its job is
submitted once the extender's is the only gate left, so that Kueue and others act first. A Pod that only kube-scheduler
can judge (`domain.placing.candidates.NeedsKubeScheduler`) loses the gate at once, and waits there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import structlog

from extender.controllers.gangs.candidates import MemberCandidates
from extender.controllers.scheduling import FilterCandidates
from extender.domain import events as e
from extender.domain.placing.candidates import Demands, NeedsKubeScheduler, demands
from extender.domain.ports import Pods
from extender.domain.printable import shortened
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import GATE
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue
from extender.runtime.cooperative_yield import CooperativeYield

_log = structlog.get_logger(__name__)

NOTIFY_APART = 0.2
"""Seconds between two rounds of notifications about changed Nodes: a rack that fails is one change to a job."""

IDLE_KEPT = 64
"""Lists that no waiting Pod needs are kept for the next one, the last so many: they cost a look at every Node."""

RETRY = 5.0
"""Seconds before a gate that could not be taken away is tried again."""

MOST_NAMED = 8
"""Parts of a Pod, and other Pods, that are named as the reason why a gate is removed."""

DEFAULT_SCHEDULER = "default-scheduler"
"""kube-scheduler's own name: no extender serves it, so a Pod of it would wait behind the gate without end."""


@dataclass(slots=True)
class _Wanted:
    """The nodes that meet some demands, and the UIDs of the Pods that wait with them."""

    nodes: set[str]
    notified: frozenset[str]
    pods: set[str] = field(default_factory=set)


class GateController:
    """Give gated Pods their candidates.

    `repelling`: Pods on nodes that have a required anti-affinity. `licensed`: resources that are on no node;
    `by_class`: those for which a DeviceClass stands; `translated`: those of them whose devices Slurm chooses.
    `as_judged` returns a Pod without the parts that Slurm decides, `None` while too little is known of it.
    """

    def __init__(
        self,
        members: MemberCandidates,
        candidates: FilterCandidates,
        workloads: WorkloadResolver,
        pods: Pods,
        *,
        schedulers: Collection[str],
        nodes: Callable[[], Iterable[NodeView]],
        repelling: Callable[[], Iterable[PodView]],
        licensed: Callable[[str], bool] = lambda _resource: False,
        by_class: Callable[[str], bool] = lambda _resource: False,
        translated: Callable[[str], bool] = lambda _resource: False,
        as_judged: Callable[[PodView], PodView | None] = lambda pod: pod,
    ) -> None:
        self._members = members
        self._candidates = candidates
        self._workloads = workloads
        self._pods = pods
        self._schedulers = frozenset(schedulers)
        self._nodes = nodes
        self._repelling = repelling
        self._licensed = licensed
        self._by_class = by_class
        self._translated = translated
        self._as_judged = as_judged
        self._lists: OrderedDict[Demands, _Wanted] = OrderedDict()
        self._demands: dict[str, Demands] = {}
        """What each Pod demands whose candidates come from here, by UID."""

        self._ungating: dict[str, e.MemberRef] = {}
        """Pods whose gate is to go, by UID, for as long as they are there."""

        self._teller = Controller("candidates", self._notify_changed, keep_early=True)
        self._ungater = Controller("ungating", self._remove_gate, flow_of=self._namespace_of, keep_early=True)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod."""
        if new is None:
            if old is not None:
                self._leave(old.uid)
                self._ungating.pop(old.uid, None)
        elif GATE in new.gates and new.deleted_at is None:
            self._gated(old, new)
        elif new.node_name or new.deleted_at is not None or self._candidates.has_full(new.uid):
            self._leave(new.uid)  # else kube-scheduler has shown no list yet, and may have none to show

    def node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """Handle a change of a Node: each list that the Node joins or leaves is notified in its turn."""
        if old is not None and new is not None and _judged(old) == _judged(new):
            return
        for wanted, entry in self._lists.items():
            before = len(entry.nodes)
            if old is not None and new is None:
                entry.nodes.discard(old.name)
            elif new is not None and wanted.met_by(new):
                entry.nodes.add(new.name)
            elif new is not None:
                entry.nodes.discard(new.name)
            if len(entry.nodes) != before:
                self._teller.add(wanted, after=NOTIFY_APART)

    def classes_changed(self, pods: Iterable[PodView]) -> None:
        """Check the gates of these Pods again, since DeviceClasses changed on which they may depend."""
        for pod in pods:
            if self._demands.get(pod.uid) is not None and GATE in pod.gates and pod.deleted_at is None:
                self._gated(None, pod)

    def reconsider(self, pod: PodView) -> None:
        """Judge a gated Pod again: more is known of its ResourceClaims."""
        if GATE in pod.gates and pod.deleted_at is None:
            self._gated(None, pod)

    async def run(self) -> None:
        """Notify of changed nodes and remove gates, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._teller.run(), name="candidates")
            group.create_task(self._ungater.run(), name="ungating")

    def _gated(self, old: PodView | None, pod: PodView) -> None:
        if pod.scheduler_name not in self._schedulers:
            if pod.scheduler_name == DEFAULT_SCHEDULER:
                self._ungate(pod, "no extender serves its scheduler")
            return
        if pod.gates != (GATE,):
            return  # the others have their say first
        key = pod.uid
        if old is not None and _constraints(old) == _constraints(pod) and key in self._demands:
            return
        judged = self._as_judged(pod)
        if judged is None:
            return  # one of its ResourceClaims is not there yet
        wanted = demands(judged, self._repelling(), self._offered)
        if isinstance(wanted, NeedsKubeScheduler):
            self._leave(key)
            self._ungate(pod, shortened(wanted.why, MOST_NAMED))
            return
        if self._demands.get(key) != wanted:
            self._leave(key)
            entry = self._list(wanted)
            entry.pods.add(key)
            self._demands[key] = wanted
            self._notify((key,), entry)

    def _offered(self, resource: str) -> bool:
        if self._translated(resource):
            return True
        if self._by_class(resource):
            return False
        return self._licensed(resource) or any(resource in node.allocatable for node in self._nodes())

    def _list(self, wanted: Demands) -> _Wanted:
        entry = self._lists.get(wanted)
        if entry is None:
            nodes = {node.name for node in self._nodes() if wanted.met_by(node)}
            entry = self._lists[wanted] = _Wanted(nodes, frozenset(nodes))
            idle = [each for each, one in self._lists.items() if not one.pods and one is not entry]
            for each in idle[: max(0, len(idle) - IDLE_KEPT)]:
                del self._lists[each]
        self._lists.move_to_end(wanted)
        return entry

    def _leave(self, uid: str) -> None:
        wanted = self._demands.pop(uid, None)
        if wanted is not None:
            self._lists[wanted].pods.discard(uid)

    def _notify(self, uids: Collection[str], entry: _Wanted) -> None:
        for key, some in self._by_workload(uids).items():
            self._members.report_together(key, some, entry.notified, "gates", computed=True)

    def _by_workload(self, uids: Collection[str]) -> dict[str, list[str]]:
        """Return those of these Pods that need a list, by the key of their workload."""
        found = dict[str, list[str]]()
        for uid in uids:
            if self._candidates.has_full(uid):
                self._leave(uid)  # kube-scheduler's own lists are the better ones
            else:
                found.setdefault(self._workloads.key_of_uid(uid), []).append(uid)
        return found

    async def _notify_changed(self, wanted: Demands) -> None:
        """Notify every workload with these demands which nodes meet them now."""
        entry = self._lists.get(wanted)
        if entry is None or entry.notified == entry.nodes:
            return
        entry.notified = frozenset(entry.nodes)
        turns = CooperativeYield()
        for uids in self._by_workload(tuple(entry.pods)).values():
            await turns.maybe_yield()
            self._notify([uid for uid in uids if uid in entry.pods], entry)

    def _ungate(self, pod: PodView, why: str) -> None:
        if pod.uid not in self._ungating:
            self._ungating[pod.uid] = e.MemberRef.of(pod)
            _log.info("pod_ungated", pod=pod.full_name, uid=pod.uid, why=why)
            self._ungater.add(pod.uid)

    def _namespace_of(self, uid: str) -> str:
        member = self._ungating.get(uid)
        return "" if member is None else member.namespace

    async def _remove_gate(self, uid: str) -> Requeue | None:
        member = self._ungating.get(uid)
        if member is None:
            return None  # it was removed meanwhile
        if not await self._pods.ungate(member):
            return Requeue(RETRY)
        self._ungating.pop(uid, None)
        return None


def _constraints(pod: PodView) -> tuple[object, ...]:
    """Return the parts of a Pod that can change while it waits and that matter here."""
    return (pod.gates, pod.labels, pod.node_selector, pod.required_terms, pod.tolerations)


def _judged(node: NodeView) -> tuple[object, ...]:
    return (node.labels, node.unschedulable, node.taints)
