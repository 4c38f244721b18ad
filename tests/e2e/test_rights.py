"""Every right that the manifests give is used on a real API server, and nobody asks for what they do not give.

The API server's own audit log tells who asked what, and whether it was allowed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.domain.wellknown import UNAVAILABLE_TAINT
from lab import manifests
from lab.credentials import ADMIN, CERTIFICATES, EXTENDER
from lab.pods import STOP_IN, pod
from lab.site import PodRef, Site
from simulator.kube.rbac import NAMESPACE, Rbac
from tests.builders.audited_requests import given, refused, requests_during, requests_of, unused
from tests.builders.config_map import MountedConfigMap
from tests.builders.stage import Stage
from tests.e2e.test_mutual_tls import certificates

pytestmark = [pytest.mark.audited, pytest.mark.modes("batch")]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "gone", "effect": "NoExecute"}
OVERLAYS = manifests.BASE.parent / "overlays"
KUBECTL_SLURM = Path(sys.executable).parent / "kubectl-slurm"


# The extender


def kind_of_others(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    """A custom resource of which only the name matters."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


OF_OTHERS = (
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
)
LABELS = {"app": "owned"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "none"}], "nodeSelector": {"e2e/none": "x"}},
}
ONCE: dict[str, Any] = {"metadata": {}, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTS = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
OWNERS: tuple[tuple[str, str, str, dict[str, Any], str], ...] = (
    (
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        {"selector": LABELS, "replicas": 0, "template": TEMPLATE},
        "",
    ),
    ("apps/v1", "DaemonSet", "daemonsets", SELECTS, ""),
    ("apps/v1", "Deployment", "deployments", {**SELECTS, "replicas": 0, "paused": True}, ""),
    ("apps/v1", "ReplicaSet", "replicasets", {**SELECTS, "replicas": 0}, "Deployment"),
    ("apps/v1", "StatefulSet", "statefulsets", {**SELECTS, "serviceName": "s", "replicas": 0}, ""),
    (
        "batch/v1",
        "CronJob",
        "cronjobs",
        {"schedule": "@yearly", "suspend": True, "jobTemplate": {"spec": {"template": ONCE}}},
        "",
    ),
    ("batch/v1", "Job", "jobs", {"suspend": True, "template": ONCE}, "CronJob"),
    *((f"{group}/{version}", kind, plural, {}, "") for group, version, kind, plural in OF_OTHERS),
)
"""Kinds that make Pods, with a spec that makes none, and the kind of the owner above."""


def reference(owner: dict[str, Any], api_version: str, kind: str) -> list[dict[str, Any]]:
    meta = owner["metadata"]
    return [{"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}]


def owned_pods(stage: Stage) -> None:
    """A Pod of every kind of owner whose annotations count."""
    site, above = stage.site, {one[4] for one in OWNERS}
    owners: dict[str, list[dict[str, Any]]] = {}
    for api_version, kind, plural, spec, of in OWNERS:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        meta: dict[str, Any] = {"name": "owner", "labels": LABELS, **({"ownerReferences": owners[of]} if of else {})}
        body = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
        owner = site.create(f"{root}/namespaces/{stage.namespace}/{plural}", body)
        owners[kind] = reference(owner, api_version, kind)
    for kind in owners.keys() - above:
        owned = pod(f"of-{kind.lower()}", stage.namespace, annotations=stage.annotations())
        owned["metadata"]["ownerReferences"] = owners[kind]
        one = site.create(f"/api/v1/namespaces/{stage.namespace}/pods", owned)
        site.bound(PodRef(stage.namespace, one["metadata"]["name"], one["metadata"]["uid"]))


def ended_pods(stage: Stage) -> None:
    """One by eviction; one that somebody ends slowly, hurried when Slurm wants its node; one removed by force."""
    site, family = stage.site, stage.family
    evicted = stage.pod("evicted", annotations={STOP_IN: "1s"})
    hurried = stage.pod("hurried", partition=family.preemptable, cpus=8, grace_s=120)
    removed = stage.pod("removed")
    for ref in (evicted, hurried, removed):
        site.bound(ref)
    stage.cancel(stage.job(evicted).job_id)
    site.delete(hurried)
    stage.submit(family.urgent, cpus=8)
    node = site.node_of(removed)
    site.kube.api("DELETE", f"{removed.path}?gracePeriodSeconds=0")
    site.wait_for(lambda: stage.drained(), "the node of the removed Pod is held")
    site.patch_node(node, {"spec": {"taints": [OUT_OF_SERVICE]}})
    try:
        for ref in (evicted, hurried):
            site.gone(ref, timeout_s=60)
        site.wait_for(lambda: not stage.drained(), "a person's word lets it go")
    finally:
        site.patch_node(node, {"spec": {"taints": None}})


def marked_node(stage: Stage) -> None:
    """A person's drain comes to the Node, as condition, taint and cordon, and goes with the drain."""
    site, node = stage.site, stage.family.nodes[-1]

    def marks() -> list[Any]:
        spec = site.kube.api("GET", f"/api/v1/nodes/{node}")[1]["spec"]
        return [*(taint["key"] for taint in spec.get("taints", ())), spec.get("unschedulable")]

    site.slurm.run("scontrol", "update", f"nodename={node}", "state=drain", "reason=bad disk")
    try:
        site.wait_for(lambda: {UNAVAILABLE_TAINT, True} <= set(marks()), "the Node is marked")
    finally:
        site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    site.wait_for(lambda: marks() == [None], "the marks go")


def reported_twice(stage: Stage) -> None:
    """A Pod whose author makes the same mistake again."""
    ref = stage.pod("mistaken", annotations={"slurm-extender.io/time-limit": "soon"})
    stage.site.event(ref, "InvalidSlurmSettings")
    for wrong in ("never", "soon"):
        stage.site.annotate(ref, {"slurm-extender.io/time-limit": wrong})
        stage.site.wait_for(partial(with_log_context, stage, ref, wrong), "it is told")


def with_log_context(stage: Stage, ref: PodRef, wrong: str) -> bool:
    return any(f'"{wrong}"' in text for _, text in stage.site.events(ref))


@contextmanager
def everything_wanted(site: Site) -> Iterator[None]:
    """A configuration with all that needs a right of its own."""
    policy = MountedConfigMap(site.home / "policy-of-rights", "policy.yaml")
    policy.holds("{apiVersion: slurm-extender.io/v1alpha1, kind: PodPolicy, rules: []}")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/slurm-extender"
    site.kube.api("DELETE", lease)
    for one in OF_OTHERS:
        site.create(CRDS, kind_of_others(*one))
        site.kube.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/{one[3]}.{one[0]}")
    site.reconfigure(
        {"jobs": {"policyFile": str(policy.file)}},
        {"nodes": {"unavailableTaint": {"effect": "NoSchedule"}, "unavailableCordon": True}},
        {"leaderElection": {"enabled": True, "identity": "rights"}},
    )
    try:
        yield
    finally:
        site.reconfigure()
        site.kube.api("DELETE", lease)
        for group, _, _, plural in OF_OTHERS:
            site.kube.api("DELETE", f"{CRDS}/{plural}.{group}")


def counted_up(stage: Stage) -> bool:
    said = requests_of(EXTENDER, stage.site.kube.audit_events())
    return any((one.verb, one.resource, one.namespace) == ("patch", "events", stage.namespace) for one in said)


def test_every_right_of_the_extender_is_used_and_it_needs_no_other(stage: Stage) -> None:
    site = stage.site
    with requests_during(site, EXTENDER) as requests, everything_wanted(site):
        reported_twice(stage)
        owned_pods(stage)
        ended_pods(stage)
        marked_node(stage)
        site.wait_for(lambda: counted_up(stage), "an Event is counted up", timeout_s=90, every_s=2)
    # The extender asks about no kind that the API server does not serve: DeviceClasses come with Kubernetes 1.34.
    has_devices = site.kube.api("GET", "/apis/resource.k8s.io/v1")[0] == 200
    spare = [one for one in unused(given(site, EXTENDER), requests) if has_devices or one.group != "resource.k8s.io"]
    assert spare == []
    assert refused(requests) == []


@contextmanager
def rights_in_one_namespace(stage: Stage) -> Iterator[None]:
    """The extender serves one namespace, and reads Pods there alone by the Roles of the components."""
    site = stage.site
    site.reconfigure({"scope": {"namespaces": [stage.namespace], "readPods": "namespaces"}})
    components = ["namespaced-rights", "namespaced-reads", f"kubernetes-{site.kube.minor}"]
    documents = manifests.render(site.kube, components=components)
    moved = [one for one in documents if one["metadata"].get("namespace") == "default"]
    here = deepcopy(moved)
    for one in here:
        one["metadata"]["namespace"] = stage.namespace
    of_pods = [one for one in moved if one["metadata"]["name"] == "slurm-extender-pods"]
    manifests.apply_rights(site.kube, [*(one for one in documents if one not in of_pods), *here])
    try:
        yield
    finally:
        manifests.apply_rights(site.kube, manifests.shipped(site.kube))
        for one in (*here, *(one for one in moved if one not in of_pods)):
            where, meta = f"{RBAC}/namespaces/{one['metadata']['namespace']}", one["metadata"]
            site.kube.api("DELETE", f"{where}/{one['kind'].lower()}s/{meta['name']}")
        site.reconfigure()


def test_pods_of_one_namespace_are_served_without_a_right_on_others(stage: Stage) -> None:
    site = stage.site
    with rights_in_one_namespace(stage), requests_during(site, EXTENDER) as requests:
        site.restart_extender()
        ref = stage.pod("served")
        site.bound(ref)
        stage.cancel(stage.job(ref).job_id)
        site.gone(ref, timeout_s=60)
    of_pods = {(one.verb, one.namespace) for one in requests if one.resource == "pods"}
    assert {("list", stage.namespace), ("watch", stage.namespace)} <= of_pods
    assert {where for _, where in of_pods} == {stage.namespace}
    assert refused(requests) == []


# Certificates


def test_every_right_of_who_makes_certificates_is_used(site: Site) -> None:
    folder = OVERLAYS / "gate-webhook"
    documents = manifests.shipped(site.kube, folder)
    manifests.apply_rights(site.kube, documents)
    told = manifests.of_kind(documents, ["Deployment", "MutatingWebhookConfiguration"])
    for one in told:
        if one["kind"] == "Deployment":
            one["spec"]["replicas"] = 0
    site.kube.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(told))
    secrets = ["slurm-extender-ca", "slurm-extender-tls", "slurm-scheduler-tls", "slurm-extender-webhook-tls"]
    where = ["-n", NAMESPACE, "delete", "secrets", "--ignore-not-found", *secrets]
    site.kube.kubectl(*where)
    try:
        with requests_during(site, CERTIFICATES) as requests:
            certificates(site)
            certificates(site, "--renew")
    finally:
        site.kube.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(told))
        site.kube.kubectl(*where)
    assert unused(given(site, CERTIFICATES, folder), requests) == []
    assert refused(requests) == []


# People

VIEWER = "a-viewer"


@contextmanager
def viewer(stage: Stage) -> Iterator[None]:
    """A user who has the ClusterRole for users, and no other right."""
    binding = {
        "metadata": {"name": f"view-{stage.namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slurm-extender-view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER}],
    }
    stage.site.create(f"{RBAC}/clusterrolebindings", binding)
    try:
        yield
    finally:
        stage.site.kube.api("DELETE", f"{RBAC}/clusterrolebindings/view-{stage.namespace}")


def kubectl_slurm(stage: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = str(stage.site.kube.kubeconfig_for(ADMIN))
    command = [str(KUBECTL_SLURM), *words, "--kubeconfig", kubeconfig, "-n", stage.namespace, "--as", VIEWER]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_who_may_view_needs_each_right_of_it_and_has_no_more(stage: Stage) -> None:
    site, node = stage.site, stage.family.tiny_node
    runs = stage.pod("runs")
    site.bound(runs)
    shows = (("status",), ("jobs",), ("jobs", "-A"), ("nodes",), ("nodes", node), ("why", "runs"), ("history", "runs"))
    with viewer(stage), requests_during(site, VIEWER) as requests:
        for words in shows:
            done = kubectl_slurm(stage, *words)
            assert done.returncode == 0, done.stderr
        done = kubectl_slurm(stage, "drain", node)
        assert done.returncode == 1, done.stdout
        assert f'nodes "{node}" is forbidden' in done.stderr
    [role] = [one for one in manifests.shipped(site.kube) if one["metadata"]["name"] == "slurm-extender-view"]
    account = {"kind": "ServiceAccount", "name": VIEWER, "namespace": NAMESPACE}
    reference = {"kind": "ClusterRole", "name": role["metadata"]["name"]}
    binding = {"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, "roleRef": reference, "subjects": [account]}
    assert unused(Rbac.of([role, binding], VIEWER, NAMESPACE), requests) == []
    # Asked for what it may not have, it says so.
    assert {(one.verb, one.resource) for one in refused(requests)} == {("patch", "nodes")}
    assert json.loads(site.kube.kubectl("get", "node", node, "-o", "json"))["spec"].get("unschedulable") is None
