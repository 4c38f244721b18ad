"""Gangs in a queue of Kueue, whose own controller runs: it admits them as a whole, then Slurm places them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from extender.domain.gangs import labels
from extender.domain.wellknown import GANG, GANG_RANK
from lab.gang_controllers import QUEUES, running
from lab.pods import FAIL_AFTER, RUN_FOR
from lab.site import PodRef, Site
from tests.builders.gang_controllers import (
    MEMBER_CPUS,
    STEADY_S,
    bound_pods,
    by_index,
    collection,
    in_order,
    label,
    one_gang,
    parallel_job,
    ref_of,
    template,
)
from tests.builders.stage import Stage

pytestmark = [pytest.mark.controllers, pytest.mark.slow, pytest.mark.modes("batch")]

API = "/apis/kueue.x-k8s.io/v1beta2"
VERSION = "kueue.x-k8s.io/v1beta2"
ADMISSION = "kueue.x-k8s.io/admission"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
INDEX = "example.org/index"


@pytest.fixture(scope="module")
def controller(site: Site) -> Iterator[None]:
    with running(site.kube, QUEUES):
        yield


@pytest.fixture
def queued(stage: Stage, controller: None) -> Iterator[Stage]:
    """A stage whose namespace has the queue `team`, with nothing to give yet."""
    site, name = stage.site, stage.namespace
    site.create(f"{API}/resourceflavors", _object("ResourceFlavor", name))
    site.create(f"{API}/clusterqueues", _object("ClusterQueue", name, _quota(name, 0)))
    site.create(collection(stage, (API, "localqueues")), _object("LocalQueue", "team", {"clusterQueue": name}))
    yield stage
    # Kueue keeps the Pods of a group for their successors, until its workload is deleted.
    site.kube.api("DELETE", collection(stage, (API, "workloads")))
    stage.finish()
    site.kube.api("DELETE", f"{collection(stage, (API, 'localqueues'))}/team")
    for path in (f"{API}/clusterqueues/{name}", f"{API}/resourceflavors/{name}"):
        _remove(site, path)


def _remove(site: Site, path: str) -> None:
    site.kube.api("DELETE", path)
    site.wait_for(lambda: site.kube.api("GET", path)[0] == 404, f"{path} is gone", timeout_s=60)


def _object(kind: str, name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec or {}}


def _quota(flavor: str, cpus: int) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": str(cpus)}, {"name": "memory", "nominalQuota": "1Ti"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": flavor, "resources": resources}]}
    return {"namespaceSelector": {}, "resourceGroups": [group]}


def change_queue(stage: Stage, **spec: Any) -> None:
    """Change the ClusterQueue of the namespace."""
    stage.site.merge(f"{API}/clusterqueues/{stage.namespace}", {"spec": spec})


def give(stage: Stage, members: int) -> None:
    """Let Kueue admit so many members at a time."""
    change_queue(stage, **_quota(stage.namespace, members * MEMBER_CPUS))


def member(stage: Stage, group: str, index: int, size: int, *, suffix: str = "") -> PodRef:
    """Create a Pod of a group; names are not in the order of the indexes."""
    return stage.pod(
        f"{group}-{size - index}{suffix}",
        annotations={labels.KUEUE_SIZE: str(size), labels.KUEUE_INDEX_LABEL: INDEX},
        labels={labels.KUEUE_GROUP: group, QUEUE_NAME: "team", INDEX: str(index)},
        cpus=MEMBER_CPUS,
    )


def members(stage: Stage, group: str, size: int) -> list[PodRef]:
    """Create all Pods of a group."""
    return [member(stage, group, index, size) for index in range(size)]


def bound_group(stage: Stage, group: str, size: int) -> list[dict[str, Any]]:
    """Wait until all Pods of a group are bound; return them in the order of their indexes."""
    pods = bound_pods(stage, size, where=lambda pod: label(pod, labels.KUEUE_GROUP) == group)
    return in_order(pods, INDEX)


def waits_for_kueue(stage: Stage, ref: PodRef) -> bool:
    """Whether the condition of a Pod names the gate of Kueue."""
    return ADMISSION in stage.condition(ref).get("message", "")


def workloads(stage: Stage) -> list[dict[str, Any]]:
    """Return what Kueue made of the groups and Jobs of the namespace."""
    found: list[dict[str, Any]] = stage.site.kube.api("GET", collection(stage, (API, "workloads")))[1]["items"]
    return found


def finished(stage: Stage) -> bool:
    """Whether Kueue counts everything in the namespace as finished."""
    said = [{one["type"]: one["status"] for one in each["status"].get("conditions", ())} for each in workloads(stage)]
    return bool(said) and all(one.get("Finished") == "True" for one in said)


@pytest.mark.modes("batch", "allocation", "external")
def test_a_group_has_no_slurm_job_before_kueue_admits_it_and_is_one_gang_until_both_count_it_as_finished(
    queued: Stage,
) -> None:
    stage, site = queued, queued.site
    pods = members(stage, "ring", 3)
    give(stage, 2)
    site.wait_for(lambda: waits_for_kueue(stage, pods[0]), "the gate of Kueue is named", timeout_s=30)
    site.elapse(STEADY_S)
    assert stage.jobs() == []
    give(stage, 3)
    bound = bound_group(stage, "ring", 3)
    job = one_gang(stage, bound)
    assert stage.made() == [job.job_id]
    for pod in pods:
        site.annotate(pod, {RUN_FOR: "1s"})
    site.wait_for(lambda: finished(stage), "Kueue's workload is finished", timeout_s=60)
    site.wait_for(lambda: not stage.jobs(), "the Slurm job has ended", timeout_s=60)


def test_a_group_that_waits_for_the_quota_of_another_gets_its_own_slurm_job_once_that_one_ends(queued: Stage) -> None:
    stage, site = queued, queued.site
    give(stage, 3)
    ring = members(stage, "ring", 2)
    first = one_gang(stage, bound_group(stage, "ring", 2))
    chain = members(stage, "chain", 2)
    site.wait_for(lambda: waits_for_kueue(stage, chain[1]), "the second group waits for Kueue", timeout_s=30)
    assert stage.made() == [first.job_id]
    for pod in ring:
        site.annotate(pod, {RUN_FOR: "1s"})
    second = one_gang(stage, bound_group(stage, "chain", 2))
    assert sorted(stage.made()) == [first.job_id, second.job_id]


def test_the_pod_that_replaces_a_failed_one_of_an_admitted_group_gets_its_slot(queued: Stage) -> None:
    stage, site = queued, queued.site
    give(stage, 3)
    members(stage, "ring", 3)
    pods = bound_group(stage, "ring", 3)
    job = one_gang(stage, pods)
    failed, node = pods[1], pods[1]["spec"]["nodeName"]
    site.annotate(ref_of(failed), {FAIL_AFTER: "1s"})
    # Kueue deletes what is more than the group's size: the successor comes once the Pod has failed.
    site.wait_for(lambda: stage.phase(ref_of(failed)) == "Failed", "the Pod has failed", timeout_s=30)
    member(stage, "ring", 1, 3, suffix="-again")

    others = bound_pods(stage, 3, where=lambda pod: pod["metadata"]["uid"] != failed["metadata"]["uid"])
    (successor,) = [pod for pod in others if label(pod, INDEX) == "1"]
    assert successor["spec"]["nodeName"] == node
    assert successor["metadata"]["annotations"][GANG_RANK] == "1"
    assert stage.made() == [job.job_id], "another Slurm job was submitted"


def test_a_group_that_kueue_evicts_ends_its_slurm_job(queued: Stage) -> None:
    stage, site = queued, queued.site
    give(stage, 3)
    members(stage, "ring", 3)
    one_gang(stage, bound_group(stage, "ring", 3))
    change_queue(stage, stopPolicy="HoldAndDrain")
    site.wait_for(lambda: not stage.jobs(), "the Slurm job of the evicted group has ended", timeout_s=60)


def test_a_job_with_the_annotation_of_a_gang_starts_as_one_when_kueue_resumes_it(queued: Stage) -> None:
    stage, site = queued, queued.site
    parallel_job(stage, "ring", 3, template(stage), annotations={GANG: "true"}, labelled={QUEUE_NAME: "team"})
    site.wait_for(lambda: workloads(stage), "Kueue has a workload for the Job", timeout_s=30)
    site.elapse(STEADY_S)
    assert site.pods(stage.namespace) == []
    give(stage, 3)
    first = one_gang(stage, by_index(stage, 3))
    change_queue(stage, stopPolicy="HoldAndDrain")
    site.wait_for(lambda: not stage.jobs(), "the Slurm job of the evicted Job has ended", timeout_s=60)
    site.wait_for(lambda: not site.pods(stage.namespace), "its Pods are gone", timeout_s=60)
    change_queue(stage, stopPolicy="None")
    second = one_gang(stage, by_index(stage, 3))
    assert second.job_id != first.job_id


def test_the_pods_of_a_stateful_set_that_kueue_admits_are_placed_one_after_the_other(queued: Stage) -> None:
    """Kueue makes them one group of three, although the second is created only once the first is Ready."""
    stage, site = queued, queued.site
    pod = template(stage, restartPolicy="Always")
    pod["metadata"]["labels"]["app"] = "cache"
    site.create(
        f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets",
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "cache", "labels": {QUEUE_NAME: "team"}},
            "spec": {
                "replicas": 3,
                "serviceName": "cache",
                "selector": {"matchLabels": {"app": "cache"}},
                "template": pod,
            },
        },
    )
    give(stage, 3)
    pods = bound_pods(stage, 3)
    assert all(label(one, labels.KUEUE_GROUP) for one in pods), "Kueue did not group these Pods"
    assert all(GANG_RANK not in one["metadata"]["annotations"] for one in pods)
    assert len(stage.made()) == 3
