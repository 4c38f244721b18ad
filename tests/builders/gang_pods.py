"""Gangs in the simulated site: Pods with the annotation, and controllers that own Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.wellknown import GANG, GANG_RESTART, GANG_SIZE
from simulator.kube.objects import Json, owner_reference
from simulator.kube.resources import Resource
from tests.builders.process_site import Site

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")


def gang(
    site: Site, numbers: range, size: int, name: str = "ring", settings: Mapping[str, str] | None = None, **fields: Any
) -> list[str]:
    names = [f"{name}-{number}" for number in numbers]
    for one in names:
        site.kube.add_pod(one, annotations={GANG: name, GANG_SIZE: str(size), **(settings or {})}, **fields)
    return names


def bound(site: Site, names: list[str]) -> int:
    return sum(bool(site.pod(name)["spec"].get("nodeName")) for name in names)


def an_owner(site: Site, kind: str, name: str, spec: Json, above: Json | None = None, **annotations: str) -> Json:
    group = {"Job": "batch/v1", "StatefulSet": "apps/v1"}.get(kind)
    version = group or {"JobSet": "jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}[kind]
    said = {f"slurm-extender.io/{key}": value for key, value in annotations.items()}
    meta: Json = {"name": name, "namespace": "default", "annotations": said}
    if above is not None:
        meta["ownerReferences"] = [owner_reference(above)]
    return site.kube.create({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})


def group_member(
    site: Site, name: str, number: int, owner: Json, settings: dict[str, str] | None = None, gates: tuple[str, ...] = ()
) -> str:
    """Add a Pod of a LeaderWorkerSet group of three, with annotations for `settings`. Return its name."""
    labels = {f"leaderworkerset.sigs.k8s.io/{key}": "0" for key in ("name", "group-index")}
    labels["leaderworkerset.sigs.k8s.io/worker-index"] = str(number)
    said = {f"slurm-extender.io/{key}": value for key, value in (settings or {}).items()}
    said["leaderworkerset.sigs.k8s.io/size"] = "3"
    site.kube.add_pod(name, owner=owner_reference(owner), labels=labels, annotations=said, gates=gates)
    return name


def serve_controllers(site: Site) -> None:
    """Make the API server serve the kinds JobSet and LeaderWorkerSet."""
    site.kube.resources = (*site.kube.resources, JOB_SETS, LEADER_WORKER_SETS)


def a_leader(site: Site, **annotations: str) -> str:
    """Add the leader of a LeaderWorkerSet group of three whose workers come when it runs."""
    serve_controllers(site)
    lws = an_owner(site, "LeaderWorkerSet", "vllm", {"startupPolicy": "LeaderReady"})
    return group_member(site, "vllm-0", 0, an_owner(site, "StatefulSet", "vllm", {}, lws), annotations)


def workers_of(site: Site, leader: str, gates: tuple[str, ...] = (), **annotations: str) -> list[str]:
    """Add both workers of a group; `gates` are those of the second one."""
    above = site.pod(leader) | {"apiVersion": "v1", "kind": "Pod"}
    owner = an_owner(site, "StatefulSet", leader, {}, above)
    first = group_member(site, f"{leader}-1", 1, owner, annotations)
    return [first, group_member(site, f"{leader}-2", 2, owner, annotations, gates)]


def job_pods(site: Site, job: Json, count: int, labels: dict[str, str] | None = None, first: int = 0) -> list[str]:
    names = [f"{job['metadata']['name']}-{number}" for number in range(first, count)]
    for number, name in enumerate(names, first):
        index = {JOB_INDEX: str(number)} | (labels or {})
        site.kube.add_pod(name, owner=owner_reference(job), labels=index)
    return names


def job_set_labels(job_set: Json, entry: str, job: int, attempt: int = 0) -> dict[str, str]:
    """Return the labels of a JobSet's Pods in Job number `job` of all its Jobs."""
    said = {
        "jobset-name": job_set["metadata"]["name"],
        "jobset-uid": job_set["metadata"]["uid"],
        "replicatedjob-name": entry,
        "job-global-index": str(job),
        "restart-attempt": str(attempt),
    }
    return {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()}


KEEP = {GANG_RESTART: "keep-allocation"}


def a_job_set(site: Site) -> Json:
    """Add a JobSet of one Job with three Pods, which is one gang."""
    serve_controllers(site)
    entry = {"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 3, "completions": 3}}}
    return an_owner(site, "JobSet", "train", {"replicatedJobs": [entry]}, gang="set")


def a_job_of(site: Site, job_set: Json, attempt: int) -> Json:
    """Add the Job of the JobSet after so many restarts: the controller creates it again each time."""
    return an_owner(site, "Job", f"train-w-{attempt}", {"parallelism": 3, "completions": 3}, job_set)


def pods_of_job(site: Site, job: Json, attempt: int, numbers: range, **fields: Any) -> list[str]:
    """Add these Pods of the Job, which keep the allocation."""
    said = {"jobset-name": "train", "replicatedjob-name": "w", "restart-attempt": str(attempt)}
    marks = {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()}
    names = [f"train-w-{attempt}-{number}" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        index = marks | {JOB_INDEX: str(number)}
        site.kube.add_pod(name, owner=owner_reference(job), labels=index, annotations=KEEP, **{"cpu": "8"} | fields)
    return names


def pods_of_job_set(site: Site, job_set: Json, attempt: int) -> list[str]:
    """Add all Pods of the JobSet after so many restarts."""
    return pods_of_job(site, a_job_of(site, job_set, attempt), attempt, range(3))


async def a_running_job_set(site: Site) -> tuple[Json, list[str]]:
    """Add a JobSet and its first Pods, and wait until these are bound. Return it and their names."""
    job_set = a_job_set(site)
    names = pods_of_job_set(site, job_set, 0)
    for name in names:
        await site.bound(name)
    return job_set, names
