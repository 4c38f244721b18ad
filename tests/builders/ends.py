"""Ends of Pods and jobs on the real parts, each on a node of its own with work queued for that very node."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from lab.clock import now
from lab.errors import LabError
from lab.extender import PROGRAM
from lab.pods import required_affinity
from lab.preemption_sites import (
    EXTERNAL,
    FENCE,
    GRACE_TIME_S,
    NOTES,
    PLACES,
    SITE_KEY,
    WITH_SLURMD,
    PartitionSet,
    preemption_topology,
)
from lab.site import PodRef, QueuedJob, Site
from lab.slurm_conf import HOME
from tests.builders.native_jobs import submit_native_job
from tests.builders.stage import MODE, PARTITION

VICTIM_CPUS, NEXT_CPUS, BYSTANDER_CPUS = 14, 7, 2
REQUEUED_S = 125
"""A requeued batch job starts after twice the lifetime of its credential (60 s): `job_mgr.c`."""

TIME_LIMIT = "slurm-extender.io/time-limit"


class Kind(StrEnum):
    """Name a cause of the end of a Pod or its job."""

    CANCEL = "an administrator cancels the job"
    DELETE = "the Pod is deleted by its owner"
    FORCED = "the Pod is deleted by force, and its processes run on for its grace"
    WARNED = "preemption with GraceTime"
    PREEMPT = "preemption without"
    LIMIT = "time limit"
    NODE_FAIL = "slurmd away for longer than SlurmdTimeout, and back"
    DOWN = "DOWN and RESUME by scontrol"
    DRAINED = "an administrator cancels the job on a node that is drained for another reason"
    DEAF = "slurmd killed while the Epilog holds, and back"


NEEDS_SLURMD = {Kind.NODE_FAIL, Kind.DEAF}
FENCED_BY_THE_JOB_ITSELF = (Kind.FORCED, Kind.CANCEL, Kind.DELETE, Kind.WARNED, Kind.PREEMPT, Kind.LIMIT, Kind.DRAINED)
"""Ends that the script of the placeholder job and the drain hold cover, with nothing installed at the site."""

KILLS_NEIGHBOURS = {Kind.NODE_FAIL, Kind.DOWN}
"""Slurm ends every job of a node that fails."""

SHORT = tuple(kind for kind in Kind if kind is not Kind.FORCED)
"""Without those that take minutes: the kubelet has to report twice, 80 s apart."""

REMOVED_WITHIN_S = 360.0
"""For which a node may be held after a Pod was deleted by force."""

SLOWEST_FIRST = (Kind.FORCED, Kind.LIMIT, Kind.WARNED, Kind.NODE_FAIL, Kind.DEAF)


@dataclass(frozen=True, slots=True)
class End:
    """One end: the victim's grace, in seconds, and whether the next Pod is queued before the next job."""

    kind: Kind
    mode: str
    grace_s: int
    pod_first: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """Record one end, with the names of its Pods and jobs in the logs."""

    end: End
    node: str
    victim: str
    victim_job: int
    next_job: int
    next_pod: str
    script: float
    """The first line of the next job's script, 0.0 where it has none."""

    gone: float = 0.0
    """When the last process of a Pod that was deleted by force ended; 0.0: the audit log shows it."""

    trouble: str = ""
    """What happened to other Pods, jobs or drains although it must not."""


