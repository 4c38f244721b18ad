"""One test's place on a site: a namespace, a mode of placeholders, the partitions it uses, and the cleaning up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extender.domain.wellknown import ALLOCATED_CONDITION
from lab.pods import pod_template
from lab.site import LIVE, PodRef, QueuedJob, Site
from lab.topology import EXTERNAL, WITH_SLURMD, Family
from tests.builders.native_jobs import submit_native_job

MODE = "slurm-extender.io/mode"
PARTITION = "slurm-extender.io/partition"
DRAIN_MARK = "slurm-extender:"


@dataclass
class Stage:
    """Drive and query a real cluster in one mode. `family` are the partitions in which this mode can run."""

    site: Site
    mode: str
    namespace: str
    foreign: list[int] = field(default_factory=list)
    """Slurm jobs of the test itself, which are no placeholders."""

    @property
    def family(self) -> Family:
        return EXTERNAL if self.mode == "external" else WITH_SLURMD

    def annotations(self, partition: str = "", extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return mode and partition, and whatever the test adds."""
        named = {PARTITION: partition or self.family.main} if partition or self.mode == "external" else {}
        return {MODE: self.mode, **named, **(extra or {})}

    def pod(
        self, name: str, *, partition: str = "", annotations: Mapping[str, str] | None = None, **options: Any
    ) -> PodRef:
        """Create a Pod of this mode."""
        return self.site.pod(name, self.namespace, annotations=self.annotations(partition, annotations), **options)

    def template(
        self, app: str, *, partition: str = "", annotations: Mapping[str, str] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return a Pod template for a workload, labelled `app`."""
        said = self.annotations(partition, annotations)
        return pod_template(annotations=said, labels={"app": app}, restartPolicy="Always", **options)

    def phase(self, ref: PodRef) -> str:
        """Return the phase of a Pod; "" once it is gone."""
        return str((self.site.read(ref) or {}).get("status", {}).get("phase", ""))

    def condition(self, ref: PodRef) -> dict[str, Any]:
        """Return the condition that explains why a Pod waits for its allocation; {} without one."""
        said = (self.site.read(ref) or {}).get("status", {}).get("conditions") or ()
        return next((one for one in said if one["type"] == ALLOCATED_CONDITION), {})

    def jobs(self, ref: PodRef | None = None, states: str = LIVE) -> list[QueuedJob]:
        """Return live placeholder jobs of this namespace or of one Pod; with `states="all"` also those that ended."""
        name = re.escape(f"{self.namespace}/{ref.name}") if ref else re.escape(f"{self.namespace}/") + ".+"
        wanted = re.compile(f"{name}-[0-9a-f]{{10}}")
        return [job for job in self.site.squeue(states) if wanted.fullmatch(job.name)]

    def made(self, ref: PodRef | None = None) -> list[int]:
        """Return the ids of all jobs that Slurm ever accepted, newest first, also of those that ended.

        Not those FAILED: an immediate allocation that is refused leaves such a record, and never was in a queue.
        """
        return [job.job_id for job in self.jobs(ref, "all") if job.state != "FAILED"]

    def job(self, ref: PodRef) -> QueuedJob:
        """Wait until a Pod has a live job; return it."""
        jobs = self.site.wait_for(lambda: self.jobs(ref), f"Slurm has a job for Pod {ref.name}")
        assert len(jobs) == 1, f"Pod {ref.name} has more than one live job: {jobs}"
        return jobs[0]

    def wait_job_ended(self, ref: PodRef, *, timeout_s: float = 30) -> None:
        """Wait until no job of a Pod lives."""
        self.site.wait_for(lambda: not self.jobs(ref), f"no job of Pod {ref.name} lives", timeout_s=timeout_s)

    def submit(
        self, partition: str, *, cpus: int, nodes: Sequence[str] = (), seconds: int = 3600, first: str = ""
    ) -> int:
        """Submit a native job (external in that mode) that fills `cpus` of one node; returns its id.

        `first` is the first line of its script.
        """
        job_id = submit_native_job(
            self.site,
            partition,
            cpus=cpus,
            nodes=nodes,
            external=self.mode == "external",
            script=[first, f"exec sleep {seconds}"],
        )
        self.foreign.append(job_id)
        return job_id

    def running(self, job_id: int, *, timeout_s: float = 60) -> str:
        """Wait until a native job runs; returns its node."""

        def check() -> str:
            return next((j.node for j in self.site.squeue() if j.job_id == job_id and j.state == "RUNNING"), "")

        return self.site.wait_for(check, f"job {job_id} runs", timeout_s=timeout_s)

    def cancel(self, job_id: int) -> None:
        """Run `scancel` as an administrator."""
        self.site.slurm.run("scancel", str(job_id))

    def finish(self) -> None:
        """Delete everything of this test and check that the extender left no Pod, no live job and no drain."""
        site = self.site
        for job_id in self.foreign:
            self.cancel(job_id)
        for group in ("deployments", "statefulsets", "replicasets"):
            site.kube.api("DELETE", f"/apis/apps/v1/namespaces/{self.namespace}/{group}?propagationPolicy=Background")
        site.kube.api("DELETE", f"/apis/batch/v1/namespaces/{self.namespace}/jobs?propagationPolicy=Background")

        def pods_gone() -> bool:
            alive = site.pods(self.namespace)
            if any("deletionTimestamp" not in pod["metadata"] for pod in alive):
                site.kube.api("DELETE", f"/api/v1/namespaces/{self.namespace}/pods?gracePeriodSeconds=1")
            return not alive

        site.wait_for(pods_gone, f"no Pod is left in {self.namespace}", timeout_s=60)
        site.wait_for(lambda: not site.squeue(), "no job is left", timeout_s=60)
        site.wait_for(lambda: not self.drained(), "no node is drained by the extender", timeout_s=180)

    def drained(self) -> list[str]:
        """Return the Slurm nodes that the extender drained."""
        lines = site_lines(self.site.slurm.run("sinfo", "-h", "-R", "-o", "%N|%E"))
        return [line for line in lines if DRAIN_MARK in line]


def sharing(shown: Mapping[str, str]) -> str:
    """Return how the node of a job is shared, as the annotation names it, from `scontrol show job`.

    From 26.05 on OverSubscribe shows only whether the node is shared; a key of its own shows with which jobs.
    """
    word = shown.get("Exclusive", "NO")
    if word == "NO":
        word = shown["OverSubscribe"]
    return {"NODE": "none", "NO": "none", "YES": "ok", "OK": "as the partition says"}.get(word, word.lower())


def site_lines(text: str) -> list[str]:
    """Return lines with something in them."""
    return [line for line in text.splitlines() if line.strip()]
