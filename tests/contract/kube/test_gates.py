"""A real API server puts our gate on new Pods, by the shipped policy and by the shipped webhook, and on no others."""

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

from extender.domain.wellknown import GATE
from extender.http.admission import router
from extender.http.app import application
from extender.sim.kube.objects import a_pod
from lab.clock import wait_until
from lab.credentials import issue
from lab.kube import Kubernetes
from tests.builders.kustomize import ROOT, documents

pytestmark = pytest.mark.lab

COMPONENTS = ROOT / "manifests" / "components"
OTHERS = "kueue.x-k8s.io/admission"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    with Kubernetes(controllers=False, workdir=tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@contextmanager
def policy(kube: Kubernetes, _folder: Path) -> Iterator[None]:
    text = yaml.safe_dump_all(documents(COMPONENTS / "gate-policy" / "policy.yaml"))
    kube.kubectl("apply", "-f", "-", stdin=text)
    yield
    kube.kubectl("delete", "-f", "-", stdin=text)


@contextmanager
def webhook(kube: Kubernetes, folder: Path) -> Iterator[None]:
    certificate = issue(folder)
    config = uvicorn.Config(
        application([router(["slurm"], None, 1 << 20)]),
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
        [hook] = configuration["webhooks"]
        path = hook["clientConfig"].pop("service")["path"]
        bundle = base64.b64encode(certificate.ca_file.read_bytes()).decode()
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
    status, answer = kube.api("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    assert status == 201, answer
    return [gate["name"] for gate in answer["spec"].get("schedulingGates", ())]


@pytest.mark.parametrize("way", [policy, webhook], ids=["policy", "webhook"])
def test_new_pods_of_ours_get_the_gate_and_no_others(kube: Kubernetes, tmp_path: Path, way: Way) -> None:
    kube.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    assert created(kube, a_pod("web")) == []
    with way(kube, tmp_path):
        wait_until(lambda: created(kube, a_pod("web")) == [GATE], "the API server has taken it up", timeout_s=60)
        assert sorted(created(kube, a_pod("web", gates=(OTHERS,)))) == sorted([OTHERS, GATE])
        assert created(kube, a_pod("web", gates=(GATE,))) == [GATE]
        assert created(kube, a_pod("web", gates=(GATE, OTHERS))) == [GATE, OTHERS]
        assert created(kube, a_pod("web", scheduler="default-scheduler")) == []
        assert created(kube, a_pod("web", node="n1")) == []
    wait_until(lambda: created(kube, a_pod("web")) == [], "the API server has let it go", timeout_s=60)