def ends(mode: str, count: int, seed: int, *, once: bool = False, among: Iterable[Kind] = Kind) -> list[End]:
    """Return `count` ends of this mode, every kind `among` these in turn, with graces from 1 s to 60 s; slowest first.

    `once`: one of each kind, with short graces.
    """
    rng = random.Random(f"{seed} {mode}")
    kinds = [kind for kind in among if mode != "external" or kind not in NEEDS_SLURMD]
    graces = [1, 2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60]
    made = [
        End(
            kinds[number % len(kinds)],
            mode,
            rng.choice(graces[:7]) if once else graces[(number // len(kinds) + number) % len(graces)],
            rng.random() < 0.5,
        )
        for number in range(len(kinds) if once else count)
    ]
    # A fence is proven only if the Pod is still there when the node comes back.
    made = [replace(end, grace_s=max(end.grace_s, 20)) if end.kind in {Kind.DEAF} else end for end in made]
    return sorted(made, key=lambda end: (end.kind not in SLOWEST_FIRST, -end.grace_s))


CONFIG: dict[str, dict[str, Any]] = {
    "slurm": {"killWait": "10s", "sendUserSignal": True, "defaultPartition": WITH_SLURMD.preempted_at_once},
    "hooks": {"wait": "8s"},
}


def site_key(workdir: Path) -> Path:
    """Write a file with the key of a site's fence script, and return its path."""
    key = workdir / SITE_KEY
    key.touch(mode=0o600)
    key.write_text("0123456789" * 4)
    return key


def install_fence(site: Site, key: Path) -> None:
    """Put the fence script where slurm.conf names it."""
    etc = site.slurm.home / "etc"
    (etc / SITE_KEY).touch(mode=0o600)
    (etc / SITE_KEY).write_text(key.read_text())
    hooks = f"http://127.0.0.1:{site.addresses.hooks}"
    (site.slurm.home / Path(NOTES).relative_to(HOME)).mkdir(mode=0o700)
    command = [str(PROGRAM), "generate", "fence-script", "--hooks", hooks]
    command += ["--key-file", f"{HOME}/etc/{SITE_KEY}", "--notes", NOTES, "--slurm-conf", f"{HOME}/etc/slurm.conf"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (etc / f"{FENCE}.new").write_text(text)
    (etc / f"{FENCE}.new").chmod(0o755)
    (etc / f"{FENCE}.new").rename(etc / FENCE)  # never seen half written


@contextmanager
def arena_site(release: str, workdir: Path, places: Sequence[str] = PLACES, *, warned: bool = True) -> Iterator[Site]:
    """Start a site with the fence script installed in these places.

    `warned`: Slurm warns scripts of a preemption. Else mode `auto` would not choose a script for that reason.
    """
    key = site_key(workdir)
    config = {**CONFIG, "hooks": {**CONFIG["hooks"], "siteKeyFile": str(key)}}
    if not warned:
        config["slurm"] = {**CONFIG["slurm"], "sendUserSignal": False}
    with Site(
        release, topology=preemption_topology(release, places), config=config, audit=True, workdir=workdir
    ) as site:
        install_fence(site, key)
        yield site


def partitions_for(mode: str) -> PartitionSet:
    """Return the partitions in which Pods of this mode end."""
    return EXTERNAL if mode == "external" else WITH_SLURMD


@dataclass
class Arena:
    """Run ends on one node, one after the other."""

    site: Site
    node: str
    namespace: str
    jobs: list[int] = field(default_factory=list)

    def play(self, end: End, number: int) -> Ended:
        """Let one end happen, and wait until the next job and the next Pod have had the node."""
        site, own = self.site, partitions_for(end.mode)
        partition = own.preempted_with_grace if end.kind is Kind.WARNED else own.preempted_at_once
        limit = {TIME_LIMIT: "1"} if end.kind is Kind.LIMIT else {}
        victim = self._pod(f"victim-{number}", end, partition, VICTIM_CPUS, limit)
        site.bound(victim, timeout_s=120)
        job = self._job(victim)
        bystander = self.submit(end.mode, own.never_preempted, BYSTANDER_CPUS)
        self.running(bystander)
        preempts = end.kind in {Kind.WARNED, Kind.PREEMPT}

        def queue_job() -> int:
            # As `JobRequeue=1` has it: docs/fences.md says when Slurm requeues a job whose PrologSlurmctld waited.
            return self.submit(end.mode, own.preempting if preempts else own.preempted_at_once, NEXT_CPUS, requeue=True)

        next_job = queue_job() if not (preempts or end.pod_first) else 0
        next_pod = self._pod(f"next-{number}", replace(end, grace_s=1), own.preempted_at_once, NEXT_CPUS)
        self._job(next_pod)
        next_job = next_job or queue_job()
        gone = self._do(end, victim, job)
        if end.kind is Kind.DRAINED:
            site.gone(victim, timeout_s=end.grace_s + 60)
            site.elapse(4)
            trouble = "" if "broken fan" in self._reason() else f"the administrator's drain is gone: {self._reason()}"
            site.slurm.run("scontrol", "update", f"nodename={self.node}", "state=undrain")
        else:
            trouble = ""
        within_s = REMOVED_WITHIN_S if end.kind is Kind.FORCED else 180 + REQUEUED_S
        script = 0.0 if end.mode == "external" else self._first_line(next_job, within_s)
        self.running(next_job, ended_too=True, within_s=within_s)
        site.bound(next_pod, timeout_s=within_s)
        if end.kind not in KILLS_NEIGHBOURS and self.state(bystander) != "RUNNING":
            trouble += f"the bystander's job {bystander} is {self.state(bystander) or 'gone'}"
        self._clear(next_pod, (bystander, next_job))
        return Ended(end, self.node, _full(victim), job.job_id, next_job, _full(next_pod), script, gone, trouble)

    def _do(self, end: End, victim: PodRef, job: QueuedJob) -> float:
        """Cause the end; return when its last process ends if no component reports that, else 0.0."""
        slurm = self.site.slurm
        match end.kind:
            case Kind.FORCED:
                self.site.kube.api("DELETE", f"{victim.path}?gracePeriodSeconds=0")
                return now() + end.grace_s
            case Kind.CANCEL:
                slurm.run("scancel", str(job.job_id))
            case Kind.DRAINED:
                slurm.run("scontrol", "update", f"nodename={self.node}", "state=drain", "reason=broken fan")
                slurm.run("scancel", str(job.job_id))
            case Kind.DELETE:
                self.site.delete(victim)
            case Kind.WARNED | Kind.PREEMPT | Kind.LIMIT:
                pass
            case Kind.NODE_FAIL:
                slurm.kill_slurmd(self.node)
                self.site.wait_for(lambda: "down" in self._node_state(), f"{self.node} is DOWN", timeout_s=120)
                slurm.start_slurmd(self.node)
            case Kind.DOWN:
                slurm.run("scontrol", "update", f"nodename={self.node}", "state=down", "reason=looked at")
                self.site.elapse(1)
                with suppress(LabError):  # refused: it has come back by itself (ReturnToService=2)
                    slurm.run("scontrol", "update", f"nodename={self.node}", "state=resume")
            case Kind.DEAF:
                slurm.run("scancel", str(job.job_id))
                self.site.wait_for(lambda: epilog_runs(self.node), f"the Epilog of {self.node} runs", timeout_s=30)
                slurm.kill_slurmd(self.node)
                self.site.elapse(2)
                slurm.start_slurmd(self.node)
        return 0.0

    def submit(self, mode: str, partition: str, cpus: int, *, anywhere: bool = False, requeue: bool = False) -> int:
        """Submit a native job for this node; its script's first line writes when it started."""
        job_id = submit_native_job(
            self.site,
            partition,
            cpus=cpus,
            nodes=() if anywhere else [self.node],
            external=mode == "external",
            requeue=requeue,
            script=[f"date +%s.%N >{HOME}/run/started-$SLURM_JOB_ID", "exec sleep 3600"],
        )
        self.jobs.append(job_id)
        return job_id

    def running(self, job_id: int, *, ended_too: bool = False, within_s: float = 150) -> None:
        """Wait until a job runs."""
        wanted = {"RUNNING"} | ({"COMPLETED"} if ended_too else set())
        self.site.wait_for(lambda: self.state(job_id) in wanted, f"job {job_id} runs", timeout_s=within_s, every_s=0.3)

    def _pod(self, name: str, end: End, partition: str, cpus: int, annotations: dict[str, str] | None = None) -> PodRef:
        return self.site.pod(
            name,
            self.namespace,
            cpus=cpus,
            grace_s=end.grace_s,
            affinity=required_affinity("kubernetes.io/hostname", [self.node]),
            annotations={MODE: end.mode, PARTITION: partition, **(annotations or {})},
        )

    def _job(self, ref: PodRef) -> QueuedJob:
        prefix = f"{ref.namespace}/{ref.name}-"
        return self.site.wait_for(
            lambda: next((job for job in self.site.squeue() if job.name.startswith(prefix)), None),
            f"Slurm has a job for Pod {ref.name}",
            timeout_s=120,
            every_s=0.2,
        )

    def state(self, job_id: int) -> str:
        """Return the state of a job in Slurm, "" if Slurm has no such job."""
        return self.site.slurm.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", str(job_id)).strip()

    def _node_state(self) -> str:
        return self.site.slurm.run("sinfo", "-h", "-n", self.node, "-o", "%T").lower()

    def _reason(self) -> str:
        return self.reasons([self.node])

    def reasons(self, nodes: Iterable[str]) -> str:
        """Return why these nodes are drained or down."""
        return self.site.slurm.run("sinfo", "-h", "-R", "-n", ",".join(nodes), "-o", "%E").strip()

    def victim(self, name: str, end: End, partition: str) -> PodRef:
        """Create a Pod that leaves no room for the next one."""
        return self._pod(name, end, partition, VICTIM_CPUS)

    def _first_line(self, job_id: int, within_s: float) -> float:
        path = self.site.slurm.home / "run" / f"started-{job_id}"
        self.site.wait_for(
            lambda: path.exists() and path.read_text().strip(), f"job {job_id} starts", timeout_s=within_s, every_s=0.2
        )
        return float(path.read_text())

    def _clear(self, pod: PodRef, jobs: Iterable[int]) -> None:
        for job_id in jobs:
            self.site.slurm.run("scancel", str(job_id))
        self.site.delete(pod)
        self.site.gone(pod, timeout_s=60)

        def idle() -> bool:
            return not any(self.node == job.node for job in self.site.squeue()) and not self._reason()

        self.site.wait_for(idle, f"{self.node} is idle and not drained", timeout_s=60, every_s=0.3)


def epilog_runs(node: str) -> bool:
    """Return whether an Epilog of the lab runs for this node, by the machine's process list."""
    name_in_environ = f"\0SLURMD_NODENAME={node}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            own = FENCE.encode() in (process / "cmdline").read_bytes()
            if own and name_in_environ in b"\0" + (process / "environ").read_bytes():
                return True
        except OSError:
            continue
    return False


def _full(ref: PodRef) -> str:
    return f"{ref.namespace}/{ref.name}"


def play(site: Site, wanted: Sequence[End], namespace: str) -> list[Ended]:
    """Let all these ends happen, as many at a time as there are nodes; the longest first."""
    waiting = iter(list(enumerate(wanted)))
    turn, found = threading.Lock(), list[Ended]()

    def work(arena: Arena) -> None:
        while True:
            with turn:
                number, end = next(waiting, (0, None))
            if end is None:
                return
            ended = arena.play(end, number)
            with turn:
                found.append(ended)

    places = [Arena(site, node, namespace) for node in partitions_for(wanted[0].mode).nodes[: len(wanted)]]
    with ThreadPoolExecutor(len(places)) as workers:
        for done in [workers.submit(work, place) for place in places]:
            done.result()
    return found


def preempt_one_of(
    site: Site, own: PartitionSet, mode: str, kind: Kind, namespace: str, *, grace_s: int
) -> tuple[int, float]:
    """Submit one preempting job for any of several full nodes; return how many Pods it ended, and its wait."""
    partition = own.preempted_with_grace if kind is Kind.WARNED else own.preempted_at_once
    choices = [Arena(site, node, namespace) for node in own.nodes]
    end = End(kind, mode, grace_s, pod_first=False)
    pods = [arena.victim(f"choice-{number}", end, partition) for number, arena in enumerate(choices)]
    for pod in pods:
        site.bound(pod, timeout_s=120)
    preemptor = choices[0].submit(mode, own.preempting, NEXT_CPUS, anywhere=True)
    _, seconds = site.timed(
        lambda: choices[0].state(preemptor) == "RUNNING", "the preemptor runs", timeout_s=GRACE_TIME_S + 60
    )
    site.elapse(16)  # in which Slurm would take the next victim
    alive = [found for pod in pods if (found := site.read(pod)) and "deletionTimestamp" not in found["metadata"]]
    site.slurm.run("scancel", str(preemptor))
    for pod in pods:
        site.delete(pod)
    for pod in pods:
        site.gone(pod, timeout_s=90)
    site.wait_for(lambda: not choices[0].reasons(own.nodes), "none of these nodes is drained", timeout_s=60)
    return len(pods) - len(alive), seconds
