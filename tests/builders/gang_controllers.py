"""Objects of the controllers that create gangs, and what a test expects of their Pods on the real parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG, GANG_NODES, GANG_RANK, JOB_ID
from lab.pods import pod_template
from lab.site import PodRef, QueuedJob
from lab.topology import slurm_name
from slurmclient.hostlist import expand
from tests.builders.stage import Stage

Pod = dict[str, Any]
JOBS = ("/apis/batch/v1", "jobs")
JOB_SETS = ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
LEADER_WORKER_SETS = ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets")

STEADY_S = 4.0
"""Real time in which an Event that must not come would have come."""


MEMBER_CPUS = 2
"""CPUs of each Pod of :func:`template`."""


def template(stage: Stage, *, annotations: Mapping[str, str] | None = None, **options: Any) -> dict[str, Any]:
    """Return a Pod template of the stage's mode."""
    return pod_template(cpus=MEMBER_CPUS, annotations=stage.annotations(extra=annotations), **options)


def collection(stage: Stage, kind: tuple[str, str]) -> str:
    """Return the path of the objects of a kind in the namespace of the test."""
    api, plural = kind
    return f"{api}/namespaces/{stage.namespace}/{plural}"


def parallel_job(
    stage: Stage,
    name: str,
    size: int,
    pod: Pod,
    *,
    indexed: bool = True,
    annotations: Mapping[str, str] | None = None,
    labelled: Mapping[str, str] | None = None,
) -> None:
    """Create a Job whose Pods, of the template `pod`, run at the same time."""
    mode = "Indexed" if indexed else "NonIndexed"
    spec = {"completionMode": mode, "parallelism": size, "completions": size, "template": pod}
    meta = {"name": name, "annotations": dict(annotations or {}), "labels": dict(labelled or {})}
    stage.site.create(
        collection(stage, JOBS), {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    )


def job_set(
    stage: Stage,
    name: str,
    entries: Mapping[str, tuple[int, int]],
    *,
    gang: str = "",
    depends_on: bool = False,
    backoff_limit: int = 0,
    **spec: Any,
) -> dict[str, Any]:
    """Create a JobSet. `entries`: number of Jobs, and of Pods in each, by name; `spec` adds fields.

    With `depends_on` each entry depends on the one before. Each Job replaces `backoff_limit` failed Pods itself.
    """
    jobs: list[dict[str, Any]] = [
        {
            "name": entry,
            "replicas": replicas,
            "template": {
                "spec": {
                    "completionMode": "Indexed",
                    "parallelism": pods,
                    "completions": pods,
                    "backoffLimit": backoff_limit,
                    "template": template(stage),
                }
            },
        }
        for entry, (replicas, pods) in entries.items()
    ]
    for earlier, later in pairwise(jobs if depends_on else ()):
        later["dependsOn"] = [{"name": earlier["name"], "status": "Ready"}]
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {GANG: gang} if gang else {}},
        "spec": {"replicatedJobs": jobs, **spec},
    }
    return stage.site.create(collection(stage, JOB_SETS), body)


def leader_worker_set(stage: Stage, name: str, *, replicas: int, size: int, **spec: Any) -> dict[str, Any]:
    """Create a LeaderWorkerSet; `spec` adds fields."""
    pod = template(stage, restartPolicy="Always")
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": pod}, **spec},
    }
    return stage.site.create(collection(stage, LEADER_WORKER_SETS), body)


def remove(stage: Stage, kind: tuple[str, str]) -> None:
    """Delete all objects of a kind in the namespace, their Pods too, and wait until both are gone."""
    site, path = stage.site, collection(stage, kind)
    site.kube.api("DELETE", f"{path}?propagationPolicy=Foreground")
    site.wait_for(lambda: not site.kube.api("GET", path)[1]["items"], f"no object of {path} is left", timeout_s=90)


def label(pod: Pod, key: str) -> str:
    """Return the value of a label; "" without it."""
    return str(pod["metadata"].get("labels", {}).get(key, ""))


def ref_of(pod: Pod) -> PodRef:
    """Return the reference to a Pod that was read."""
    meta = pod["metadata"]
    return PodRef(meta["namespace"], meta["name"], meta["uid"])


def bound_pods(stage: Stage, count: int, *, where: Callable[[Pod], bool] = bool, timeout_s: float = 90) -> list[Pod]:
    """Wait until so many Pods of the namespace that are not being deleted are there and bound."""

    def found() -> list[Pod]:
        live = [pod for pod in stage.site.pods(stage.namespace) if "deletionTimestamp" not in pod["metadata"]]
        chosen = [pod for pod in live if pod["status"].get("phase") not in {"Failed", "Succeeded"} and where(pod)]
        bound = all(pod["spec"].get("nodeName") for pod in chosen)
        return chosen if len(chosen) == count and bound else []

    return stage.site.wait_for(found, f"{count} Pods are there and bound", timeout_s=timeout_s)


def in_order(pods: Sequence[Pod], *keys: str) -> list[Pod]:
    """Return the Pods by the numbers in these labels, the first counts most."""
    return sorted(pods, key=lambda pod: [int(label(pod, key) or 0) for key in keys])


def by_index(stage: Stage, count: int) -> list[Pod]:
    """Wait until all Pods of a Job are bound; return them in the order of their completion indexes."""
    return in_order(bound_pods(stage, count), labels.JOB_INDEX)


JOBSET_ORDER = (labels.JOBSET_GLOBAL_INDEX, labels.JOB_INDEX)


def one_gang(stage: Stage, pods: Sequence[Pod]) -> QueuedJob:
    """Assert that the Pods, in order of rank, are one gang with one Slurm job whose nodes are in that order."""
    said = [pod["metadata"]["annotations"] for pod in pods]
    assert [one.get(GANG_RANK) for one in said] == [str(rank) for rank in range(len(pods))]
    (job_id,) = {one[JOB_ID] for one in said}
    (job,) = [one for one in stage.jobs() if str(one.job_id) == job_id]
    nodes = [slurm_name(pod["spec"]["nodeName"]) for pod in pods]
    assert list(expand(job.node)) == nodes, "the order of nodes in squeue is not the order of ranks"
    assert {one[GANG_NODES] for one in said} == {",".join(nodes)}
    return job


def one_by_one(stage: Stage) -> list[str]:
    """Return the texts of the Events in the namespace that say that Pods start one by one."""
    path = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events?limit=500"
    return [
        one.get("note", "")
        for one in stage.site.kube.api("GET", path)[1]["items"]
        if one["reason"] == "PodsPlacedOneByOne"
    ]


def warned_once(stage: Stage) -> str:
    """Wait for the Event that says that Pods start one by one, see that it stays alone, and return its text."""
    stage.site.wait_for(lambda: one_by_one(stage), "an Event says that the Pods start one by one", timeout_s=30)
    stage.site.elapse(STEADY_S)
    (text,) = one_by_one(stage)
    return text
