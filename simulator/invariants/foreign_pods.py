"""Check invariants of foreign Pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.domain.foreign_pods.mark import decode_foreign_pod_mark
from simulator.actors.foreign_pods import foreign_pods
from simulator.cluster import SimCluster
from simulator.event_log import job_subject, node_subject, pod_subject
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.invariant import Invariant
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.slurm.records import SimJob


@dataclass(slots=True)
class ForeignPodInvariants:
    """Check the jobs of foreign Pods: each exists or its node is drained, and none is cancelled while its Pod runs."""

    cluster: SimCluster
    checker: InvariantChecker
    _holds: set[int] = field(default_factory=set)
    """Jobs that have an allocation, and were not suspended or requeued since."""

    def begin(self) -> None:
        """Start to check."""
        self.cluster.slurm.controller.listeners.append(self._on_job_event)
        self.checker.also.append(self.check)

    def check(self) -> None:
        """Check that each foreign Pod has a job or that its node takes no jobs."""
        if self.cluster.slurm.controller.release.knows_external:
            for pod in foreign_pods(self.cluster):
                if pod["status"]["phase"] not in FINISHED_PHASES:
                    self._check_one(pod)

    def _check_one(self, pod: Json) -> None:
        meta, node = pod["metadata"], self.cluster.names.slurm(pod["spec"]["nodeName"])
        slurm = self.cluster.slurm.controller.nodes.get(node)
        gives = slurm is not None and not slurm.unavailable
        about = pod_subject(meta["name"]), node_subject(node)
        wrong = gives and not self._is_held(meta["uid"], node)
        self.checker.hold(Invariant.HELD, meta["uid"], wrong, "Slurm gives its node away", *about)

    def _on_job_event(self, what: str, job: SimJob) -> None:
        mark = decode_foreign_pod_mark(job.admin_comment)
        if mark is None:
            return
        by_client = self.cluster.slurm.controller.in_client_request
        about = job_subject(job.job_id), node_subject(mark.node), pod_subject(mark.pod.partition("/")[2])
        by = " by a client" if by_client else ""
        self.checker.event_log.add(f"what is held for a Pod of others: {what}{by}, {job.state} {job.reason}", *about)
        if what in {"started", "resumed"}:
            self._holds.add(job.job_id)
        elif what in {"suspended", "requeued"}:
            self._holds.discard(job.job_id)
        if what != "ended" or not by_client or job.job_id not in self._holds:
            return
        self.checker.checked[Invariant.TRUTH] += 1
        there = [pod for pod in foreign_pods(self.cluster) if pod["status"]["phase"] not in FINISHED_PHASES]
        if any(pod["metadata"]["uid"] == mark.uid for pod in there) and not self._is_held(mark.uid, mark.node):
            self.checker.violate(Invariant.TRUTH, "what is held for it was given up while it runs", *about)

    def _is_held(self, uid: str, node: str) -> bool:
        """Return whether a running job on the node holds resources for the Pod."""
        marks = [
            (decode_foreign_pod_mark(job.admin_comment), job) for job in self.cluster.slurm.controller.jobs.values()
        ]
        return any(mark is not None and mark.uid == uid and job.running and node in job.nodes for mark, job in marks)
