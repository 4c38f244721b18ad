"""`kubectl slurm` as kubectl runs it: found in the PATH, with kubectl's flags and completion, by its roles alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.site import PodRef
from tests.builders.stage import Stage

PROGRAMS = Path(sys.executable).parent
EXTENDER = "slurm-extender"
"""Its namespace, and the label of its Pods."""


class Kubectl:
    """Runs the site's own kubectl, which finds the plugin in the PATH."""

    def __init__(self, stage: Stage) -> None:
        kube = stage.site.kube
        self._program = kube.kubectl_path
        self._environment = {
            "PATH": os.pathsep.join([str(PROGRAMS), str(kube.kubectl_path.parent), os.environ["PATH"]]),
            "KUBECONFIG": str(kube.kubeconfig),
            "HOME": str(kube.home),
        }

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.tried(*words)
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Whatever comes of it."""
        return subprocess.run(
            [self._program, *words], env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture
def kubectl(stage: Stage) -> Kubectl:
    return Kubectl(stage)


@pytest.fixture
def extender_pod(stage: Stage) -> Iterator[str]:
    """A Pod in the extender's namespace that stands for the process: a port of it leads to that one's loopback."""
    with pod_of_the_extender(stage) as name:
        yield name


@contextmanager
def pod_of_the_extender(stage: Stage) -> Iterator[str]:
    """The name of such a Pod, for as long as the block lasts."""
    site, name = stage.site, f"{EXTENDER}-{stage.namespace}"
    path = f"/api/v1/namespaces/{EXTENDER}/pods"
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": EXTENDER}},
        "spec": {
            "nodeName": site.topology.kube_nodes[0].name,
            "automountServiceAccountToken": False,
            # The namespace asks for the restricted profile.
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "extender",
                    "image": "none",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
    status, answer = site.kube.api("POST", path, body)
    assert status == 201, answer

    def ready() -> bool:
        found = site.kube.api("GET", f"{path}/{name}")[1].get("status", {}).get("conditions", ())
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found)

    site.wait_for(ready, "the Pod of the extender is Ready")
    try:
        yield name
    finally:
        site.kube.api("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
        site.wait_for(lambda: site.kube.api("GET", f"{path}/{name}")[0] == 404, "the Pod of the extender is gone")


def bound(stage: Stage, user: str, role: str, namespace: str = "") -> None:
    """Give a user a role of the manifests: everywhere, or in one namespace that has a Role of that name."""
    rbac = "rbac.authorization.k8s.io"
    body: dict[str, Any] = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": f"{user}-{role}-{stage.namespace}"} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": rbac, "kind": "Role" if namespace else "ClusterRole", "name": role},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    stage.site.apply(json.dumps(body))


def a_pod_that_runs(stage: Stage) -> PodRef:
    ref = stage.pod("web")
    stage.site.bound(ref)
    return ref


@pytest.mark.modes("batch", slow=("24.11",))
def test_kubectl_runs_it_with_flags_where_its_users_write_them(stage: Stage, kubectl: Kubectl) -> None:
    a_pod_that_runs(stage)
    context = yaml.safe_load(Path(stage.site.kube.kubeconfig).read_text())["current-context"]
    there = ("-n", stage.namespace)
    for words in (
        ("slurm", "why", "web", *there),
        ("slurm", *there, "why", "web"),
        ("slurm", "--context", context, "why", "pod/web", *there),
        ("slurm", "why", f"{stage.namespace}/web"),
    ):
        assert kubectl(*words).stdout.startswith(f"{stage.namespace}/web: It does not wait: Slurm job ")
    assert stage.namespace in kubectl("slurm", "jobs", "-A", "--no-headers").stdout
    assert kubectl("slurm", "jobs", *there, "-o", "name").stdout == "pod/web\n"
    assert kubectl("slurm", "jobs", *there, "-l", "app=none").stdout == ""
    assert "there is no Pod nobody" in kubectl("slurm", "why", "nobody", *there, code=1).stderr
    assert 'contexts has no "none"' in kubectl("slurm", "jobs", "--context", "none", code=2).stderr


@pytest.mark.modes("batch", slow=("24.11",))
def test_kubectl_completes_commands_pods_and_nodes(stage: Stage, kubectl: Kubectl) -> None:
    a_pod_that_runs(stage)

    def offered(*words: str) -> list[str]:
        return [line.partition("\t")[0] for line in kubectl("__complete", *words).stdout.splitlines()]

    assert {"status", "history"} <= {*offered("slurm", "st"), *offered("slurm", "hi")}
    assert offered("slurm", "-n", stage.namespace, "why", "w")[0] == "web"
    assert stage.family.tiny_node in offered("slurm", "drain", "")
    assert stage.namespace in offered("slurm", "jobs", "-n", stage.namespace[:3])


@pytest.mark.modes("batch", slow=("24.11",))
def test_the_extenders_loopback_interface_is_reached_through_the_api_server_by_its_role_alone(
    stage: Stage, kubectl: Kubectl, extender_pod: str
) -> None:
    a_pod_that_runs(stage)
    user = f"viewer-{stage.namespace}"
    bound(stage, user, "slurm-extender-view")
    story = ("slurm", "history", "web", "-n", stage.namespace, "--as", user)
    refused = kubectl(*story)
    assert "slurm-extender-debug" in refused.stderr
    assert "-> BOUND" not in refused.stdout
    assert "is on Node" in refused.stdout
    bound(stage, user, "slurm-extender-debug", EXTENDER)
    stage.site.wait_for(lambda: not kubectl(*story).stderr, "the right counts", every_s=1)
    assert "-> BOUND" in kubectl(*story).stdout
    # Its exit code is 1: the partitions of the lab lack what a fence needs.
    assert "polled" in kubectl.tried("slurm", "status", "--as", user).stdout
    assert kubectl("slurm", "orphans", "--as", user).stderr == "no orphan\n"
    (node,) = json.loads(kubectl("slurm", "nodes", stage.family.tiny_node, "--as", user, "-o", "json").stdout)
    assert node["slurmState"]
    wrong = kubectl("slurm", "nodes", "--extender-namespace", "default", "--as", user)
    assert wrong.stderr.count("\n") == 1
    assert extender_pod not in wrong.stderr


@pytest.mark.modes("batch", slow=("24.11",))
def test_drain_says_what_for_in_slurm_and_resume_undoes_no_more(stage: Stage, kubectl: Kubectl) -> None:
    site, node, user = stage.site, stage.family.tiny_node, f"operator-{stage.namespace}"
    bound(stage, user, "slurm-extender-operate")
    acting = ("--as", user)
    tried = ("slurm", "drain", node, "--dry-run=server", *acting)
    site.wait_for(lambda: kubectl.tried(*tried).returncode == 0, "the right counts", every_s=1)
    assert not site.kube.api("GET", f"/api/v1/nodes/{node}")[1]["spec"].get("unschedulable")
    other = {"metadata": {"uid": "of-another-node"}, "spec": {"unschedulable": True}}
    status, _ = site.kube.api("PATCH", f"/api/v1/nodes/{node}", other, content_type="application/merge-patch+json")
    assert status == 422  # what drain sends is never for another Node of the name
    try:
        kubectl("slurm", "drain", node, "--reason", "bad disk", *acting)
        site.wait_for(lambda: [one for one in stage.drained() if "(bad_disk)" in one], "Slurm has it", timeout_s=20)
        assert "unchanged" in kubectl("slurm", "drain", node, *acting).stdout
    finally:
        kubectl("slurm", "resume", node, *acting)
    site.wait_for(lambda: not stage.drained(), "it is resumed", timeout_s=30)
    said = site.kube.api("GET", f"/api/v1/nodes/{node}")[1]["metadata"]["annotations"]
    assert "slurm-extender.io/drain-reason" not in said
    kubectl("cordon", node)
    try:
        assert "not cordoned by" in kubectl("slurm", "resume", node, *acting, code=1).stderr
    finally:
        kubectl("uncordon", node)
    site.wait_for(lambda: not stage.drained(), "it is resumed", timeout_s=30)
