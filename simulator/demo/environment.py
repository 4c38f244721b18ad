"""Execute the demo's steps: workloads in Kubernetes, jobs in Slurm, and the extender's reasons for each Pod."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import Json, a_pod, owner_reference
from simulator.kube.resources import JOBS, PODS, REPLICASETS, Resource
from simulator.kube.server import FakeApiServer
from simulator.kube.status_errors import StatusError
from simulator.slurm.records import ENDED, SimJob, SimNode, SimPartition
from simulator.slurm.slurmctld import Slurmctld

GRACE_TIME_S = 5
"""GraceTime of the partition `batch`."""

Placeholders = Callable[[], Awaitable[Sequence[Mapping[str, Any]]]]
"""Returns the content of `/debug/placeholders`."""


def nodes() -> list[SimNode]:
    """Return three machines."""
    return [SimNode(f"node-{number}", cpus=8, memory_mb=64_000) for number in (1, 2, 3)]


def partitions() -> list[SimPartition]:
    """Return a default partition, and one that preempts it."""
    return [SimPartition("batch", default=True, grace_time_s=GRACE_TIME_S), SimPartition("urgent", priority_tier=10)]


@dataclass(slots=True)
class DemoWorkload:
    """Pods of one template. `replicas` are kept running; `run_for_s` 0.0 means no end."""

    name: str
    cpus: int
    owner: Json
    replicas: int = 0
    run_for_s: float = 0.0
    made: int = 0


@dataclass(slots=True)
class DemoEnvironment:
    """The cluster of the demo. `slurm` sends requests of other users to the simulated slurmrestd."""

    kube: FakeApiServer
    controller: Slurmctld
    slurm: httpx.AsyncClient
    placeholders: Placeholders
    workloads: dict[str, DemoWorkload] = field(default_factory=dict)
    _ends: dict[int, float] = field(default_factory=dict)
    """Run time of each job of other users."""

    # Kubernetes.

    def deployment(self, name: str, *, cpus: int, replicas: int) -> None:
        """Keep `replicas` Pods running."""
        self.workloads[name] = DemoWorkload(name, cpus, self._owner(REPLICASETS, name), replicas=replicas)

    def job(self, name: str, *, cpus: int, completions: int, run_for_s: float) -> None:
        """Run `completions` Pods once."""
        work = DemoWorkload(name, cpus, self._owner(JOBS, name), run_for_s=run_for_s)
        self.workloads[name] = work
        for _ in range(completions):
            self._add(work)

    def scale(self, name: str, replicas: int) -> None:
        """Change the number of Pods of a Deployment; Pods above it are deleted."""
        self.workloads[name].replicas = replicas
        live = [pod for pod in self.pods() if _belongs(pod, name) and _live(pod)]
        for pod in live[replicas:]:
            self._delete(pod)

    def clean_up(self) -> None:
        """Delete every Pod."""
        for work in self.workloads.values():
            work.replicas = 0
        for pod in self.pods():
            self._delete(pod)

    def pods(self) -> list[Json]:
        """Return all of them."""
        return list(self.kube.storage.of(PODS))

    # Slurm.

    async def sbatch(self, name: str, *, user: int, partition: str, cpus: int, run_for_s: float, node: str = "") -> int:
        """Submit a native job that ends after `run_for_s`; `node` is a required node."""
        job = {
            "name": name,
            "user_id": user,
            "group_id": user,
            "partition": partition,
            "tasks": 1,
            "cpus_per_task": cpus,
            "required_nodes": [node] if node else [],
            "current_working_directory": "/",
            "environment": ["PATH=/bin"],
            "script": "#!/bin/sh\nexec sleep infinity\n",
        }
        answer = await self.slurm.post("/slurm/v0.0.43/job/submit", json={"job": job})
        job_id = int(answer.json()["job_id"])
        self._ends[job_id] = run_for_s
        return job_id

    def jobs(self) -> list[SimJob]:
        """Return the jobs that have not ended, and those that are completing."""
        known = self.controller.known_jobs()
        return [job for job in known if job.state not in ENDED or job.completing_on]

    def is_native(self, job: SimJob) -> bool:
        """Return whether the job belongs to another user."""
        return job.job_id in self._ends

    # Time.

    def tick(self) -> None:
        """Run the controllers once: recreate Pods, and end native jobs that are due."""
        for work in self.workloads.values():
            live = [pod for pod in self.pods() if _belongs(pod, work.name) and _live(pod)]
            for _ in range(work.replicas - len(live)):
                self._add(work)
        now = self.controller.timers.wall()
        for job in self.jobs():
            if job.running and self.is_native(job) and now - job.start_time >= self._ends[job.job_id]:
                self.controller.end(job.job_id, "COMPLETED")

    def _owner(self, resource: Resource, name: str) -> Json:
        meta = {"name": name, "namespace": "default"}
        made = self.kube.create({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta})
        return owner_reference({"apiVersion": resource.api_version, "kind": resource.kind} | made)

    def _add(self, work: DemoWorkload) -> None:
        work.made += 1
        annotations = {RUN_FOR: str(work.run_for_s)} if work.run_for_s else {}
        pod = a_pod(
            f"{work.name}-{work.made}",
            cpu=str(work.cpus),
            annotations=annotations,
            labels={"app": work.name},
            owner=work.owner,
        )
        self.kube.create(pod)

    def _delete(self, pod: Json) -> None:
        meta = pod["metadata"]
        try:
            self.kube.delete_pod(meta["name"], meta["namespace"])
        except StatusError:
            return


def _belongs(pod: Json, name: str) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get("app") == name)


def _live(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in {"Succeeded", "Failed"}
