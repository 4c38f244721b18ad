"""Ends of Pods whose containers are real processes, each with a job and a Pod queued for the very node.

Every container and job is a probe (`lab/kubelet/probe`): the kernel's lock, and no API object, shows an overlap.
"""

from __future__ import annotations

import statistics
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lab.clock import now
from lab.instants import slurm_instants
from lab.kubelet_site import KubeletSite
from lab.node import KubeletOptions
from lab.pods import container, required_affinity
from lab.preemption_sites import PLACES, preemption_topology
from lab.site import PodRef, QueuedJob
from tests.builders.ends import CONFIG, TIME_LIMIT, install_fence, partitions_for, site_key
from tests.builders.native_jobs import submit_native_job
from tests.builders.stage import MODE, PARTITION

VICTIM_CPUS, NEXT_CPUS = 14, 7
NODES = 2
PROBE = "/probe"
KUBELET_AWAY_S = 6.0
RELEASED_WITHIN_S = 420.0
"""After a forced deletion a Node is held for minutes."""


class RealKind(StrEnum):
    """Name the cause of an end, and what happens to the kubelet meanwhile."""

    DELETE = "Pod deleted"
    FORCED = "Pod deleted by force"
    THEN_FORCED = "Pod deleted, 2 s later by force"
    CANCEL = "job cancelled"
    PREEMPT = "job preempted"
    LIMIT = "time limit of the job"
    SUCCEEDS = "container exits with 0"
    FAILS = "container exits with 3"
    DEADLINE = "activeDeadlineSeconds of the Pod"
    RESTARTED = "job cancelled, kubelet restarted meanwhile"
    AWAY = "job cancelled, kubelet killed and back after 6 s"
    AWAY_FORCED = "Pod deleted by force, kubelet killed and back after 6 s"
    POWER_CUT = "power cut and reboot of the node"


SLOW = (RealKind.FORCED, RealKind.THEN_FORCED, RealKind.AWAY_FORCED, RealKind.LIMIT, RealKind.POWER_CUT)
"""These take a minute and more."""

RUN_FOR = {RealKind.SUCCEEDS: "-run-for 4s", RealKind.FAILS: "-run-for 4s -exit 3"}
GRACES = (1, 2, 3, 5, 8, 12, 20, 30)


@dataclass(frozen=True, slots=True)
class RealEnd:
    """One end. The victim ignores SIGTERM: it lives for its whole grace."""

    kind: RealKind
    mode: str
    grace_s: int


@dataclass(frozen=True, slots=True)
class RealEnded:
    """Hold the times of one end that the probes saw, in seconds after the victim's last process."""

    end: RealEnd
    next_job: float
    next_pod: float
    overlaps: str
    """The lines of the probes that found the lock taken; empty where none did."""

    @property
    def has_overlap(self) -> bool:
        """Return whether two processes that exclude each other ran at one time."""
        return bool(self.overlaps) or min(self.next_job, self.next_pod) < 0


def real_ends(mode: str, kinds: Sequence[RealKind], each: int) -> list[RealEnd]:
    """Return `each` ends of every kind, with graces from 1 s to 30 s in turn; the slowest first."""
    made = [
        RealEnd(kind, mode, GRACES[(number + repeat * 3) % len(GRACES)])
        for number, kind in enumerate(kinds)
        for repeat in range(each)
    ]
    return sorted(made, key=lambda end: (end.kind not in SLOW, -end.grace_s))


@contextmanager
def real_site(
    release: str, workdir: Path, kubelets: KubeletOptions | None = None, *, nodes: int = NODES
) -> Iterator[KubeletSite]:
    """Start a site of real nodes with the fence script installed; `nodes` of each kind that the release has."""
    key = site_key(workdir)
    config = {**CONFIG, "hooks": {**CONFIG["hooks"], "siteKeyFile": str(key)}}
    topology = preemption_topology(release, PLACES, size=nodes)
    real = [node.name for node in topology.kube_nodes]
    with KubeletSite(
        release, topology=topology, real=real, kubelets=kubelets, config=config, audit=True, workdir=workdir
    ) as site:
        install_fence(site, key)
        yield site


def probed(folder: Path, name: str, options: str = "", *, cpus: int | str = 1, memory: str = "256Mi") -> dict[str, Any]:
    """Return fields of a Pod whose only process is a probe that keeps its files in `folder` of the machine."""
    script = f"exec {PROBE}/probe -name {name} {options}"
    mounts = [{"name": "probe", "mountPath": PROBE}]
    volume = {"name": "probe", "hostPath": {"path": str(folder), "type": "Directory"}}
    return {
        "containers": [container(script, cpus=cpus, memory=memory, volumeMounts=mounts)],
        "volumes": [volume],
        "enableServiceLinks": False,
    }


