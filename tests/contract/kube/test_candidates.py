"""Our candidates are those of a real kube-scheduler with the shipped profile: random Pods and Nodes, both asked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from extender.domain.placing.candidates import NeedsKubeScheduler, candidates
from extender.kube.wire.node import read_node
from extender.kube.wire.pod import read_pod
from lab.clock import wait_until
from lab.kube import Kubernetes
from lab.manifests import scheduler_deployment, scheduler_profile, shipped
from tests.builders.listening_extender import Listening, listening
from tests.builders.minors import EVERY_MINOR
from tests.builders.placing import a_random_node, a_random_pod

pytestmark = pytest.mark.lab

NODES, PODS = 40, 150
WRITERS = 8


@pytest.fixture(scope="module", params=EVERY_MINOR)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Kubernetes, Listening]]:
    """A control plane whose kube-scheduler tells us what it would offer."""
    workdir = tmp_path_factory.mktemp("kubernetes")
    with Kubernetes(version=request.param, controllers=False, workdir=workdir) as kube, listening() as ears:
        documents = shipped(kube)
        _, gates = scheduler_deployment(documents)
        kube.start_scheduler(scheduler_profile(documents, ears.url), feature_gates=gates)
        yield kube, ears


def made(kube: Kubernetes, path: str, objects: list[dict[str, Any]]) -> None:
    def create(obj: Mapping[str, Any]) -> None:
        status, answer = kube.api("POST", path, obj)
        assert status == 201, answer

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(create, objects))


def listed(kube: Kubernetes, path: str) -> list[dict[str, Any]]:
    status, answer = kube.api("GET", path)
    assert status == 200, answer
    items: list[dict[str, Any]] = answer["items"]
    return items


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", SEEDS)
def test_kube_scheduler_would_offer_just_these(cluster: tuple[Kubernetes, Listening], seed: int) -> None:
    kube, ears = cluster
    rng = random.Random(seed)
    namespace = f"seed-{seed}"
    path = f"/api/v1/namespaces/{namespace}/pods"
    names = [f"node-{number}" for number in range(NODES)]
    made(kube, "/api/v1/nodes", [a_random_node(rng, name) for name in names])
    kube.wait_nodes_ready()
    made(kube, "/api/v1/namespaces", [{"metadata": {"name": namespace}}])
    made(kube, f"/api/v1/namespaces/{namespace}/serviceaccounts", [{"metadata": {"name": "default"}}])
    made(kube, path, [a_random_pod(rng, f"pod-{number}", names) for number in range(PODS)])
    wait_until(lambda: all(map(tried, listed(kube, path))), f"kube-scheduler has tried {PODS} Pods", timeout_s=120)

    nodes = [read_node(node) for node in listed(kube, "/api/v1/nodes")]
    pods = [read_pod(pod) for pod in listed(kube, path)]
    ours = {pod.name: candidates(pod, nodes) for pod in pods}
    theirs = {pod.name: ears.shown.get(pod.uid, frozenset()) for pod in pods}
    try:
        assert not any(isinstance(found, NeedsKubeScheduler) for found in ours.values())
        assert ours == theirs
        assert len(set(theirs.values())) > PODS / 5, "the Pods are too much alike to tell anything"
    finally:
        kube.api("DELETE", f"{path}?gracePeriodSeconds=0")
        kube.api("DELETE", "/api/v1/nodes")


def tried(pod: Mapping[str, Any]) -> bool:
    """kube-scheduler writes so, whatever came of it."""
    return any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
