"""Pods of another scheduler, on the nodes that Slurm gives away; and what is promised about them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from extender.domain import quantity
from extender.domain.guest_mark import decode_guest_mark
from extender.domain.requests import CPU, MEMORY, pod_requests
from extender.sim.cluster import SimCluster
from extender.sim.diary import Diary, job_subject, node_subject, pod_subject
from extender.sim.kube.kubelet import RUN_FOR, STOP_FOR
from extender.sim.kube.objects import Json
from extender.sim.kube.pods import OVER
from extender.sim.kube.refusals import Refused
from extender.sim.kube.resources import NODES, PODS
from extender.sim.promises import Judge, Promise
from extender.sim.slurm.records import SimJob
from extender.wire.pod import read_pod

OTHER = "default-scheduler"
LOOK_EVERY_S = 5.0

CONFIG = "foreignPods: {mode: jobs, partition: guests}\n"


@dataclass(slots=True)
class Foreigners:
    """Binds at most `limit` Pods within `duration_s`, where Kubernetes has room, as a scheduler does that looks."""

    cluster: SimCluster
    seed: int
    diary: Diary
    judge: Judge
    limit: int
    duration_s: float
    stopped: bool = False
    made: int = 0
    rng: random.Random = field(init=False)
    _started: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        # A draw of its own: the rest of the seed is the same run with and without them.
        self.rng = random.Random(f"the Pods of others of seed {self.seed}")  # noqa: S311 - everything is to come again

    async def run(self) -> None:
        """Bind and delete them, and judge, until cancelled."""
        if not self.limit:
            return
        self.cluster.slurm.controller.listeners.append(self._hear_of_job)
        looking = asyncio.create_task(self._look_for_ever(), name="foreign Pods")
        try:
            for at in sorted(self.rng.uniform(0, self.duration_s * 0.8) for _ in range(self.limit)):
                await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
                if not self.stopped:
                    self._bind_one()
            await asyncio.get_running_loop().create_future()
        finally:
            looking.cancel()

    def stop(self) -> None:
        """No more of them; those there are end."""
        self.stopped = True
        for pod in self.pods():
            self._delete(pod["metadata"]["name"], pod["metadata"]["uid"])

    def pods(self) -> list[Json]:
        """Those that are there."""
        return [pod for pod in self.cluster.kube.storage.of(PODS) if pod["spec"]["schedulerName"] == OTHER]

    def _bind_one(self) -> None:
        rng = self.rng
        cpu, memory = rng.choice(["500m", "1", "2", "4", "8"]), rng.choice(["256Mi", "1Gi", "4Gi"])
        nodes = [node["metadata"]["name"] for node in self.cluster.kube.storage.of(NODES)]
        fitting = [name for name in sorted(nodes) if self._takes(name, cpu, memory)]
        if not fitting:
            return
        name, node = f"foreign-{self.made}", rng.choice(fitting)
        annotations = {STOP_FOR: str(rng.choice([0.2, 1, 10]))}
        if rng.random() < 0.3:
            annotations[RUN_FOR] = str(round(rng.expovariate(1 / 120.0) + 1, 1))
        pod = self.cluster.kube.add_pod(
            name, scheduler=OTHER, node=node, cpu=cpu, memory=memory, grace_s=10, annotations=annotations
        )
        self.made += 1
        where = node_subject(self.cluster.names.slurm(node))
        self.diary.add(f"another scheduler binds it, {cpu} CPUs, {memory}", pod_subject(name), where)
        lives = rng.expovariate(1 / 180.0) + 1.0
        asyncio.get_running_loop().call_later(lives, self._delete, name, pod["metadata"]["uid"])

    def _takes(self, node: str, cpu: str, memory: str) -> bool:
        """Its own Filter: room by what the API server shows, and not cordoned."""
        one = self.cluster.kube.node(node)
        if one is None or one["spec"].get("unschedulable"):
            return False
        cpus, bytes_ = self._left(one)
        if sum(1 for _ in self._on(node)) >= int(one["status"]["allocatable"]["pods"]):
            return False
        return cpus >= quantity.parse(cpu) and bytes_ >= quantity.parse(memory)

    def _delete(self, name: str, uid: str) -> None:
        pod = self.cluster.kube.pod(name)
        if pod is not None and pod["metadata"]["uid"] == uid:
            with suppress(Refused):
                self.cluster.kube.delete_pod(name)

    # What is promised.

    def _hear_of_job(self, what: str, job: SimJob) -> None:
        mark = decode_guest_mark(job.admin_comment)
        if mark is None:
            return
        if what == "started":
            self._started.add(job.job_id)
        by = " by a client" if self.cluster.slurm.controller.client_asks else ""
        about = [job_subject(job.job_id), node_subject(mark.node), pod_subject(mark.pod.partition("/")[2])]
        self.diary.add(f"guest {what}{by}, {job.state} {job.reason}", *about)
        if what == "ended" and by and self._is_held(mark.uid, mark.node, without=job.job_id) is False:
            there = any(
                pod["metadata"]["uid"] == mark.uid and pod["status"]["phase"] not in OVER for pod in self.pods()
            )
            self.judge.checked[Promise.TRUTH] += 1
            if there and job.job_id in self._started:
                self.judge.break_(Promise.TRUTH, "the job of a Pod of others was cancelled while that runs", *about)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for pod in self.pods():
                self._look(pod)

    def _look(self, pod: Json) -> None:
        meta, node = pod["metadata"], self.cluster.names.slurm(pod["spec"]["nodeName"])
        if not self.cluster.slurm.controller.release.knows_external or pod["status"]["phase"] in OVER:
            return
        slurm = self.cluster.slurm.controller.nodes.get(node)
        open_ = slurm is not None and not slurm.drained and not slurm.down
        wrong = open_ and not self._is_held(meta["uid"], node)
        self.judge.hold(
            Promise.HELD, meta["uid"], wrong, "its node is open", pod_subject(meta["name"]), node_subject(node)
        )

    def _is_held(self, uid: str, node: str, without: int = 0) -> bool:
        for job in self.cluster.slurm.controller.jobs.values():
            mark = decode_guest_mark(job.admin_comment)
            if mark is not None and mark.uid == uid and job.running and node in job.nodes and job.job_id != without:
                return True
        return False

    def _left(self, node: Json) -> tuple[int, int]:
        """CPUs and bytes, in billionths, that no Pod on a Node asks for."""
        has = node["status"]["allocatable"]
        cpus, bytes_ = quantity.parse(has["cpu"]), quantity.parse(has["memory"])
        for pod in self._on(node["metadata"]["name"]):
            asked = pod_requests(read_pod(pod))
            cpus -= asked.get(CPU, 0)
            bytes_ -= asked.get(MEMORY, 0)
        return cpus, bytes_

    def _on(self, node: str) -> Iterator[Json]:
        for pod in self.cluster.kube.storage.of(PODS):
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in OVER:
                yield pod
