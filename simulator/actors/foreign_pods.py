"""Create foreign Pods, bound by another scheduler to the same nodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from extender.domain import quantity
from extender.domain.foreign_pods.mark import decode_foreign_pod_mark
from extender.domain.pods.requests import CPU, MEMORY, pod_requests
from extender.kube.wire.pod import read_pod
from simulator.cluster import SimCluster
from simulator.event_log import EventLog, node_subject, pod_subject
from simulator.kube.kubelet import RUN_FOR, STOP_FOR
from simulator.kube.objects import Json
from simulator.kube.pods import FINISHED_PHASES
from simulator.kube.resources import NODES, PODS
from simulator.kube.status_errors import StatusError
from simulator.node_names import SLURMD_LABEL

OTHER = "default-scheduler"

CONFIG = "foreignPods: {mode: jobs, partition: foreign}\n"


def foreign_pods(cluster: SimCluster) -> list[Json]:
    """Return the foreign Pods, without slurmd Pods."""
    others = [pod for pod in cluster.kube.storage.of(PODS) if pod["spec"]["schedulerName"] == OTHER]
    return [pod for pod in others if not SLURMD_LABEL.items() <= (pod["metadata"].get("labels") or {}).items()]


def without_room(cluster: SimCluster, slurm_node: str) -> bool:
    """Return whether a Slurm node has too little free for its foreign Pods without a job."""
    node, holders = cluster.slurm.controller.nodes[slurm_node], cluster.slurm.controller.cluster.holders(slurm_node)
    marks = [decode_foreign_pod_mark(job.admin_comment) for job in holders if job.running]
    held = {mark.uid for mark in marks if mark is not None}
    requested = [
        pod_requests(read_pod(pod))
        for pod in foreign_pods(cluster)
        if cluster.names.slurm(pod["spec"]["nodeName"]) == slurm_node
        and pod["status"]["phase"] not in FINISHED_PHASES
        and pod["metadata"]["uid"] not in held
    ]
    cpus = sum(quantity.cpus_up(one.get(CPU, 0)) for one in requested)
    cpus += sum(job.cpus_per_node * job.times(slurm_node) for job in holders)
    memory = sum(quantity.mebibytes_up(one.get(MEMORY, 0)) for one in requested)
    each = ((job, node.memory_mb if job.memory_mb is None else job.memory_mb) for job in holders)
    memory += sum(amount * job.times(slurm_node) for job, amount in each)
    # A node that an Epilog holds takes no Pod.
    completing = any(slurm_node in job.completing_on for job in holders)
    return bool(requested) and (completing or cpus > node.cpus or memory > node.memory_mb)


@dataclass(slots=True)
class ForeignPodScheduler:
    """Bind at most `limit` Pods within `duration_s`, where Nodes have enough allocatable resources."""

    cluster: SimCluster
    seed: int
    event_log: EventLog
    limit: int
    duration_s: float
    stopped: bool = False
    made: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        # A draw of its own: the rest of the seed is the same run with and without them.
        self.rng = random.Random(f"the Pods of others of seed {self.seed}")  # noqa: S311 - everything is to come again

    async def run(self) -> None:
        """Bind and delete foreign Pods until cancelled."""
        if not self.limit:
            return
        for at in sorted(self.rng.uniform(0, self.duration_s * 0.8) for _ in range(self.limit)):
            await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
            if not self.stopped:
                self._bind_one()
        await asyncio.get_running_loop().create_future()

    def stop(self) -> None:
        """Create no more foreign Pods, and delete the existing ones."""
        self.stopped = True
        for pod in foreign_pods(self.cluster):
            self._delete(pod["metadata"]["name"], pod["metadata"]["uid"])

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
        self.event_log.add(f"another scheduler binds it, {cpu} CPUs, {memory}", pod_subject(name), where)
        lives = rng.expovariate(1 / 180.0) + 1.0
        asyncio.get_running_loop().call_later(lives, self._delete, name, pod["metadata"]["uid"])

    def _takes(self, node: str, cpu: str, memory: str) -> bool:
        """Return whether a Node has enough free resources and is not cordoned."""
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
            with suppress(StatusError):
                self.cluster.kube.delete_pod(name)

    def _left(self, node: Json) -> tuple[int, int]:
        """Return CPUs and bytes, in billionths, that no Pod on a Node asks for."""
        has = node["status"]["allocatable"]
        cpus, bytes_ = quantity.parse(has["cpu"]), quantity.parse(has["memory"])
        for pod in self._on(node["metadata"]["name"]):
            requested = pod_requests(read_pod(pod))
            cpus -= requested.get(CPU, 0)
            bytes_ -= requested.get(MEMORY, 0)
        return cpus, bytes_

    def _on(self, node: str) -> Iterator[Json]:
        for pod in self.cluster.kube.storage.of(PODS):
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in FINISHED_PHASES:
                yield pod
