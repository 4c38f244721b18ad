"""Find gated Pods whose candidate nodes are computed, since kube-scheduler never sees them, and remove other gates.

A gated Pod costs nothing while it waits: kube-scheduler does not try it, and the grant takes the gate away. Its job is
submitted once the extender's is the only gate left, so that Kueue and others act first. A Pod that only kube-scheduler
can judge (`domain.placing.candidates.NeedsKubeScheduler`) loses the gate at once, and waits there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

import structlog

from extender.controllers.gangs.candidates import MemberCandidates
from extender.controllers.gated_candidates import GatedCandidates
from extender.controllers.scheduling import FilterCandidates
from extender.domain import events as e
from extender.domain.placing.candidates import NeedsKubeScheduler, demands
from extender.domain.ports import Pods
from extender.domain.printable import shortened
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import GATE
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.controller import Controller, Requeue

_log = structlog.get_logger(__name__)

RETRY = 5.0
"""Seconds before a gate that could not be taken away is tried again."""

MOST_NAMED = 8
"""Parts of a Pod, and other Pods, that are named as the reason why a gate is removed."""

DEFAULT_SCHEDULER = "default-scheduler"
"""kube-scheduler's own name: no extender serves it, so a Pod of it would wait behind the gate without end."""


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
        self._gated_candidates = GatedCandidates(nodes, workloads.key_of_uid, self._notify)
        self._ungating: dict[str, e.MemberRef] = {}
        """Pods whose gate is to go, by UID, for as long as they are there."""

        self._ungater = Controller("ungating", self._remove_gate, flow_of=self._namespace_of, keep_early=True)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Handle a change of a Pod."""
        if new is None:
            if old is not None:
                self._gated_candidates.leave(old.uid)
                self._ungating.pop(old.uid, None)
        elif GATE in new.gates and new.deleted_at is None:
            self._gated(old, new)
        elif new.node_name or new.deleted_at is not None or self._candidates.has_full(new.uid):
            self._gated_candidates.leave(new.uid)  # else kube-scheduler has shown no list yet, and may have none

    def node_changed(self, old: NodeView | None, new: NodeView | None) -> None:
        """Handle a change of a Node: each list that the Node joins or leaves is notified in its turn."""
        if old is None or new is None or _judged(old) != _judged(new):
            self._gated_candidates.node_changed(old, new)

    def classes_changed(self, pods: Iterable[PodView]) -> None:
        """Check the gates of these Pods again, since DeviceClasses changed on which they may depend."""
        for pod in pods:
            if self._gated_candidates.demands_of(pod.uid) is not None and GATE in pod.gates and pod.deleted_at is None:
                self._gated(None, pod)

    def reconsider(self, pod: PodView) -> None:
        """Judge a gated Pod again: more is known of its ResourceClaims."""
        if GATE in pod.gates and pod.deleted_at is None:
            self._gated(None, pod)

    async def run(self) -> None:
        """Notify of changed nodes and remove gates, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._gated_candidates.run(), name="candidates")
            group.create_task(self._ungater.run(), name="ungating")

    def _gated(self, old: PodView | None, pod: PodView) -> None:
        if pod.scheduler_name not in self._schedulers:
            if pod.scheduler_name == DEFAULT_SCHEDULER:
                self._ungate(pod, "no extender serves its scheduler")
            return
        if pod.gates != (GATE,):
            return  # the others have their say first
        known = self._gated_candidates.demands_of(pod.uid) is not None
        if old is not None and _constraints(old) == _constraints(pod) and known:
            return
        judged = self._as_judged(pod)
        if judged is None:
            return  # one of its ResourceClaims is not there yet
        wanted = demands(judged, self._repelling(), self._offered)
        if isinstance(wanted, NeedsKubeScheduler):
            self._gated_candidates.leave(pod.uid)
            self._ungate(pod, shortened(wanted.why, MOST_NAMED))
            return
        self._gated_candidates.join(pod, wanted)

    def _offered(self, resource: str) -> bool:
        if self._translated(resource):
            return True
        if self._by_class(resource):
            return False
        return self._licensed(resource) or any(resource in node.allocatable for node in self._nodes())

    def _notify(self, uids: Collection[str], nodes: frozenset[str]) -> None:
        """Report the nodes that Pods of one workload may use, unless kube-scheduler has: its own lists are better."""
        listed = {uid for uid in uids if self._candidates.has_full(uid)}
        for uid in listed:
            self._gated_candidates.leave(uid)
        if others := [uid for uid in uids if uid not in listed]:
            key = self._workloads.key_of_uid(others[0])
            self._members.report_together(key, others, nodes, "gates", computed=True)

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