@dataclass
class RealArena:
    """Run ends on one real node, one after the other."""

    site: KubeletSite
    node: str
    namespace: str

    @property
    def folder(self) -> Path:
        """Return where the probes of this node keep their files."""
        return self.site.probe_folder(self.node)

    def play(self, end: RealEnd, number: int) -> RealEnded:
        """Let one end happen, and wait until the next job and the next Pod have had the node."""
        own = partitions_for(end.mode)
        # Files of probes stay: no two probes of a node have one name.
        victim_name, next_name = (f"{role}-{self.namespace}-{number}" for role in ("victim", "next"))
        options = RUN_FOR.get(end.kind, "-linger -1s")
        extra = {"activeDeadlineSeconds": 5} if end.kind is RealKind.DEADLINE else {}
        limit = {TIME_LIMIT: "1"} if end.kind is RealKind.LIMIT else {}
        victim = self.pod(victim_name, end, own.preempted_at_once, VICTIM_CPUS, options, annotations=limit, **extra)
        self.site.bound(victim, timeout_s=120)
        job = self.job(victim)
        self.started(victim_name)
        partition = own.preempting if end.kind is RealKind.PREEMPT else own.preempted_at_once
        next_job = self.submit(end.mode, partition)
        next_pod = self.pod(next_name, RealEnd(end.kind, end.mode, 1), own.preempted_at_once, NEXT_CPUS, "-shared")
        self.execute(end, victim, job)
        self.running(next_job)
        pod_started = self.started(next_name, within_s=RELEASED_WITHIN_S)
        script = f"job-{next_job}"
        job_started = self.started(script) if end.mode != "external" else self.configured(next_job)
        last = self.stamp(victim_name, "alive")
        overlaps = self.take_overlaps()
        self._clear((victim, next_pod), next_job)
        return RealEnded(end, job_started - last, pod_started - last, overlaps)

    def execute(self, end: RealEnd, victim: PodRef, job: QueuedJob) -> None:
        """Let the end begin; the kubelet and the machine are well again when this returns."""
        site, kubelet, slurm = self.site, self.site.nodes[self.node].kubelet, self.site.slurm
        match end.kind:
            case RealKind.DELETE:
                site.delete(victim)
            case RealKind.FORCED:
                self._force(victim)
            case RealKind.THEN_FORCED:
                site.delete(victim)
                site.elapse(2)
                self._force(victim)
            case RealKind.CANCEL | RealKind.RESTARTED:
                slurm.run("scancel", str(job.job_id))
                if end.kind is RealKind.RESTARTED:
                    site.elapse(1)
                    kubelet.restart()
            case RealKind.AWAY | RealKind.AWAY_FORCED:
                kubelet.kill()
                if end.kind is RealKind.AWAY:
                    slurm.run("scancel", str(job.job_id))
                else:
                    self._force(victim)
                site.elapse(KUBELET_AWAY_S)
                kubelet.start()
            case RealKind.POWER_CUT:
                site.nodes[self.node].power_cut()
                site.elapse(KUBELET_AWAY_S)
                site.boot(self.node)
            case RealKind.PREEMPT | RealKind.LIMIT | RealKind.SUCCEEDS | RealKind.FAILS | RealKind.DEADLINE:
                pass  # it ends by itself

    def pod(
        self,
        name: str,
        end: RealEnd,
        partition: str,
        cpus: int,
        options: str,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> PodRef:
        """Create a Pod for this node whose process is a probe."""
        return self.site.pod(
            name,
            self.namespace,
            cpus=cpus,
            grace_s=end.grace_s,
            affinity=required_affinity("kubernetes.io/hostname", [self.node]),
            annotations={MODE: end.mode, PARTITION: partition, **(annotations or {})},
            **probed(self.folder, name, options, cpus=cpus),
            **spec,
        )

    def submit(self, mode: str, partition: str) -> int:
        """Submit a native job for this node whose process is a probe, where it may have one."""
        program = f"/lab/probe/{self.node}"
        return submit_native_job(
            self.site,
            partition,
            cpus=NEXT_CPUS,
            nodes=[self.node],
            external=mode == "external",
            script=[f"exec {program}/probe -folder {program} -shared -name job-$SLURM_JOB_ID"],
        )

    def started(self, name: str, *, within_s: float = 120) -> float:
        """Wait until the probe `name` runs; return when it started."""
        self.site.wait_for(
            lambda: self.stamp(name, "alive"), f"probe {name} runs on {self.node}", timeout_s=within_s, every_s=0.1
        )
        return self.stamp(name, "started")

    def stamp(self, name: str, what: str) -> float:
        """Return a time that the probe `name` has written, 0.0 where it has not."""
        path = self.folder / f"{name}.{what}"
        text = path.read_text() if path.exists() else ""
        return float(text) if text.strip() else 0.0

    def job(self, ref: PodRef) -> QueuedJob:
        """Wait for the job of a Pod."""
        prefix = f"{ref.namespace}/{ref.name}-"
        return self.site.wait_for(
            lambda: next((job for job in self.site.squeue() if job.name.startswith(prefix)), None),
            f"Slurm has a job for Pod {ref.name}",
        )

    def running(self, job_id: int) -> None:
        """Wait until a job runs."""
        self.site.wait_for(
            lambda: any(job.job_id == job_id and job.state == "RUNNING" for job in self.site.squeue()),
            f"job {job_id} runs",
            timeout_s=RELEASED_WITHIN_S,
            every_s=0.3,
        )

    def _force(self, victim: PodRef) -> None:
        self.site.kube.api("DELETE", f"{victim.path}?gracePeriodSeconds=0")

    def configured(self, job_id: int) -> float:
        """Wait until slurmctld ended CONFIGURING of a job; return when that was."""
        log = self.site.slurm.home / "log" / "slurmctld.log"
        return self.site.wait_for(
            lambda: slurm_instants(log).configured.get(job_id), f"slurmctld's log has the start of job {job_id}"
        )

    def take_overlaps(self) -> str:
        """Return the lines of probes that found the lock taken, and forget them."""
        path = self.folder / "overlaps"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text.strip().replace("\n", "; ")

    def _clear(self, pods: Sequence[PodRef], job_id: int) -> None:
        site = self.site
        site.slurm.run("scancel", str(job_id))
        for pod in pods:
            site.delete(pod)
        for pod in pods:
            site.gone(pod, timeout_s=90)

        def idle() -> bool:
            busy = any(self.node == job.node for job in site.squeue())
            return not busy and not site.slurm.run("sinfo", "-h", "-R", "-n", self.node, "-o", "%E").strip()

        site.wait_for(idle, f"{self.node} is idle and not drained", timeout_s=RELEASED_WITHIN_S, every_s=0.3)


def play_real(site: KubeletSite, wanted: Sequence[RealEnd], namespace: str) -> list[RealEnded]:
    """Let all these ends happen, one at a time on each node; the longest first."""
    waiting = iter(list(enumerate(wanted)))
    turn, found = threading.Lock(), list[RealEnded]()

    def work(arena: RealArena) -> None:
        while True:
            with turn:
                number, end = next(waiting, (0, None))
            if end is None:
                return
            ended = arena.play(end, number)
            with turn:
                found.append(ended)

    prefix = partitions_for(wanted[0].mode).prefix
    places = [RealArena(site, name, namespace) for name in site.nodes if name.startswith(f"{prefix}arena")]
    with ThreadPoolExecutor(len(places)) as workers:
        for done in [workers.submit(work, place) for place in places]:
            done.result()
    return found


def wait_no_process(site: KubeletSite, node: str, uid: str, *, within_s: float) -> float:
    """Wait until no process of a Pod is left on its node; return when that was seen."""
    machine = site.nodes[node]
    what = f"no process of Pod {uid} is left on {node}"
    site.wait_for(lambda: not machine.processes(uid), what, timeout_s=within_s, every_s=0.02)
    return now()


def real_rows(found: Sequence[RealEnded]) -> list[Mapping[str, str]]:
    """Return one row of the proof page for each kind of end."""
    by_kind: dict[RealKind, list[RealEnded]] = defaultdict(list)
    for one in found:
        by_kind[one.end.kind].append(one)

    def median(of_kind: Sequence[RealEnded], seconds: Callable[[RealEnded], float]) -> str:
        return f"{statistics.median(seconds(one) for one in of_kind):.2f}"

    return [
        {
            "end": str(kind),
            "ends": str(len(of_kind)),
            "graces, s": ", ".join(sorted({str(one.end.grace_s) for one in of_kind}, key=int)),
            "overlaps": str(sum(one.has_overlap for one in of_kind)),
            "smallest gap, s": f"{min(min(one.next_job, one.next_pod) for one in of_kind):.2f}",
            "last process to next job, median s": median(of_kind, lambda one: one.next_job),
            "last process to next Pod, median s": median(of_kind, lambda one: one.next_pod),
        }
        for kind, of_kind in sorted(by_kind.items())
    ]
