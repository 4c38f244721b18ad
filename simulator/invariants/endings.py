"""Check each cancellation, eviction and new allocation that the extender asks for, at the moment it happens."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from extender.domain.foreign_pods.mark import decode_foreign_pod_mark
from simulator.event_log import job_subject, pod_subject
from simulator.invariants.invariant import Invariant
from simulator.invariants.records import job_id_of, occupies_node, workload_of
from simulator.kube.objects import Json
from simulator.slurm.records import SimJob

if TYPE_CHECKING:
    from simulator.invariants.checker import InvariantChecker

WARNED_BEFORE_S = 30.0
"""How much earlier than its grace before the time limit of its job a Pod may be ended."""

MASS_DELETION_GUARD_WINDOW_S, MASS_DELETION_GUARD_LEAST, MASS_DELETION_GUARD_SHARE = 60.0, 5, 0.1
"""The mass-deletion guard: seconds, Pods at least, share of the live jobs."""


@dataclass(slots=True)
class EndingChecks:
    """Check that no running Pod or job is ended without a reason, for `checker`."""

    checker: InvariantChecker
    _ends_for_missing: deque[tuple[float, str]] = field(default_factory=deque)

    def check_cancellation(self, job: SimJob, uid: str) -> None:
        """Check a cancellation by a client: of a placeholder job alone, and not while its Pod runs."""
        if decode_foreign_pod_mark(job.admin_comment) is not None:
            return
        self.checker.checked[Invariant.NATIVE_JOBS] += 1
        if not uid:
            self.checker.violate(Invariant.NATIVE_JOBS, f"{job.name} was cancelled", job_subject(job.job_id))
            return
        self.checker.checked[Invariant.TRUTH] += 1
        for pod in self.checker.pods_of(uid):
            if not occupies_node(pod) or "deletionTimestamp" in pod["metadata"]:
                continue
            if (
                job_id_of(pod) == job.job_id
                and self.checker.slurm_node_of(pod) in job.nodes
                and job.job_id not in self.checker.disturbed_jobs
            ):
                about = pod_subject(pod["metadata"]["name"]), job_subject(job.job_id)
                self.checker.violate(Invariant.TRUTH, "its job was cancelled while it runs", *about)

    def check_deletion(self, pod: Json) -> None:
        """Check the deletion of a Pod by a client: not while its job runs, and not too many for missing jobs."""
        if not self.checker.cluster.kube.in_client_request:
            return
        if pod["metadata"]["uid"] in self.checker.stopped_pods:
            return  # a restored etcd shows it again
        self.checker.checked[Invariant.TRUTH] += 1
        name, uid, number = pod["metadata"]["name"], pod["metadata"]["uid"], job_id_of(pod)
        job = self.checker.cluster.slurm.controller.jobs.get(number)
        self.checker.event_log.add("ended by the extender", pod_subject(name))
        workload = self.checker.workload_of_pod(uid)
        held = job is not None and workload_of(job) == workload and job.running
        if job is not None and held and self.checker.slurm_node_of(pod) in job.nodes and not self._is_part(workload):
            untouched = number not in self.checker.disturbed_jobs and not job.preempt_time and not job.restart_count
            # A Pod is to be gone when the time limit comes, so it is ended earlier, by its grace.
            warned_s = float(pod["spec"]["terminationGracePeriodSeconds"]) + WARNED_BEFORE_S
            if untouched and job.end_time - self.checker.cluster.slurm.controller.timers.wall() > warned_s:
                self.checker.violate(
                    Invariant.TRUTH, "it was ended though its job runs", pod_subject(name), job_subject(number)
                )
        if self.checker.forgotten.get(workload) == self.checker.operators.released:
            self._check_mass_deletion_guard(name, workload)

    def _is_part(self, workload: str) -> bool:
        """Return whether only a part of a gang is bound: if the others cannot be bound, all of it is ended."""
        pods = self.checker.pods_of(workload)
        return any(not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"] for pod in pods)

    def _check_mass_deletion_guard(self, name: str, workload: str) -> None:
        """Check how many workloads have lost Pods for missing jobs: the guard counts jobs, and a gang has one."""
        self.checker.checked[Invariant.MASS_DELETION_GUARD] += 1
        now = asyncio.get_running_loop().time()
        self._ends_for_missing.append((now, workload))
        while self._ends_for_missing[0][0] < now - MASS_DELETION_GUARD_WINDOW_S:
            self._ends_for_missing.popleft()
        ends = len({ended for _, ended in self._ends_for_missing})
        alive = len(self.checker.cluster.live_jobs()) + ends
        if ends > max(MASS_DELETION_GUARD_LEAST, MASS_DELETION_GUARD_SHARE * alive) + 1:
            text = f"Pods of {ends} jobs ended within a minute for missing jobs"
            self.checker.violate(Invariant.MASS_DELETION_GUARD, text, pod_subject(name))

    def check_second_grant(self, pod: Json, old: int) -> None:
        """Check that a Pod gets another job only after the old one ended."""
        self.checker.checked[Invariant.ONE_GRANT] += 1
        job = self.checker.cluster.slurm.controller.jobs.get(old)
        workload = self.checker.workload_of_pod(pod["metadata"]["uid"])
        if job is not None and workload_of(job) == workload and job.running and job_id_of(pod):
            name = pod["metadata"]["name"]
            text = f"job {job_id_of(pod)} was granted to it while job {old} runs"
            self.checker.violate(Invariant.ONE_GRANT, text, pod_subject(name), job_subject(old))
