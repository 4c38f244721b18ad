"""Rights are no wider than the work, and containers can do no more than run their program."""

from __future__ import annotations

import re
from typing import Any

import pytest

from extender import __version__
from extender.kube.lease import NODE_LEASES
from tests.builders.kustomize import BASE, ROOT, documents, of_kind, pod_spec, render

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
    for_people = {"slurm-extender-view"}  # bound by whoever installs it, to whom they like
    assert ours["Role"] | ours["ClusterRole"] <= used | for_people
    assert not for_people & used


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


# The image.

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())


def instructions(name: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def test_the_image_does_not_run_as_root() -> None:
    last_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    [user] = re.findall(r"^USER (.+)$", last_stage, re.MULTILINE)
    uid = pod_spec("slurm-extender")["securityContext"]["runAsUser"]
    assert user == f"{uid}:{uid}"


def test_the_image_holds_what_the_lock_says() -> None:
    [install] = [line for line in instructions("RUN") if " install " in line]
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    lock = (ROOT / "requirements.lock").read_text()
    packages = re.findall(r"^[a-z0-9][^ ;]*==", lock, re.MULTILINE | re.IGNORECASE)
    assert len(packages) > 20
    assert lock.count("--hash=sha256:") >= len(packages)


def test_the_last_stage_gets_the_environment_and_nothing_else() -> None:
    last_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    copies = re.findall(r"^(?:COPY|ADD) (.+)$", last_stage, re.MULTILINE)
    assert copies == ["--from=environment /opt/slurm-extender /opt/slurm-extender"]
    assert not re.findall(r"^RUN ", last_stage, re.MULTILINE)


def test_the_image_starts_the_program_that_the_deployment_gives_arguments_to() -> None:
    assert instructions("ENTRYPOINT") == ['["/opt/slurm-extender/bin/python", "-m", "extender"]']
    [command] = instructions("CMD")
    assert command == '["serve", "--config=/etc/slurm-extender/config/config.yaml"]'
    assert pod_spec("slurm-extender")["containers"][0]["args"] == [
        "serve",
        "--config=/etc/slurm-extender/config/config.yaml",
    ]


def test_the_image_says_what_it_is() -> None:
    [label] = instructions("LABEL")
    for key in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{key}=" in label


def test_images_are_named_without_a_registry() -> None:
    names = [container["image"] for deployment in DEPLOYMENTS for container in pod_spec(deployment)["containers"]]
    assert names == ["slurm-extender", "kube-scheduler"]
    assert all("/" not in name.split(" ")[0] for name in instructions("FROM"))


def test_only_what_the_image_needs_is_sent_to_the_builder() -> None:
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    first_stage = DOCKERFILE.rsplit("\nFROM ", 1)[0]
    assert {line.split()[0] for line in re.findall(r"^COPY (.+)$", first_stage, re.MULTILINE)} == allowed


def test_image_and_manifests_carry_the_version_of_the_program() -> None:
    [kustomization] = documents(BASE / "kustomization.yaml")
    tags = {image["name"]: image["newTag"] for image in kustomization["images"]}
    assert tags["slurm-extender"] == __version__
    assert f"VERSION={__version__}" in instructions("ARG")
