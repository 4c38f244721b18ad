"""Check gangs: whole or not at all, in the order of ranks, one Pod in each slot, and no nodes that stay unused."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from extender.domain.nodes.removals import removals_in
from extender.domain.wellknown import GANG_NODES, GANG_RANK
from simulator.actors.gang_controllers import ATTEMPT, GangControllers, is_gated
from simulator.cluster import SCHEDULER, SimCluster
from simulator.event_log import job_subject, node_subject, pod_subject
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.invariants.node_sharing import LISTED_AFTER_S
from simulator.invariants.records import job_id_of, occupies_node, workload_of
from simulator.kube.kubelet_admission import exceeded_resources
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.kube.resources import PODS
from simulator.kube.storage import WatchEvent
from simulator.slurm.records import SimJob
from slurmclient.hostlist import compress, expand

MOST_GRANTS = 6
"""Undisturbed grants of one gang in a row without a Binding: each refused Node is excluded from the next job.

Grants of Nodes that are full count for nothing: where Slurm knows more room than Kubernetes, it may offer them again.
"""


@dataclass(slots=True)
class _Grant:
    """The grant of a gang's job, or its take-over by a new incarnation."""

    at: float
    members: frozenset[str]
    """UIDs of the members that were there."""


@dataclass(slots=True)
class GangInvariants:
    """Check the gangs of one cluster, for `checker`."""

    cluster: SimCluster
    checker: InvariantChecker
    controllers: GangControllers
    _grants: dict[int, _Grant] = field(default_factory=dict)
    _unused: Counter[str] = field(default_factory=Counter)
    """Grants in a row without a Binding, by workload."""

    _bound: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Start to check."""
        self.checker.workload_of_pod = self.controllers.workload_of
        self.checker.can_start = self.controllers.is_complete
        self.checker.kept_s = self._kept_s
        self.cluster.slurm.controller.listeners.append(self._on_job_event)
        self.cluster.kube.storage.listen(self._on_pod_event)
        self.checker.also.append(self.check)

    def _kept_s(self, workload: str) -> float:
        """Return for how long the job of a gang without Pods is kept, so that the next incarnation takes it over."""
        if workload not in self.controllers.kept:
            return 0.0
        return self.cluster.configured().gangs.replace_within

    def _on_job_event(self, what: str, job: SimJob) -> None:
        key = workload_of(job)
        if what != "started" or not key.startswith("gang-"):
            return
        now = asyncio.get_running_loop().time()
        there = [pod for pod in self.checker.pods_of(key) if _is_live(pod)]
        self._grants[job.job_id] = _Grant(now, frozenset(pod["metadata"]["uid"] for pod in there))
        if not self.checker.quiescence.lasted(now - 300.0) > 290.0:
            self._unused[key] = 0
            return
        if self._is_full(job, there):
            return
        self._unused[key] += 1
        self.checker.checked[Invariant.GANG_LOOP] += 1
        if self._unused[key] > MOST_GRANTS:
            about = job_subject(job.job_id), *(pod_subject(pod["metadata"]["name"]) for pod in there)
            self.checker.violate(Invariant.GANG_LOOP, f"{self._unused[key]} grants without a Binding", *about)

    def _is_full(self, job: SimJob, members: list[Json]) -> bool:
        """Return whether a Node of the job has no room beside the Pods there for so many members as it is to have.

        Of a gang that is not packed, a Node has one: the smallest one counts.
        """
        pods = [pod for pod in self.cluster.kube.storage.of(PODS) if occupies_node(pod)]
        for name in job.nodes:
            node = self.cluster.kube.node(self.cluster.names.kube(name))
            beside = [pod for pod in pods if self.checker.slurm_node_of(pod) == name]
            count = min(job.times(name), len(members))  # members that share a node are of one size
            if node is not None and all(
                exceeded_resources(node, [*beside, *members[first : first + count]])
                for first in range(len(members) - count + 1)
            ):
                return True
        return False

    def _on_pod_event(self, event: WatchEvent) -> None:
        pod = event.object
        if event.resource != PODS or pod["spec"]["schedulerName"] != SCHEDULER:
            return
        uid = pod["metadata"]["uid"]
        gang = self.controllers.gang_of(pod)
        if gang is None or not pod["spec"].get("nodeName") or uid in self._bound:
            return
        self._bound.add(uid)
        key = self.controllers.workload_of(uid)
        self._unused[key] = 0
        if not self.cluster.kube.in_client_request:
            return
        job = self.cluster.slurm.controller.jobs.get(job_id_of(pod))
        self._note_takeover(pod, key)
        node, name = self.checker.slurm_node_of(pod), pod["metadata"]["name"]
        about = pod_subject(name), node_subject(node), job_subject(job_id_of(pod))
        self.checker.checked[Invariant.RANKS] += 1
        annotations = pod["metadata"].get("annotations") or {}
        rank, nodes = annotations.get(GANG_RANK, ""), annotations.get(GANG_NODES, "").split(",")
        if not rank.isdecimal() or int(rank) >= len(nodes) or nodes[int(rank)] != node:
            self.checker.violate(Invariant.RANKS, f"rank {rank!r} of {nodes} on {node}", *about)
        elif (
            job is not None
            and workload_of(job) == key
            and job.running
            and tuple(dict.fromkeys(one for one in nodes if one in job.nodes)) != (shown := expand(compress(job.nodes)))
        ):
            self.checker.violate(Invariant.RANKS, f"{nodes} are not {shown} of the job", *about)
        self.checker.checked[Invariant.SLOTS] += 1
        for other in self.checker.pods_of(key):
            excluded = other["metadata"]["uid"] == uid or other["metadata"]["uid"] in self.checker.stopped_pods
            if excluded or not occupies_node(other) or job_id_of(other) != job_id_of(pod):
                continue
            same_rank = (other["metadata"].get("annotations") or {}).get(GANG_RANK, "") == rank
            if self.checker.slurm_node_of(other) == node and (same_rank or not gang.is_packed):
                text = f"Pod {other['metadata']['name']} is on its node"
                self.checker.violate(Invariant.SLOTS, text, *about, pod_subject(other["metadata"]["name"]))

    def _note_takeover(self, pod: Json, key: str) -> None:
        """Expect all members of a new incarnation to be bound to the job of the one before, once one of them is."""
        gang, number = self.controllers.gang_of(pod), job_id_of(pod)
        grant, there = self._grants.get(number), {one["metadata"]["uid"]: one for one in self.checker.pods_of(key)}
        if gang is None or not gang.keeps_allocation or grant is None:
            return
        if any(uid in there and _is_live(there[uid]) for uid in grant.members):
            return
        attempt = pod["metadata"]["labels"][ATTEMPT]
        members = [uid for uid, one in there.items() if one["metadata"]["labels"][ATTEMPT] == attempt and _is_live(one)]
        self._grants[number] = _Grant(asyncio.get_running_loop().time(), frozenset(members))

    def check(self) -> None:
        """Check everything that must hold after its time limit."""
        for job in self.cluster.live_jobs():
            key = workload_of(job)
            if not job.running or not key.startswith("gang-"):
                continue
            pods = self.checker.pods_of(key)
            subjects = job_subject(job.job_id), *(pod_subject(pod["metadata"]["name"]) for pod in pods)
            bound = [pod for pod in pods if pod["spec"].get("nodeName")]
            idle = bool(pods) and not any(occupies_node(pod) for pod in bound)
            idle = idle and not self._is_busy(job) and not self._lacks_members(key)
            text = f"{len(pods)} Pods, none of them bound"
            self.checker.hold(Invariant.GANG_NODES, f"{key} {job.job_id}", idle, text, *subjects)
            part = self._is_part(job, pods) and not self._holds_removed(job)
            names = [pod["metadata"]["name"] for pod in bound]
            more_s = LISTED_AFTER_S if self._is_back(pods) else 0.0
            text = f"only {names} are bound"
            self.checker.hold(Invariant.WHOLE_GANGS, f"{key} {job.job_id}", part, text, *subjects, more_s=more_s)

    def _is_back(self, pods: list[Json]) -> bool:
        """Return whether a restored etcd has a member unbound that had ended: only the next list may show it.

        Meanwhile kube-scheduler tries it in vain, and its back-off grows.
        """
        return any(not pod["spec"].get("nodeName") and pod["metadata"]["uid"] in self.checker.left for pod in pods)

    def _is_part(self, job: SimJob, pods: list[Json]) -> bool:
        """Return whether some of the members for which the job was granted are bound and others are not.

        Once one of them has ended, the others need not be whole any more. One that another controller gates again, as a
        restored etcd shows it, cannot be bound.
        """
        grant = self._grants.get(job.job_id)
        there = {pod["metadata"]["uid"]: pod for pod in pods}
        if grant is None or any(uid not in there or not _is_live(there[uid]) for uid in grant.members):
            return False
        bound = [bool(there[uid]["spec"].get("nodeName")) for uid in grant.members]
        return any(bound) and not all(bound) and not any(is_gated(there[uid]) for uid in grant.members)

    def _lacks_members(self, key: str) -> bool:
        """Return whether a restored etcd has members no more that the extender has not given up yet."""
        p = self.cluster.extender.engine.placeholders.get(key)
        return p is not None and any(not one.end and one.ref.uid not in self.checker.pods for one in p.members)

    def _is_busy(self, job: SimJob) -> bool:
        """Return whether a Pod that has to end first is on a node of the job, or one was removed from there by force.

        How long it may keep it is another invariant.
        """
        if self._holds_removed(job):
            return True
        for pod in self.cluster.kube.storage.of(PODS):
            if occupies_node(pod) and self.checker.slurm_node_of(pod) in job.nodes:
                return True
        return False

    def _holds_removed(self, job: SimJob) -> bool:
        """Return whether a node of the job is drained for a Pod that was removed without a report of its kubelet.

        A restored etcd shows members as unbound that run: one is not bound again before its processes have ended.
        """
        known = self.cluster.slurm.controller.nodes
        return any(name in known and known[name].drained and removals_in(known[name].reason) for name in job.nodes)


def _is_live(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in FINISHED_PHASES
