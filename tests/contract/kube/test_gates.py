"""A real API server puts our gate and our tolerations on new Pods of ours, by the shipped policies and by the shipped
webhook, and on no others.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml

from extender.domain.views import Taint
from extender.domain.wellknown import GATE, MANAGED_TAINT, NATIVE_JOB_TAINT
from extender.http.admission import router
from extender.http.app import application
from lab.clock import wait_until
from lab.credentials import issue
from lab.kube import Kubernetes
from simulator.kube.objects import a_pod
from tests.builders.kustomize import ROOT, documents
from tests.builders.services import StillClock

pytestmark = pytest.mark.lab

COMPONENTS = ROOT / "manifests" / "components"
TAINTS = (Taint(MANAGED_TAINT, "NoSchedule", "slurm"), Taint(NATIVE_JOB_TAINT, "NoExecute", "slurm"))
OTHERS = "kueue.x-k8s.io/admission"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@contextmanager
def policy(kube: Kubernetes, _folder: Path) -> Iterator[None]:
    folder = COMPONENTS / "gate-policy"
    text = yaml.safe_dump_all([*documents(folder / "policy.yaml"), *documents(folder / "tolerations.yaml")])
    kube.kubectl("apply", "-f", "-", stdin=text)
    yield
    kube.kubectl("delete", "-f", "-", stdin=text)


@contextmanager
def webhook(kube: Kubernetes, folder: Path) -> Iterator[None]:
    certificate = issue(folder)
    config = uvicorn.Config(
        application([router(["slurm"], None, 1 << 20, StillClock(), tolerated=TAINTS)]),
        host="127.0.0.1",
        port=0,
        ssl_certfile=str(certificate.certificate),
        ssl_keyfile=str(certificate.key),
        log_level="warning",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="webhook")
    thread.start()
    try:
        wait_until(lambda: server.started, "the webhook listens", timeout_s=10)
        port = server.servers[0].sockets[0].getsockname()[1]
        [configuration] = documents(COMPONENTS / "gate-webhook" / "webhook.yaml")
        bundle = base64.b64encode(certificate.ca_file.read_bytes()).decode()
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"] |= {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
        kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(configuration))
        yield
        kube.kubectl("delete", "-f", "-", stdin=yaml.safe_dump(configuration))
    finally:
        server.should_exit = True
        thread.join()


Way = Callable[[Kubernetes, Path], Any]


def created(kube: Kubernetes, pod: dict[str, Any]) -> list[str]:
    """The gates of a Pod as the API server would take it."""
    return [gate["name"] for gate in spec(kube, pod).get("schedulingGates", ())]


def tolerated(kube: Kubernetes, pod: dict[str, Any]) -> list[str]:
    """The keys of the taints of ours that it would tolerate."""
    return [
        one["key"] for one in spec(kube, pod).get("tolerations", ()) if one["key"] in {MANAGED_TAINT, NATIVE_JOB_TAINT}
    ]


def spec(kube: Kubernetes, pod: dict[str, Any]) -> dict[str, Any]:
    """A Pod as the API server would take it."""
    kube.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    status, answer = kube.api("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert status == 201, answer
    found: dict[str, Any] = answer["spec"]
    return found


@pytest.mark.parametrize("way", [policy, webhook], ids=["policy", "webhook"])
def test_new_pods_of_the_scheduler_get_the_gate_and_no_others(kube: Kubernetes, tmp_path: Path, way: Way) -> None:
    assert created(kube, a_pod("web")) == []
    with way(kube, tmp_path):
        wait_until(lambda: created(kube, a_pod("web")) == [GATE], "the API server has taken it up", timeout_s=60)
        assert sorted(created(kube, a_pod("web", gates=(OTHERS,)))) == sorted([OTHERS, GATE])
        assert created(kube, a_pod("web", gates=(GATE,))) == [GATE]
        assert created(kube, a_pod("web", gates=(GATE, OTHERS))) == [GATE, OTHERS]
        assert created(kube, a_pod("web", scheduler="default-scheduler")) == []
        assert created(kube, a_pod("web", node="n1")) == []
    wait_until(lambda: created(kube, a_pod("web")) == [], "the API server has let it go", timeout_s=60)


def with_tolerations(*keys: str) -> dict[str, Any]:
    pod = a_pod("web")
    pod["spec"]["tolerations"] = [{"key": key, "operator": "Exists"} for key in keys]
    return pod


@pytest.mark.parametrize("way", [policy, webhook], ids=["policy", "webhook"])
def test_new_pods_of_the_scheduler_tolerate_the_taints_of_slurm_s_nodes_and_no_others(
    kube: Kubernetes, tmp_path: Path, way: Way
) -> None:
    both = [MANAGED_TAINT, NATIVE_JOB_TAINT]
    with way(kube, tmp_path):
        wait_until(lambda: tolerated(kube, a_pod("web")) == both, "the API server has taken it up", timeout_s=60)
        assert tolerated(kube, with_tolerations()) == both
        assert tolerated(kube, with_tolerations("gpu")) == both
        assert sorted(tolerated(kube, with_tolerations(NATIVE_JOB_TAINT))) == sorted(both)
        assert tolerated(kube, with_tolerations(*both)) == both
        assert tolerated(kube, a_pod("web", scheduler="default-scheduler")) == []
