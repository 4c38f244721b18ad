"""Rights are no wider than the work, and containers can do no more than run their program."""

from __future__ import annotations

from typing import Any

import pytest

from extender.kube.lease import NODE_LEASES
from lab.credentials import EXTENDER, default_users, service_account
from lab.manifests import RIGHTS
from tests.builders.kustomize import of_kind, pod_spec, render

DEPLOYMENTS = ["slurm-extender", "slurm-scheduler"]

EXTENDER_RIGHTS = {
    ("", "pods"): {"get", "list", "watch", "patch", "delete"},
    ("", "pods/status"): {"patch"},
    ("", "pods/binding"): {"create"},
    ("", "pods/eviction"): {"create"},
    ("", "nodes"): {"get", "list", "watch", "patch"},
    ("", "nodes/status"): {"patch"},
    ("", "namespaces"): {"get", "list", "watch"},
    ("resource.k8s.io", "deviceclasses"): {"list", "watch"},
    ("events.k8s.io", "events"): {"create", "patch"},
    ("", "replicationcontrollers"): {"get"},
    ("apps", "daemonsets"): {"get"},
    ("apps", "deployments"): {"get"},
    ("apps", "replicasets"): {"get"},
    ("apps", "statefulsets"): {"get"},
    ("batch", "cronjobs"): {"get"},
    ("batch", "jobs"): {"get"},
    ("jobset.x-k8s.io", "jobsets"): {"get"},
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): {"get"},
}


def rights(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_the_extender_has_exactly_these_rights() -> None:
    assert rights(of_kind("ClusterRole")["slurm-extender"]) == EXTENDER_RIGHTS


def test_no_role_has_a_wildcard_or_sees_secrets() -> None:
    for kind in ("ClusterRole", "Role"):
        for role in of_kind(kind).values():
            for (group, resource), verbs in rights(role).items():
                assert "*" not in {group, resource, *verbs}
                assert resource.partition("/")[0] not in {"secrets", "configmaps", "serviceaccounts"}


BUILT_IN = {"kube-scheduler": 800, "service-accounts": 9000}
"""Precedence of FlowSchemas of Kubernetes (`apiserver/pkg/apis/flowcontrol/bootstrap/default.go`)."""


def test_every_request_of_both_programs_has_the_priority_of_kubernetes_own_scheduler() -> None:
    [schema] = of_kind("FlowSchema").values()
    spec = schema["spec"]
    assert spec["priorityLevelConfiguration"]["name"] == "workload-high"
    # A flow of each: a burst of one delays the other as little as any other user of the level.
    assert spec["distinguisherMethod"]["type"] == "ByUser"
    # A lower number wins: without this schema the one of all ServiceAccounts has them, in the level of tenants' own.
    assert BUILT_IN["kube-scheduler"] < spec["matchingPrecedence"] < BUILT_IN["service-accounts"]
    [rule] = spec["rules"]
    named = {(one["serviceAccount"]["namespace"], one["serviceAccount"]["name"]) for one in rule["subjects"]}
    assert named == {("slurm-extender", pod_spec(name)["serviceAccountName"]) for name in DEPLOYMENTS}
    [every] = rule["resourceRules"]
    assert every == {
        "apiGroups": ["*"],
        "resources": ["*"],
        "verbs": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }


def test_the_lab_gives_its_extender_the_same_priority() -> None:
    assert "FlowSchema" in RIGHTS
    [rule] = of_kind("FlowSchema")["slurm-extender"]["spec"]["rules"]
    accounts = [one["serviceAccount"] for one in rule["subjects"]]
    names = {service_account(one["namespace"], one["name"]).name for one in accounts}
    assert EXTENDER in names
    assert names <= {user.name for user in default_users()}


def test_bindings_name_roles_and_accounts_that_exist() -> None:
    ours = {kind: set(of_kind(kind)) for kind in ("Role", "ClusterRole", "ServiceAccount")}
    built_in = {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    bindings = [one for one in render() if one["kind"].endswith("RoleBinding")]
    for binding in bindings:
        role = binding["roleRef"]
        assert (role["kind"], role["name"]) in built_in or role["name"] in ours[role["kind"]]
        for subject in binding["subjects"]:
            assert subject["kind"] == "ServiceAccount"
            assert subject["name"] in ours["ServiceAccount"]
            assert subject["namespace"] == "slurm-extender"
    used = {binding["roleRef"]["name"] for binding in bindings}
    # Bound by whoever installs it, to whom they like.
    for_people = {"slurm-extender-view", "slurm-extender-operate", "slurm-extender-debug"}
    assert ours["Role"] | ours["ClusterRole"] <= used | for_people
    assert not for_people & used


def test_who_may_read_debug_may_do_so_in_the_extenders_namespace_alone() -> None:
    role = of_kind("Role")["slurm-extender-debug"]
    assert role["metadata"]["namespace"] == "slurm-extender"
    assert rights(role)["", "pods/portforward"] == {"get", "create"}
    for other in of_kind("ClusterRole").values():
        assert ("", "pods/portforward") not in rights(other)


def test_the_extender_is_bound_to_its_own_roles_alone() -> None:
    for one in render():
        if one["kind"].endswith("RoleBinding") and {"slurm-extender"} == {s["name"] for s in one["subjects"]}:
            assert one["roleRef"]["name"] in {"slurm-extender", "slurm-extender-node-leases"}


def test_of_the_nodes_leases_the_extender_reads_one_at_a_time() -> None:
    role = of_kind("Role")["slurm-extender-node-leases"]
    assert role["metadata"]["namespace"] == NODE_LEASES
    assert rights(role) == {("coordination.k8s.io", "leases"): {"get"}}


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_pods_run_unprivileged(deployment: str) -> None:
    spec = pod_spec(deployment)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["enableServiceLinks"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert all("hostPath" not in volume for volume in spec["volumes"])


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_pods_say_what_they_need_and_how_they_are(deployment: str) -> None:
    for container in pod_spec(deployment)["containers"]:
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert {"livenessProbe", "readinessProbe"} <= container.keys()


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_pods_run_as_accounts_of_their_own(deployment: str) -> None:
    assert pod_spec(deployment)["serviceAccountName"] == deployment
    assert of_kind("ServiceAccount")[deployment]["automountServiceAccountToken"] is False


def test_the_namespace_enforces_it() -> None:
    labels = of_kind("Namespace")["slurm-extender"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_no_secret_is_shipped() -> None:
    assert of_kind("Secret") == {}
