"""A real kube-scheduler with the shipped profile and feature gates leaves a Pod that was rejected to its back-off.

From 1.32 on whatever is written on a Pod that is bound, and on the waiting Pod's own status, makes it try again; from
1.33 on without its back-off, unless the feature gate of the manifests says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from extender.domain.wellknown import ALLOCATED_CONDITION
from lab.clock import elapsed, pause, wait_until
from lab.kube import Kubernetes
from lab.manifests import scheduler_deployment, scheduler_profile, shipped
from simulator.kube.objects import a_pod
from tests.builders.listening_extender import Listening, listening
from tests.builders.minors import EVERY_MINOR

pytestmark = pytest.mark.lab

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
LASTS_S = 12.0
MOST = 6
"""Attempts within `LASTS_S` after waits of 1, 2, 4 and 8 s, and one to spare."""


@dataclass(frozen=True, slots=True)
class ListeningCluster:
    kube: Kubernetes
    ears: Listening


@pytest.fixture(scope="module", params=EVERY_MINOR)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningCluster]:
    workdir: Path = tmp_path_factory.mktemp("kubernetes")
    with Kubernetes(version=request.param, controllers=False, workdir=workdir) as kube, listening() as ears:
        documents = shipped(kube)
        _, gates = scheduler_deployment(documents)
        kube.start_scheduler(scheduler_profile(documents, ears.url), feature_gates=gates)
        kube.add_node("node-1")
        kube.wait_nodes_ready()
        yield ListeningCluster(kube, ears)


def made(kube: Kubernetes, pod: dict[str, Any]) -> str:
    status, answer = kube.api("POST", PODS, pod)
    assert status == 201, answer
    return str(answer["metadata"]["uid"])


def test_what_changes_on_other_nodes_does_not_end_the_back_off_of_a_rejected_pod(cluster: ListeningCluster) -> None:
    kube, ears = cluster.kube, cluster.ears
    kube.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    made(kube, a_pod("bound", node="node-1"))
    uid = made(kube, a_pod("waits"))
    wait_until(lambda: ears.calls[uid] > 0, "kube-scheduler asks", timeout_s=30)
    began, turn = elapsed(), 0
    while elapsed() - began < LASTS_S:
        turn += 1
        annotations = {"metadata": {"annotations": {"turn": str(turn)}}}
        assert kube.api("PATCH", f"{PODS}/bound", annotations, content_type=MERGE)[0] == 200
        condition = {
            "type": ALLOCATED_CONDITION,
            "status": "False",
            "reason": "SlurmJobQueued",
            "message": f"turn {turn}",
        }
        told = {"status": {"conditions": [condition]}}
        assert kube.api("PATCH", f"{PODS}/waits/status", told, content_type=STRATEGIC)[0] == 200
        pause(0.3)
    assert turn > 4 * MOST
    assert 3 <= ears.calls[uid] <= MOST
