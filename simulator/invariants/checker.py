"""Who holds the promises against everything that happens, at the moment it happens and every few seconds.

The judge knows the truth: it reads Slurm's and the API server's own state, and which changes a client asked for. The
extender is the only client, so such a change is its doing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from extender.domain.guests.mark import decode_guest_mark
from extender.domain.jobs.identity import decode_mark
from extender.domain.nodes.removals import HEARS_S, SETTLE_S, removals_in
from extender.domain.placeholder import State
from extender.domain.wellknown import DRAIN_PREFIX, JOB_ID
from simulator.actors.foreign_pods import without_room
from simulator.actors.operators import Operators
from simulator.cluster import SCHEDULER, SimCluster
from simulator.event_log import EventLog, job_subject, node_subject, pod_subject
from simulator.invariants.invariant import BOUNDS_S, Invariant, Violation
from simulator.kube.kubelet import LEASE_S
from simulator.kube.kubelet_admission import exceeded_resources
from simulator.kube.objects import Json
from simulator.kube.pods import OVER
from simulator.kube.resources import PODS
from simulator.kube.storage import WatchEvent
from simulator.quiescence import QuiescenceTracker
from simulator.slurm.records import SimJob

LOOK_EVERY_S = 5.0


WINDOW_S = 10.0
"""A node given away within this time of an end that nobody announced is beyond any fence: two polls and a patch."""

GIVEN_AGAIN_S = 60.0
"""Where the id of a forgotten job was given out again at once the states show no change: the job is missed when it is
read in its turn (`refreshRate`)."""

BESIDE = "with a part of the node that it was given before"
DISTURBED = "in a disturbance"
"""The only excuse of a job's start where the fence script is installed."""

WARNED_BEFORE_S = 30.0
"""How much earlier than its grace before the time limit of its job a Pod may be told to end."""

KNOWN_AFTER_S = 1.0
"""QuiescenceTracker seconds after which the extender knows what else came to a node."""

LOOKED_BEFORE_S = 0.1
"""How long before a drain of ours is taken by slurmctld the node was looked at: two ways over a slow link."""

BRAKE_WINDOW_S, BRAKE_LEAST, BRAKE_SHARE = 60.0, 5, 0.1


@dataclass(slots=True)
class _JobEnd:
    """How a job of ours ended."""

    at: float
    state: str
    announced: bool
    """A script holds its nodes, or there was a warning."""


