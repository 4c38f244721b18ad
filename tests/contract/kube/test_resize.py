"""A real API server refuses growth of Pods of ours by the shipped policy, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from extender.domain.pods.requests import pod_requests
from extender.domain.quantity import ONE
from extender.kube.connection import MERGE_PATCH
from extender.kube.wire.pod import read_pod
from lab.clock import wait_until
from lab.kube import Kubernetes
from simulator.kube.objects import a_node, a_pod
from tests.builders.kustomize import ROOT, documents

pytestmark = pytest.mark.lab

POLICY = documents(ROOT / "manifests" / "components" / "no-growth" / "policy.yaml")
PODS = "/api/v1/namespaces/default/pods"
SIZES = {"cpu": "2", "memory": "1Gi"}
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        cluster.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        assert cluster.api("POST", "/api/v1/nodes", a_node("n1"))[0] == 201
        for name, scheduler, node in (("web", "slurm", "n1"), ("other", "default", "n1"), ("waits", "slurm", "")):
            status, answer = cluster.api("POST", PODS, a_pod(name, scheduler=scheduler, node=node, cpu="2"))
            assert status == 201, answer
        for name in ("web", "other"):
            wait_until(partial(resizable, cluster, name), "kwok has said its own word of it", timeout_s=60)
        yield cluster


def resizable(kube: Kubernetes, name: str) -> bool:
    """Say how the Pod runs, once more if kwok, which knows no resources, has said it meanwhile."""
    runs(kube, name, SIZES)
    return resized(kube, name, "3")[0] == 200


def runs(kube: Kubernetes, name: str, has: dict[str, str]) -> None:
    """Say what kubelet says of a Pod that runs; of one on which it says no resources none may be resized."""
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    told = {"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": running}
    told |= {"allocatedResources": has, "resources": {"requests": has, "limits": has}}
    body = {"status": {"phase": "Running", "containerStatuses": [told]}}
    status, answer = kube.api("PATCH", f"{PODS}/{name}/status", body, content_type=MERGE_PATCH)
    assert status == 200, answer


def resized(kube: Kubernetes, name: str, cpu: str, memory: str = "1Gi", *, dry: bool = True) -> tuple[int, Any]:
    """What the API server says to a resize."""
    sizes = {"cpu": cpu, "memory": memory}
    body = {"spec": {"containers": [{"name": "main", "resources": {"requests": sizes, "limits": sizes}}]}}
    path = f"{PODS}/{name}/resize" + ("?dryRun=All" if dry else "")
    return kube.api("PATCH", path, body, content_type=STRATEGIC)


def test_growth_is_refused_with_what_to_do_and_shrinking_is_not(kube: Kubernetes) -> None:
    wait_until(partial(resizable, kube, "web"), "kwok has said its own word of it", timeout_s=60)
    kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(POLICY))
    refused = "its Slurm job cannot grow while it runs"
    wait_until(lambda: refused in str(resized(kube, "web", "3")[1]), "the API server has taken it up", timeout_s=60)
    runs(kube, "web", SIZES)
    status, answer = resized(kube, "web", "2", "1025Mi")
    assert status == 422
    assert "its Slurm job cannot grow while it runs" in answer["message"]
    assert resized(kube, "web", "1500m")[0] == 200
    assert resized(kube, "web", "2000m", "1024Mi")[0] == 200  # the same, in other words
    assert resized(kube, "other", "3")[0] == 200


def test_a_resize_that_kubelet_has_not_done_counts_for_the_most_of_both(kube: Kubernetes) -> None:
    status, answer = resized(kube, "other", "1", dry=False)
    assert status == 200, answer
    status, pod = kube.api("GET", f"{PODS}/other")
    assert status == 200, pod
    (container,) = read_pod(pod).containers
    assert container.requests["cpu"] == "1"
    assert [one["cpu"] for one in container.held] == ["2", "2"]
    assert pod_requests(read_pod(pod))["cpu"] == 2 * ONE
    runs(kube, "other", {"cpu": "1", "memory": "1Gi"})
    status, pod = kube.api("GET", f"{PODS}/other")
    assert read_pod(pod).containers[0].held == ()


def test_a_pod_that_waits_may_be_resized(kube: Kubernetes) -> None:
    status, answer = resized(kube, "waits", "3")
    assert status == 200, answer
