"""Pods wait in Slurm's queue, and workloads come up and go down through it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.stage import Stage


@pytest.mark.modes(slow=("auto",))
def test_a_pod_without_room_waits_in_slurms_queue_until_there_is_some(stage: Stage) -> None:
    site, tiny = stage.site, stage.family.tiny
    first = stage.pod("first", partition=tiny, cpus=4)
    assert site.bound(first) == stage.family.tiny_node
    second = stage.pod("second", partition=tiny, cpus=4)
    waiting = stage.job(second)
    assert waiting.state == "PENDING"
    assert str(waiting.job_id) in site.event(second, "SlurmJobSubmitted")
    assert site.node_of(second) == ""
    site.delete(first)
    assert site.bound(second, timeout_s=40) == stage.family.tiny_node
    assert stage.job(second).job_id == waiting.job_id


def scale(stage: Stage, kind: str, name: str, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/{kind}/{name}"
    stage.site.merge(path, {"spec": {"replicas": replicas}})


def workload(stage: Stage, kind: str, name: str, replicas: int, **spec: Any) -> None:
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": stage.template(name),
            **spec,
        },
    }
    status, answer = stage.site.kube.api("POST", f"/apis/apps/v1/namespaces/{stage.namespace}/{kind}", body)
    assert status == 201, answer


def running(stage: Stage) -> dict[str, str]:
    """Name to UID of the Pods that run and do not end."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in stage.site.pods(stage.namespace)
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    }


@pytest.mark.modes(slow=("batch", "allocation", "26.05-auto"))
def test_a_deployment_of_thirty_comes_up_and_goes_down(stage: Stage) -> None:
    site = stage.site
    workload(stage, "deployments", "web", 30)
    site.wait_for(lambda: len(running(stage)) == 30, "all thirty run", timeout_s=90, every_s=0.5)
    assert len(stage.jobs()) == 30
    scale(stage, "deployments", "web", 0)
    site.wait_for(lambda: not site.pods(stage.namespace), "no Pod is left", timeout_s=60, every_s=0.5)
    site.wait_for(lambda: not stage.jobs(), "no job is left", timeout_s=30)
    assert len(stage.made()) == 30, "one job for each Pod, no more"


@pytest.mark.modes(slow=("26.05-batch", "allocation", "auto"))
def test_pods_of_a_statefulset_that_return_under_their_names_get_jobs_of_their_own(stage: Stage) -> None:
    site = stage.site
    workload(stage, "statefulsets", "db", 3, serviceName="db", podManagementPolicy="Parallel")
    before = site.wait_for(lambda: found if len(found := running(stage)) == 3 else None, "all three run", timeout_s=60)
    scale(stage, "statefulsets", "db", 0)
    site.wait_for(lambda: not site.pods(stage.namespace) and not stage.jobs(), "all are gone", timeout_s=60)
    scale(stage, "statefulsets", "db", 3)
    after = site.wait_for(lambda: found if len(found := running(stage)) == 3 else None, "they are back", timeout_s=60)
    assert after.keys() == before.keys()
    assert set(after.values()).isdisjoint(before.values())
    assert len(stage.jobs()) == 3