@dataclass
class InvariantChecker:
    """Watches one cluster. `broken` is what it found; `windows` counts overlaps that no fence can prevent, by cause."""

    cluster: SimCluster
    event_log: EventLog
    quiescence: QuiescenceTracker
    operators: Operators
    broken: list[Violation] = field(default_factory=list)
    checked: Counter[Invariant] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    preempted: int = 0
    _since: dict[tuple[Invariant, str], float] = field(default_factory=dict)
    _pods: dict[str, Json] = field(default_factory=dict)
    """The last state of every Pod that is there, by UID."""

    _stopped: set[str] = field(default_factory=set)
    """Pods whose kubelet has said that they are over: a restored etcd may show them running, but none of their
    containers runs again (kubelet's `pod_workers.go` remembers what has terminated)."""

    _created: dict[str, float] = field(default_factory=dict)
    _touched: set[int] = field(default_factory=set)
    """Jobs that were suspended, requeued, warned or forgotten: their Pods may be ended."""

    _warned: set[int] = field(default_factory=set)
    """Jobs whose GraceTime has begun; preemption without one warns nobody."""

    _ended: dict[tuple[int, str], _JobEnd] = field(default_factory=dict)
    """By id and unit: ids are given out again."""

    _came: dict[str, float] = field(default_factory=dict)
    """When each Pod came to its node, whoever placed it."""

    _began: dict[tuple[int, str], float] = field(default_factory=dict)
    """When a job was given its part of a node last."""

    _forgotten: dict[str, int] = field(default_factory=dict)
    """Pods whose job slurmctld forgot, and how often the brake had been released by then."""

    _ends_for_missing: deque[float] = field(default_factory=deque)
    also: list[Callable[[], None]] = field(default_factory=list)
    """What else is looked at every few seconds."""

    def begin(self) -> None:
        """Watch from now on."""
        self.cluster.kube.storage.listen(self._hear_of_pods)
        self.cluster.slurm.controller.listeners.append(self._hear_of_jobs)

    async def run(self) -> None:
        """Look every few seconds until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def violate(self, promise: Invariant, text: str, *subjects: str) -> None:
        """Write down that a promise was broken, once for those concerned."""
        if any(one.promise is promise and one.subjects == subjects for one in self.broken):
            return
        now = asyncio.get_running_loop().time()
        self.event_log.add(f"BROKEN: {promise}: {text}", *subjects)
        story = self.event_log.story(subjects) + self._remembered(subjects)
        self.broken.append(Violation(promise, now, subjects, text, tuple(story)))

    # At the moment.

    def _hear_of_jobs(self, what: str, job: SimJob) -> None:
        uid = _unit(job)
        by = " by a client" if self.cluster.slurm.controller.in_client_request else ""
        now = asyncio.get_running_loop().time()
        if uid:
            pod = self._pods.get(uid)
            about = [job_subject(job.job_id), *map(node_subject, job.nodes)]
            about += [pod_subject(pod["metadata"]["name"])] if pod else []
            self.event_log.add(f"{what}{by}, {job.state} {job.reason} {job.name}", *about)
        if what == "started":
            self._began[job.job_id, uid] = now
        if what == "ended":
            self.states[job.state] += 1
            self.preempted += job.state == "PREEMPTED"
            announced = job.job_id in self._warned or (job.script is not None and job.state != "NODE_FAIL")
            self._ended[job.job_id, uid] = _JobEnd(now, job.state, announced)
        if what in {"suspended", "requeued", "warned", "forgotten"}:
            self._touched.add(job.job_id)
        if what == "warned":
            self._warned.add(job.job_id)
        if what == "requeued":
            self._ended[job.job_id, uid] = _JobEnd(now, "REQUEUED", job.script is not None)
        if what == "suspended":
            self._ended[job.job_id, uid] = _JobEnd(now, "SUSPENDED", False)
        if what == "forgotten":
            self._ended[job.job_id, uid] = _JobEnd(now, "FORGOTTEN", False)
            self._forgotten[uid] = self.operators.released
        if what == "ended" and by:
            self._judge_cancel(job, uid)
        if what == "launched":
            for node in job.nodes:
                self._judge_start(node, f"job {job.job_id}", (job.job_id, uid), by_slurm=True)

    def _judge_cancel(self, job: SimJob, uid: str) -> None:
        if decode_guest_mark(job.admin_comment) is not None:
            return
        self.checked[Invariant.FOREIGN_JOBS] += 1
        if not uid:
            self.violate(Invariant.FOREIGN_JOBS, f"{job.name} was cancelled", job_subject(job.job_id))
            return
        self.checked[Invariant.TRUTH] += 1
        pod = self._pods.get(uid)
        if pod is None or not _on_a_node(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        if _job_id(pod) == job.job_id and self._node(pod) in job.nodes and job.job_id not in self._touched:
            name = pod["metadata"]["name"]
            self.violate(
                Invariant.TRUTH, "its job was cancelled while it runs", pod_subject(name), job_subject(job.job_id)
            )

    def _hear_of_pods(self, happening: WatchEvent) -> None:
        if happening.resource != PODS:
            return
        if happening.object["spec"].get("nodeName"):
            self._came.setdefault(happening.object["metadata"]["uid"], asyncio.get_running_loop().time())
        if happening.object["spec"]["schedulerName"] != SCHEDULER:
            return
        pod, meta = happening.object, happening.object["metadata"]
        uid, name = meta["uid"], meta["name"]
        before = self._pods.get(uid)
        now = asyncio.get_running_loop().time()
        self._created.setdefault(uid, now)
        ending = "deletionTimestamp" in meta or happening.type == "DELETED"
        if ending and before is not None and "deletionTimestamp" not in before["metadata"]:
            self.fates[pod["status"]["phase"] if pod["status"]["phase"] in OVER else "deleted"] += 1
            self._judge_deletion(before)
        if before is not None and not before["spec"].get("nodeName") and pod["spec"].get("nodeName"):
            self.waits.append(now - self._created[uid])
            self.event_log.add(f"bound, job {_job_id(pod)}", pod_subject(name), node_subject(self._node(pod)))
            self._judge_start(self._node(pod), f"Pod {name}", (_job_id(pod), uid))
            self._judge_room(pod)
        elif before is None or before["status"]["phase"] != pod["status"]["phase"]:
            self.event_log.add(pod["status"]["phase"], pod_subject(name))
        # What a restored etcd brings back on a Pod is nobody's doing.
        if (
            self.cluster.kube.in_client_request
            and before is not None
            and (old := _job_id(before))
            and old != _job_id(pod)
        ):
            self._judge_other_job(pod, old)
        if pod["status"]["phase"] in OVER:
            self._stopped.add(uid)
        if happening.type == "DELETED":
            self.event_log.add("gone", pod_subject(name))
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod

    def _judge_deletion(self, pod: Json) -> None:
        if not self.cluster.kube.in_client_request:
            return
        self.checked[Invariant.TRUTH] += 1
        name, uid, number = pod["metadata"]["name"], pod["metadata"]["uid"], _job_id(pod)
        job = self.cluster.slurm.controller.jobs.get(number)
        self.event_log.add("ended by the extender", pod_subject(name))
        if job is not None and _unit(job) == uid and job.running and self._node(pod) in job.nodes:
            untouched = number not in self._touched and not job.preempt_time and not job.restart_count
            # A Pod is to be gone when the time limit comes, so it is told to end by its grace before.
            warned_s = float(pod["spec"]["terminationGracePeriodSeconds"]) + WARNED_BEFORE_S
            if untouched and job.end_time - self.cluster.slurm.controller.timers.wall() > warned_s:
                self.violate(
                    Invariant.TRUTH, "it was ended though its job runs", pod_subject(name), job_subject(number)
                )
        if self._forgotten.get(uid) == self.operators.released:
            self._judge_brake(name)

    def _judge_brake(self, name: str) -> None:
        self.checked[Invariant.BRAKE] += 1
        now = asyncio.get_running_loop().time()
        self._ends_for_missing.append(now)
        while self._ends_for_missing[0] < now - BRAKE_WINDOW_S:
            self._ends_for_missing.popleft()
        alive = len(self.cluster.live_jobs()) + len(self._ends_for_missing)
        if len(self._ends_for_missing) > max(BRAKE_LEAST, BRAKE_SHARE * alive) + 1:
            ends = len(self._ends_for_missing)
            self.violate(Invariant.BRAKE, f"{ends} Pods ended within a minute for missing jobs", pod_subject(name))

    def _judge_room(self, pod: Json) -> None:
        """It was bound: kubelet's sums hold, of what was known of the node."""
        self.checked[Invariant.ROOM] += 1
        name = pod["spec"]["nodeName"]
        node, uid = self.cluster.kube.node(name), pod["metadata"]["uid"]
        there = [
            other
            for other in self.cluster.kube.storage.of(PODS)
            if other["spec"].get("nodeName") == name and _on_a_node(other)
        ]
        if node is None or not (over := exceeded_resources(node, there)):
            return
        known = [
            other
            for other in there
            if (each := other["metadata"]["uid"]) == uid
            or self.quiescence.lasted(self._came.get(each, 0.0)) > KNOWN_AFTER_S
        ]
        subjects = pod_subject(pod["metadata"]["name"]), node_subject(self._node(pod))
        if exceeded_resources(node, known):
            self.violate(Invariant.ROOM, "; ".join(over), *subjects)
        else:
            self.windows["on a node to which others just came"] += 1
            self.event_log.add(f"more than the node has, others just came: {'; '.join(over)}", *subjects)

    def _judge_other_job(self, pod: Json, old: int) -> None:
        self.checked[Invariant.ONE_GRANT] += 1
        job = self.cluster.slurm.controller.jobs.get(old)
        if job is not None and _unit(job) == pod["metadata"]["uid"] and job.running and _job_id(pod):
            name = pod["metadata"]["name"]
            text = f"job {_job_id(pod)} was granted to it while job {old} runs"
            self.violate(Invariant.ONE_GRANT, text, pod_subject(name), job_subject(old))

    def _judge_start(self, node: str, what: str, job: tuple[int, str], *, by_slurm: bool = False) -> None:
        """Something starts on a node, for a job and unit: is a Pod there whose job is over?

        `by_slurm`: a job. Where the fence script is installed PrologSlurmctld kept it waiting, so that all was in time.
        """
        self.checked[Invariant.FENCE] += 1
        now = asyncio.get_running_loop().time()
        for other, pod in self._pods.items():
            elsewhere = other == job[1] or self._node(pod) != node
            if elsewhere or other in self._stopped or not _on_a_node(pod) or self._lives(pod):
                continue
            ended, name = self._ended.get((_job_id(pod), other)), pod["metadata"]["name"]
            since = ended.at if ended else now
            if self._began.get(job, now) < since:  # not the next one: both had their parts of the node at one time
                self.windows[BESIDE] += 1
                continue
            cause = self._beyond_fences(_job_id(pod), ended, since, now, by_slurm=by_slurm)
            if cause == DISTURBED or (cause and not (self.cluster.fence.key and by_slurm)):
                self.windows[cause] += 1
                self.event_log.add(f"{what} starts beside Pod {name}, {cause}", pod_subject(name), node_subject(node))
            else:
                over = f"was {ended.state if ended else 'gone'} {now - since:.1f} s ago"
                text = f"{what} starts while Pod {name} is there, whose job {_job_id(pod)} {over}"
                self.violate(Invariant.FENCE, text, pod_subject(name), node_subject(node), job_subject(_job_id(pod)))

    def _beyond_fences(self, job_id: int, ended: _JobEnd | None, since: float, now: float, *, by_slurm: bool) -> str:
        """Why nobody could have held the node; "": it should have been held."""
        if ended is None:
            return "bound without a job"
        if self.quiescence.lasted(since) < now - since or not self.quiescence.lasted(since):
            return DISTURBED
        if ended.state == "SUSPENDED":
            return "after a suspension"
        if ended.state == "FORGOTTEN" and job_id in self.cluster.slurm.controller.jobs and now - since <= GIVEN_AGAIN_S:
            return "its job's id was given out again"
        # We bind Pods ourselves: not before Slurm has said how the jobs of those on the node are.
        if by_slurm and now - since <= WINDOW_S and not ended.announced:
            return "before any poll could see the end"
        return ""

    # Every few seconds.

    def look(self) -> None:
        """Whatever has to be so in the long run."""
        live: dict[str, list[SimJob]] = {}
        for job in self.cluster.live_jobs():
            if uid := _unit(job):
                live.setdefault(uid, []).append(job)
        for uid, pod in self._pods.items():
            jobs, name = live.get(uid, []), pod_subject(pod["metadata"]["name"])
            numbers = ", ".join(str(job.job_id) for job in jobs)
            subjects = (name, *(job_subject(job.job_id) for job in jobs))
            self.hold(Invariant.ONE_JOB, uid, len(jobs) > 1, f"live jobs {numbers}", *subjects)
            stray = _on_a_node(pod) and "deletionTimestamp" not in pod["metadata"] and not self._lives(pod)
            excused = uid in self._forgotten and self.cluster.extender.engine.missing_jobs.brake.held
            self.hold(Invariant.NO_STRAY, uid, stray and not excused, f"job {_job_id(pod)} is over", *subjects)
            self.hold(Invariant.PROGRESS, uid, self._stuck(pod, jobs), self._why_stuck(pod, jobs), *subjects)
        for uid, jobs in live.items():
            lonely = uid not in self._pods or self._pods[uid]["status"]["phase"] in OVER
            subjects = tuple(job_subject(job.job_id) for job in jobs)
            self.hold(Invariant.NO_ORPHAN, uid, lonely, f"unit {uid} has no Pod", *subjects)
        for node in self.cluster.slurm.controller.nodes.values():
            ours = node.drained and node.reason.startswith(DRAIN_PREFIX)
            # A Node that takes no Pods is drained for that.
            idle = (
                ours
                and self._takes_pods(node.name)
                # One that is to be made anew waits for the jobs of others.
                and not (node.made and self.cluster.slurm.controller.cluster.holders(node.name))
                and not any(self._node(pod) == node.name for pod in self._pods.values())
                and not without_room(self.cluster, node.name)
            )
            key, proof_s = f"{node.name} {node.reason}", _proof_s(node.reason) if idle else 0.0
            self.hold(Invariant.NO_DRAIN_LEFT, key, idle, f"{node.reason!r}", node_subject(node.name), more_s=proof_s)
            if node.name in self.operators.drains and self._drained_at_once(node.name):
                self.windows["a drain of ours over one that came after the look before it"] += 1
                del self.operators.drains[node.name]
            wanted = self.operators.drains.get(node.name)
            lifted = wanted is not None and not (node.drained and node.reason == wanted)
            self.hold(Invariant.FOREIGN_DRAINS, node.name, lifted, f"{wanted!r}", node_subject(node.name))
        for look in self.also:
            look()

    def _drained_at_once(self, node: str) -> bool:
        """Slurm has no drain that is refused where there is one: what comes between a look and ours is written over."""
        since = self.operators.drained_at.get(node, 0.0)
        return 0.0 <= self.cluster.slurm.controller.drained_over.get(node, -1.0) - since <= LOOKED_BEFORE_S

    def hold(self, promise: Invariant, key: str, wrong: bool, text: str, *subjects: str, more_s: float = 0.0) -> None:
        """Break the promise if that has been wrong for its bound of calm seconds."""
        self.checked[promise] += 1
        if not wrong:
            self._since.pop((promise, key), None)
            return
        since = self._since.setdefault((promise, key), asyncio.get_running_loop().time())
        if self.quiescence.lasted(since) > BOUNDS_S[promise] + more_s:
            self.violate(promise, text, *subjects)

    def _stuck(self, pod: Json, jobs: list[SimJob]) -> bool:
        """It waits, and not for Slurm: nothing is asked for, or what was given is not used."""
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"] or any(job.pending for job in jobs):
            return False
        usable = any(self._takes_pods(node) for job in jobs for node in job.nodes)
        if jobs and not usable:
            return False
        placeholder = self.cluster.extender.engine.units.by_pod(pod["metadata"]["uid"])
        return placeholder is None or placeholder.state is not State.REFUSED

    def waits_in_slurm(self, pod: Json) -> bool:
        """It is not on a node yet, and nobody has said that it shall not be."""
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return False
        placeholder = self.cluster.extender.engine.units.by_pod(pod["metadata"]["uid"])
        return placeholder is None or placeholder.state is not State.REFUSED

    def _why_stuck(self, pod: Json, jobs: list[SimJob]) -> str:
        placeholder = self.cluster.extender.engine.units.by_pod(pod["metadata"]["uid"])
        return f"jobs {[(job.job_id, job.state) for job in jobs]}, placeholder {placeholder and placeholder.state}"

    def _takes_pods(self, name: str) -> bool:
        node = self.cluster.kube.node(self.cluster.names.kube(name))
        ready = node is not None and any(
            each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"]
        )
        return ready and node is not None and not node["spec"].get("unschedulable")

    def _lives(self, pod: Json) -> bool:
        """Its own job holds its node."""
        job = self.cluster.slurm.controller.jobs.get(_job_id(pod))
        if job is None or _unit(job) != pod["metadata"]["uid"]:
            return False
        return job.running and self._node(pod) in job.nodes

    def _node(self, pod: Json) -> str:
        """The Slurm node of the machine that it is on; "": it is on none."""
        node = pod["spec"].get("nodeName", "")
        return self.cluster.names.slurm(node) if node else ""

    def _remembered(self, subjects: tuple[str, ...]) -> list[str]:
        """What the extender remembers of the units concerned."""
        lines: list[str] = []
        if not hasattr(self.cluster, "extender"):
            return lines
        engine = self.cluster.extender.engine
        for pod in self._pods.values():
            if pod_subject(pod["metadata"]["name"]) not in subjects:
                continue
            placeholder = engine.units.by_pod(pod["metadata"]["uid"])
            if placeholder is not None:
                lines.append(f"  the extender's own story of {pod['metadata']['name']}, {placeholder.state}:")
                lines += [f"    {line}" for line in engine.story(placeholder.key).lines()]
        return lines


def _unit(job: SimJob) -> str:
    """The UID of the Pod that a job is for; "" for a job of others."""
    mark = decode_mark(job.admin_comment) or decode_mark(job.extra)
    return mark.unit if mark is not None else ""


def _job_id(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(JOB_ID, "")
    return int(text) if text.isdecimal() else 0


def _proof_s(reason: str) -> float:
    """How long a node may be held for Pods that were removed without their kubelet's word: two words, and what follows.

    kubelet renews the Lease of its Node, and only then is known to live; that is seen when it is read next.
    """
    graces = [one.grace_s for one in removals_in(reason)]
    return HEARS_S + SETTLE_S + 4 * LEASE_S + max(graces) if graces else 0.0


def _on_a_node(pod: Json) -> bool:
    """Bound, and its containers may run."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in OVER
