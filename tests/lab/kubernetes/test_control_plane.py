"""The control plane is real: RBAC, kube-scheduler, controllers, and kwok in the place of kubelets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.clock import elapsed, wait_until
from lab.credentials import EXTENDER, User
from lab.errors import LabError
from lab.kube import Kubernetes
from lab.process import Daemon

pytestmark = pytest.mark.lab

PATIENCE_S = 90
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def default_scheduler(kubernetes: Kubernetes) -> Iterator[Daemon]:
    scheduler = kubernetes.start_scheduler()
    yield scheduler
    scheduler.stop()


def create_pod(kube: Kubernetes, name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    body = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container], "automountServiceAccountToken": False, "restartPolicy": "Never", **spec},
    }
    status, answer = kube.api("POST", PODS, body)
    assert status == 201, answer


def pod(kube: Kubernetes, name: str) -> dict[str, Any]:
    status, answer = kube.api("GET", f"{PODS}/{name}")
    return answer if status == 200 else {}


def phase(kube: Kubernetes, name: str) -> str:
    return str(pod(kube, name).get("status", {}).get("phase", "gone"))


def wait_phase(kube: Kubernetes, name: str, wanted: str) -> None:
    wait_until(
        lambda: phase(kube, name) == wanted,
        f"Pod {name} is {wanted}",
        timeout_s=PATIENCE_S,
        detail=lambda: kube.kubectl("get", "pods,nodes,events", "-o", "wide"),
    )


def delete_pod(kube: Kubernetes, name: str, *, grace_s: int) -> None:
    status, answer = kube.api("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": grace_s})
    assert status in {200, 202}, answer


def test_the_version_is_the_one_that_was_requested(kubernetes: Kubernetes) -> None:
    status, answer = kubernetes.api("GET", "/version")
    assert (status, answer["gitVersion"]) == (200, kubernetes.version)
    assert kubernetes.version.startswith("v1.36.")
    assert kubernetes.version in kubernetes.kubectl("version")


def test_rbac_decides_and_the_extenders_account_starts_with_nothing(kubernetes: Kubernetes) -> None:
    assert kubernetes.api("GET", PODS)[0] == 200
    status, answer = kubernetes.api("GET", PODS, user=EXTENDER)
    assert status == 403
    assert EXTENDER in answer["message"]


def test_a_role_for_the_group_of_service_accounts_reaches_the_extender(kubernetes: Kubernetes) -> None:
    group = "system:serviceaccounts:slurm-extender"
    kubernetes.kubectl("create", "role", "reader", "--verb=get", "--resource=configmaps")
    kubernetes.kubectl("create", "rolebinding", "reader", "--role=reader", f"--group={group}")
    path = "/api/v1/namespaces/default/configmaps/none"
    wait_until(lambda: kubernetes.api("GET", path, user=EXTENDER)[0] == 404, "the role works", timeout_s=PATIENCE_S)
    kubernetes.kubectl("delete", "role,rolebinding", "reader")


def test_kube_scheduler_places_a_pod_and_kwok_runs_it(kubernetes: Kubernetes, default_scheduler: Daemon) -> None:
    create_pod(kubernetes, "placed")
    wait_phase(kubernetes, "placed", "Running")
    placed = pod(kubernetes, "placed")
    assert placed["spec"]["nodeName"] in {"node-1", "node-2", "node-3"}
    assert placed["status"]["podIP"]
    delete_pod(kubernetes, "placed", grace_s=0)


def test_a_pod_ends_as_its_annotation_says(kubernetes: Kubernetes) -> None:
    create_pod(kubernetes, "works", annotations={"lab.slurm-extender.io/run-for": "1s"}, nodeName="node-1")
    create_pod(kubernetes, "breaks", annotations={"lab.slurm-extender.io/fail-after": "1s"}, nodeName="node-1")
    wait_phase(kubernetes, "works", "Succeeded")
    wait_phase(kubernetes, "breaks", "Failed")
    [container] = pod(kubernetes, "breaks")["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 1
    for name in ("works", "breaks"):
        delete_pod(kubernetes, name, grace_s=0)


def test_a_pod_takes_its_grace_to_end_unless_it_says_otherwise(kubernetes: Kubernetes) -> None:
    create_pod(kubernetes, "slow", nodeName="node-2")
    create_pod(kubernetes, "quick", annotations={"lab.slurm-extender.io/stop-in": "1s"}, nodeName="node-2")
    for name in ("slow", "quick"):
        wait_phase(kubernetes, name, "Running")
    began = elapsed()
    for name in ("slow", "quick"):
        delete_pod(kubernetes, name, grace_s=4)
    assert phase(kubernetes, "slow") == "Running"
    wait_phase(kubernetes, "quick", "gone")
    assert phase(kubernetes, "slow") == "Running"
    wait_phase(kubernetes, "slow", "gone")
    # deletionTimestamp has whole seconds.
    assert elapsed() - began > 3


def test_controllers_make_pods(kubernetes: Kubernetes, default_scheduler: Daemon) -> None:
    kubernetes.kubectl("create", "deployment", "web", "--image=none", "--replicas=2")
    template = '{"spec":{"template":{"spec":{"automountServiceAccountToken":false}}}}'
    kubernetes.kubectl("patch", "deployment", "web", "--patch", template)
    kubernetes.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    kubernetes.kubectl("delete", "deployment", "web")


def test_kubectl_applies_a_kustomize_folder(kubernetes: Kubernetes, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("namePrefix: lab-\nresources: [map.yaml]\n")
    (tmp_path / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n")
    kubernetes.kubectl("apply", "-k", str(tmp_path))
    assert kubernetes.kubectl("get", "configmap", "lab-settings", "-o", "jsonpath={.data.a}") == "b"
    assert "name: lab-settings" in kubernetes.kubectl("kustomize", str(tmp_path))
    kubernetes.kubectl("delete", "-k", str(tmp_path))


def test_kubectl_that_fails_says_why(kubernetes: Kubernetes) -> None:
    with pytest.raises(LabError, match=r"kubectl get pod none failed \(1\): .*not found"):
        kubernetes.kubectl("get", "pod", "none")


def test_what_was_stored_survives_the_api_server(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("create", "configmap", "kept")
    kubernetes.kill_apiserver()
    with pytest.raises(OSError, match="refused"):
        kubernetes.api("GET", "/version")
    kubernetes.start_apiserver()
    kubernetes.restart_apiserver()
    kubernetes.kubectl("delete", "configmap", "kept")


@pytest.mark.slow
def test_nodes_whose_kubelets_die_are_not_ready_and_come_back(tmp_path: Path) -> None:
    taints: Sequence[dict[str, str]] = [{"key": "slurm", "value": "only", "effect": "NoSchedule"}]
    with Kubernetes(workdir=tmp_path) as kube:
        kube.add_node("node-1", gpus=4, labels={"rack": "r1"}, taints=taints)
        kube.wait_nodes_ready()
        kube.kwok.stop()
        wait_until(lambda: unreachable(kube, "node-1"), "the Node is unreachable", timeout_s=PATIENCE_S)
        kube.kwok.start()
        kube.wait_nodes_ready()
        _, node = kube.api("GET", "/api/v1/nodes/node-1")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert node["metadata"]["labels"]["rack"] == "r1"
        assert node["spec"]["taints"] == taints


def unreachable(kube: Kubernetes, name: str) -> bool:
    _, node = kube.api("GET", f"/api/v1/nodes/{name}")
    return "node.kubernetes.io/unreachable" in {taint["key"] for taint in node["spec"].get("taints", [])}


def test_users_and_the_audit_log_are_the_callers_choice(tmp_path: Path) -> None:
    users = [User("auditor", ("system:masters",))]
    with Kubernetes(workdir=tmp_path, users=users, audit=True, controllers=False) as kube:
        kube.add_node("node-1")
        kube.wait_nodes_ready()
        assert kube.api("GET", "/api/v1/nodes", user="auditor")[0] == 200
        requests = [event for event in kube.audit_events() if event["user"]["username"] == "auditor"]
        assert [event["verb"] for event in requests] == ["list"]


def test_without_an_audit_log_reading_it_is_an_error(kubernetes: Kubernetes) -> None:
    with pytest.raises(LabError, match=r"Kubernetes\(audit=True\)"):
        kubernetes.audit_events()
