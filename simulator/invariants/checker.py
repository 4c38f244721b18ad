"""Check the invariants at every event and every few seconds.

The checker reads the state of Slurm and of the API server, and which changes a client requested. The
extender is the only client, so it caused each such change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.jobs.identity import decode_mark
from extender.domain.jobs.job import Mark
from extender.domain.nodes.removals import HEARS_S, SETTLE_S, removals_in
from extender.domain.placeholder import State
from extender.domain.wellknown import DRAIN_PREFIX
from simulator.actors.foreign_pods import without_room
from simulator.actors.operators import Operators
from simulator.cluster import SCHEDULER, SimCluster
from simulator.event_log import EventLog, job_subject, node_subject, pod_subject
from simulator.invariants.endings import EndingChecks
from simulator.invariants.invariant import BOUNDS_S, Invariant, Violation
from simulator.invariants.node_sharing import NodeSharingChecks
from simulator.invariants.records import JobEnd, job_id_of, occupies_node, workload_of
from simulator.kube.kubelet import LEASE_S
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.kube.resources import PODS
from simulator.kube.storage import WatchEvent
from simulator.quiescence import QuiescenceTracker
from simulator.slurm.records import SimJob, SimNode

CHECK_EVERY_S = 5.0

READ_BEFORE_S = 0.1
"""How long before slurmctld takes a drain of the extender the node was read: two ways over a slow link."""


@dataclass
class InvariantChecker:
    """Check one cluster. `violations` are the results; `windows` counts unavoidable overlaps by cause."""

    cluster: SimCluster
    event_log: EventLog
    quiescence: QuiescenceTracker
    operators: Operators
    violations: list[Violation] = field(default_factory=list)
    checked: Counter[Invariant] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    preempted: int = 0
    _since: dict[tuple[Invariant, str], float] = field(default_factory=dict)
    _drain_keys: dict[str, str] = field(default_factory=dict)
    """The key in `_since` of the last drain of each node."""

    pods: dict[str, Json] = field(default_factory=dict)
    """The last state of every Pod that is there, by UID."""

    stopped_pods: set[str] = field(default_factory=set)
    """Pods whose kubelet has said that they are over: a restored etcd may show them running, but none of their
    containers runs again (kubelet's `pod_workers.go` remembers what has terminated)."""

    _created: dict[str, float] = field(default_factory=dict)
    disturbed_jobs: set[int] = field(default_factory=set)
    """Jobs that were suspended, requeued, warned or forgotten: their Pods may be ended."""

    _warned: set[int] = field(default_factory=set)
    """Jobs whose GraceTime has begun; preemption without one sends no warning."""

    job_ends: dict[tuple[int, str], JobEnd] = field(default_factory=dict)
    """By id and workload: ids are given out again."""

    arrivals: dict[str, float] = field(default_factory=dict)
    """When each Pod came to its node, placed by any scheduler."""

    returned: set[str] = field(default_factory=set)
    """Pods that had left their node, by a deletion or their end, and that a restored etcd brought back."""

    left: set[str] = field(default_factory=set)
    """Pods that have left their node."""

    job_starts: dict[tuple[int, str], float] = field(default_factory=dict)
    """When a job was given its part of a node last."""

    forgotten: dict[str, int] = field(default_factory=dict)
    """Pods whose job slurmctld forgot, and how often an operator had confirmed by then."""

    _endings: EndingChecks = field(init=False)
    _sharing: NodeSharingChecks = field(init=False)
    workload_of_pod: Callable[[str], str] = lambda uid: uid
    """Gives the key of the workload of the Pod with this UID: of a gang, or the UID."""

    can_start: Callable[[Json], bool] = lambda _pod: True
    """Return whether nothing outside Slurm keeps a waiting Pod from a node: its gang is complete, and fits."""

    kept_s: Callable[[str], float] = lambda _workload: 0.0
    """Gives for how long the job of a workload without Pods may wait for the next incarnation of its gang."""

    also: list[Callable[[], None]] = field(default_factory=list)
    """Further checks that run every few seconds."""

    def __post_init__(self) -> None:
        self._endings, self._sharing = EndingChecks(self), NodeSharingChecks(self)

    def begin(self) -> None:
        """Start to check."""
        self.cluster.kube.storage.listen(self._on_pod_event)
        self.cluster.slurm.controller.listeners.append(self._on_job_event)

    async def run(self) -> None:
        """Check every few seconds until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            self.check()

    def violate(self, invariant: Invariant, text: str, *subjects: str) -> None:
        """Record a violation, once for the same objects."""
        if any(one.invariant is invariant and one.subjects == subjects for one in self.violations):
            return
        now = asyncio.get_running_loop().time()
        self.event_log.add(f"VIOLATED: {invariant}: {text}", *subjects)
        events = self.event_log.about(subjects) + self._remembered(subjects)
        self.violations.append(Violation(invariant, now, subjects, text, tuple(events)))

    # At the moment.

    def _on_job_event(self, what: str, job: SimJob) -> None:
        uid = workload_of(job)
        by = " by a client" if self.cluster.slurm.controller.in_client_request else ""
        now = asyncio.get_running_loop().time()
        if uid:
            about = [job_subject(job.job_id), *map(node_subject, job.nodes)]
            about += [pod_subject(pod["metadata"]["name"]) for pod in self.pods_of(uid)]
            self.event_log.add(f"{what}{by}, {job.state} {job.reason} {job.name}", *about)
        if what == "started":
            self.job_starts[job.job_id, uid] = now
            self._sharing.check_mode(job, uid)
            if uid not in self.pods:
                self.forgotten.pop(uid, None)  # the next job of a gang
        if what == "ended":
            self.states[job.state] += 1
            self.preempted += job.state == "PREEMPTED"
            announced = job.job_id in self._warned or (job.script is not None and job.state != "NODE_FAIL")
            self.job_ends[job.job_id, uid] = JobEnd(now, job.state, announced)
        if what in {"suspended", "requeued", "warned", "forgotten"}:
            self.disturbed_jobs.add(job.job_id)
        if what == "warned":
            self._warned.add(job.job_id)
        if what == "requeued":
            self.job_ends[job.job_id, uid] = JobEnd(now, "REQUEUED", job.script is not None)
        if what == "suspended":
            self.job_ends[job.job_id, uid] = JobEnd(now, "SUSPENDED", False)
        if what == "forgotten":
            self.job_ends[job.job_id, uid] = JobEnd(now, "FORGOTTEN", False)
            self.forgotten[uid] = self.operators.released
        if what == "ended" and by:
            self._endings.check_cancellation(job, uid)
        if what == "launched":
            for node in job.nodes:
                self._sharing.check_start(node, f"job {job.job_id}", (job.job_id, uid), by_slurm=True)

    def _on_pod_event(self, event: WatchEvent) -> None:
        if event.resource != PODS:
            return
        self._note_arrival(event)
        if event.object["spec"]["schedulerName"] != SCHEDULER:
            return
        pod, meta = event.object, event.object["metadata"]
        uid, name = meta["uid"], meta["name"]
        before = self.pods.get(uid)
        now = asyncio.get_running_loop().time()
        self._created.setdefault(uid, now)
        ending = "deletionTimestamp" in meta or event.type == "DELETED"
        if ending and before is not None and "deletionTimestamp" not in before["metadata"]:
            self.fates[pod["status"]["phase"] if pod["status"]["phase"] in FINISHED_PHASES else "deleted"] += 1
            self._endings.check_deletion(before)
        if before is not None and not before["spec"].get("nodeName") and pod["spec"].get("nodeName"):
            self.waits.append(now - self._created[uid])
            self.event_log.add(f"bound, job {job_id_of(pod)}", pod_subject(name), node_subject(self.slurm_node_of(pod)))
            self._sharing.check_start(
                self.slurm_node_of(pod), f"Pod {name}", (job_id_of(pod), self.workload_of_pod(uid))
            )
            self._sharing.check_room(pod)
        elif before is None or before["status"]["phase"] != pod["status"]["phase"]:
            self.event_log.add(pod["status"]["phase"], pod_subject(name))
        # No client wrote what a restored etcd brings back on a Pod.
        if (
            self.cluster.kube.in_client_request
            and before is not None
            and (old := job_id_of(before))
            and old != job_id_of(pod)
        ):
            self._endings.check_second_grant(pod, old)
        if pod["status"]["phase"] in FINISHED_PHASES:
            self.stopped_pods.add(uid)
        if event.type == "DELETED":
            self.event_log.add("gone", pod_subject(name))
            self.pods.pop(uid, None)
        else:
            self.pods[uid] = pod

    def _note_arrival(self, event: WatchEvent) -> None:
        """Record when a Pod came to its node. One that a restored etcd brings back comes again."""
        pod, uid = event.object, event.object["metadata"]["uid"]
        if not pod["spec"].get("nodeName"):
            return
        finished = pod["status"]["phase"] in FINISHED_PHASES or event.type == "DELETED"
        if not finished and uid in self.left:
            self.returned.add(uid)
        if uid not in self.arrivals or (not finished and uid in self.left):
            self.arrivals[uid] = asyncio.get_running_loop().time()
        (self.left.add if finished else self.left.discard)(uid)

    # Every few seconds.

    def check(self) -> None:
        """Check everything that must hold after its time limit."""
        live: dict[str, list[SimJob]] = {}
        for job in self.cluster.live_jobs():
            if uid := workload_of(job):
                live.setdefault(uid, []).append(job)
        for uid, pod in self.pods.items():
            jobs, name = live.get(self.workload_of_pod(uid), []), pod_subject(pod["metadata"]["name"])
            numbers = ", ".join(str(job.job_id) for job in jobs)
            subjects = (name, *(job_subject(job.job_id) for job in jobs))
            self.hold(Invariant.ONE_JOB, uid, len(jobs) > 1, f"live jobs {numbers}", *subjects)
            stray = occupies_node(pod) and "deletionTimestamp" not in pod["metadata"] and not self.holds_node(pod)
            excused = self.workload_of_pod(uid) in self.forgotten and self.cluster.extender.mass_deletion_guard.engaged
            self.hold(Invariant.NO_STRAY, uid, stray and not excused, f"job {job_id_of(pod)} is over", *subjects)
            why, more_s = self._why_stuck(pod, jobs), self._kept_slots_s(uid)
            self.hold(Invariant.PROGRESS, uid, self._stuck(pod, jobs), why, *subjects, more_s=more_s)
        for uid, jobs in live.items():
            lonely = all(pod["status"]["phase"] in FINISHED_PHASES for pod in self.pods_of(uid))
            subjects = tuple(job_subject(job.job_id) for job in jobs)
            self.hold(Invariant.NO_ORPHAN, uid, lonely, f"workload {uid} has no Pod", *subjects)
            proven = lonely and self._deletion_is_proven(jobs)
            more_s = self.kept_s(uid)
            self.hold(Invariant.SETTLES, uid, proven, f"workload {uid} has no Pod", *subjects, more_s=more_s)
        for node in self.cluster.slurm.controller.nodes.values():
            by_extender = node.drained and node.reason.startswith(DRAIN_PREFIX)
            # A Node that takes no Pods is drained for that.
            idle = (
                by_extender
                and self._takes_pods(node.name)
                # One that is to be recreated waits for the jobs of others.
                and not (node.made and self.cluster.slurm.controller.cluster.holders(node.name))
                and not any(self.slurm_node_of(pod) == node.name for pod in self.pods.values())
                and not without_room(self.cluster, node.name)
            )
            key, more_s = f"{node.name} {node.reason}", self._drain_s(node) if idle else 0.0
            self._forget_other_drain(node.name, key)
            self.hold(Invariant.NO_DRAIN_LEFT, key, idle, f"{node.reason!r}", node_subject(node.name), more_s=more_s)
            if node.name in self.operators.drains and self._drained_at_once(node.name):
                self.windows["a drain of the extender over one that came after its read of the node"] += 1
                del self.operators.drains[node.name]
            wanted = self.operators.drains.get(node.name)
            lifted = wanted is not None and not (node.drained and node.reason == wanted)
            self.hold(Invariant.FOREIGN_DRAINS, node.name, lifted, f"{wanted!r}", node_subject(node.name))
        for check in self.also:
            check()

    def _deletion_is_proven(self, jobs: list[SimJob]) -> bool:
        """Return whether checkpoints prove that the Pods of these jobs were deleted."""
        checkpoints = [mark.checkpoint if mark is not None else None for mark in map(_mark, jobs)]
        return not self.cluster.kube.storage.restores and all(
            checkpoint is not None and not checkpoint.members_may_join for checkpoint in checkpoints
        )

    def _forget_other_drain(self, node: str, key: str) -> None:
        """Begin again with a reason that a node had before, and has again after a time without it."""
        before, self._drain_keys[node] = self._drain_keys.get(node, key), key
        if before != key:
            self._since.pop((Invariant.NO_DRAIN_LEFT, before), None)

    def _drain_s(self, node: SimNode) -> float:
        """Return for how long a node may stay drained with its reason after its last Pod disappeared.

        A Pod that was removed without a report of its kubelet: kubelet renews the Lease of its Node, and only then is
        known to live; that is seen when it is read next. A Pod that a restored etcd does not have may still run there,
        so that its node is kept for `orphans.massGracePeriod`. A reason is cut to the length that Slurm takes, and
        names the causes that came first.
        """
        graces = [one.grace_s for one in removals_in(node.reason)]
        reported_s = HEARS_S + SETTLE_S + 4 * LEASE_S + max(graces) if graces else 0.0
        if not self.cluster.kube.storage.restores:
            return reported_s
        extender = self.cluster.extender
        causes = (node.reason, *extender.node_controllers.controller.kept_for(node.name))
        outlived = any("outlives its job" in cause for cause in causes)
        return reported_s + (extender.config.orphans.mass_grace_period if outlived else 0.0)

    def _drained_at_once(self, node: str) -> bool:
        """Return whether a drain came between a read of the node and the extender's drain, which overwrites it."""
        since = self.operators.drained_at.get(node, 0.0)
        return 0.0 <= self.cluster.slurm.controller.foreign_redrained_at.get(node, -1.0) - since <= READ_BEFORE_S

    def hold(self, invariant: Invariant, key: str, wrong: bool, text: str, *subjects: str, more_s: float = 0.0) -> None:
        """Record a violation if the invariant was wrong for more than its bound of undisturbed seconds."""
        self.checked[invariant] += 1
        if not wrong:
            self._since.pop((invariant, key), None)
            return
        since = self._since.setdefault((invariant, key), asyncio.get_running_loop().time())
        if self.quiescence.lasted(since) > BOUNDS_S[invariant] + more_s:
            self.violate(invariant, text, *subjects)

    def _stuck(self, pod: Json, jobs: list[SimJob]) -> bool:
        """Return whether a Pod waits, but not for Slurm: it has no job, or its allocation is unused."""
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"] or any(job.pending for job in jobs):
            return False
        usable = any(self._takes_pods(node) for job in jobs for node in job.nodes)
        if jobs and not usable:
            return False
        if not self.can_start(pod):
            return False
        placeholder = self.cluster.extender.engine.placeholders.by_pod(pod["metadata"]["uid"])
        return placeholder is None or placeholder.state is not State.REFUSED

    def waits_in_slurm(self, pod: Json) -> bool:
        """Return whether a Pod waits for an allocation and was not rejected."""
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"] or not self.can_start(pod):
            return False
        placeholder = self.cluster.extender.engine.placeholders.by_pod(pod["metadata"]["uid"])
        return placeholder is None or placeholder.state is not State.REFUSED

    def _kept_slots_s(self, uid: str) -> float:
        """Return for how long a Pod may wait for the slots of members that a restored etcd does not have.

        These slots are kept for `orphans.massGracePeriod`, from the last start of an extender.
        """
        kept = self.cluster.kube.storage.restores and self.workload_of_pod(uid) != uid
        return self.cluster.extender.config.orphans.mass_grace_period if kept else 0.0

    def _why_stuck(self, pod: Json, jobs: list[SimJob]) -> str:
        placeholder = self.cluster.extender.engine.placeholders.by_pod(pod["metadata"]["uid"])
        return f"jobs {[(job.job_id, job.state) for job in jobs]}, placeholder {placeholder and placeholder.state}"

    def _takes_pods(self, name: str) -> bool:
        node = self.cluster.kube.node(self.cluster.names.kube(name))
        ready = node is not None and any(
            each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"]
        )
        return ready and node is not None and not node["spec"].get("unschedulable")

    def holds_node(self, pod: Json) -> bool:
        """Return whether the Pod's job runs on its node."""
        job = self.cluster.slurm.controller.jobs.get(job_id_of(pod))
        if job is None or workload_of(job) != self.workload_of_pod(pod["metadata"]["uid"]):
            return False
        return job.running and self.slurm_node_of(pod) in job.nodes

    def pods_of(self, workload: str) -> list[Json]:
        """Return the Pods of a workload that are there."""
        return [pod for uid, pod in self.pods.items() if self.workload_of_pod(uid) == workload]

    def slurm_node_of(self, pod: Json) -> str:
        """Return the Slurm node of a bound Pod, "" for an unbound one."""
        node = pod["spec"].get("nodeName", "")
        return self.cluster.names.slurm(node) if node else ""

    def _remembered(self, subjects: tuple[str, ...]) -> list[str]:
        """Return the extender's history of the workloads concerned."""
        lines: list[str] = []
        if not hasattr(self.cluster, "extender"):
            return lines
        engine = self.cluster.extender.engine
        for pod in self.pods.values():
            if pod_subject(pod["metadata"]["name"]) not in subjects:
                continue
            placeholder = engine.placeholders.by_pod(pod["metadata"]["uid"])
            if placeholder is not None:
                lines.append(f"  the extender's own history of {pod['metadata']['name']}, {placeholder.state}:")
                lines += [f"    {line}" for line in engine.histories.of(placeholder.key).lines()]
        return lines


def _mark(job: SimJob) -> Mark | None:
    return decode_mark(job.admin_comment)
