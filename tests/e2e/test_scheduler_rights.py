"""kube-scheduler by the shipped profile, word by word: what the manifests let it do beyond its own role is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import manifests
from lab.process import Daemon
from lab.site import Site
from simulator.kube.rbac import NAMESPACE, Rbac
from tests.builders.audited_requests import refused, requests_during, rights_of, unused
from tests.builders.stage import Stage

pytestmark = [pytest.mark.audited, pytest.mark.modes("batch")]

SCHEDULER = "system:serviceaccount:slurm-extender:slurm-scheduler"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@contextmanager
def elected_scheduler(site: Site) -> Iterator[Daemon]:
    """kube-scheduler by the shipped profile, word by word but for addresses: it leads by its own Lease."""
    documents = manifests.shipped(site.kube)
    url = f"http://127.0.0.1:{site.addresses.scheduling}/scheduler"
    profile = manifests.scheduler_profile(documents, url, elected=True)
    account, gates = manifests.scheduler_deployment(documents)
    site.scheduler.stop()
    try:
        daemon = site.kube.start_scheduler(profile, user=account, feature_gates=gates, name="slurm-scheduler-elected")
        try:
            yield daemon
        finally:
            daemon.stop()
    finally:
        site.scheduler.start()


CORE, STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
SIZE = {"requests": {"storage": "1Gi"}}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/none"}}


@contextmanager
def volume_claims(stage: Stage) -> Iterator[list[str]]:
    """A PersistentVolumeClaim for which a volume waits, and one for which a volume is made once a node is chosen."""
    site, kube = stage.site, stage.site.kube
    folder = f"{CORE}/namespaces/{stage.namespace}/persistentvolumeclaims"
    for name in ("there", "made"):
        own = f"{stage.namespace}-{name}"
        provisioner = "kubernetes.io/no-provisioner" if name == "there" else "e2e/provisioner"
        body = {"metadata": {"name": own}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        site.create(f"{STORAGE}/storageclasses", body)
        spec = {"storageClassName": own, "accessModes": ["ReadWriteOnce"], "resources": SIZE}
        site.create(folder, {"metadata": {"name": name}, "spec": spec})
    there = f"{stage.namespace}-there"
    volume = {"metadata": {"name": there}, "spec": {**VOLUME, "storageClassName": there}}
    site.create(f"{CORE}/persistentvolumes", volume)
    # As kube-controller-manager does: kube-scheduler gives away no other (`component-helpers`, FindMatchingVolume).
    path = f"{CORE}/persistentvolumes/{there}/status"
    kube.api("PATCH", path, {"status": {"phase": "Available"}}, content_type="application/merge-patch+json")
    try:
        yield ["there", "made"]
    finally:
        for name in ("there", "made"):
            own = f"{stage.namespace}-{name}"
            kube.api("DELETE", f"{STORAGE}/storageclasses/{own}")
            kube.api("DELETE", f"{folder}/{name}")
            kube.api("DELETE", f"{CORE}/persistentvolumes/{own}")


def provided(stage: Stage, name: str) -> None:
    """Give the PersistentVolumeClaim its volume, as a controller and a provisioner do after kube-scheduler."""
    site, own = stage.site, f"{stage.namespace}-{name}"
    path = f"{CORE}/namespaces/{stage.namespace}/persistentvolumeclaims/{name}"
    if name == "made":
        site.wait_for(
            lambda: (
                "volume.kubernetes.io/selected-node" in site.kube.api("GET", path)[1]["metadata"].get("annotations", {})
            ),
            "a node is chosen for the PersistentVolumeClaim",
        )
        uid = site.kube.api("GET", path)[1]["metadata"]["uid"]
        bound_to = {"kind": "PersistentVolumeClaim", "namespace": stage.namespace, "name": name, "uid": uid}
        spec = {**VOLUME, "storageClassName": own, "claimRef": bound_to}
        site.create(f"{CORE}/persistentvolumes", {"metadata": {"name": own}, "spec": spec})
    else:
        site.wait_for(
            lambda: site.kube.api("GET", f"{CORE}/persistentvolumes/{own}")[1]["spec"].get("claimRef"),
            "the volume is given to the PersistentVolumeClaim",
        )
    patch = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": own}}
    site.kube.api("PATCH", path, patch, content_type="application/merge-patch+json")


USUAL = "system:kube-scheduler"


def given_by_each_binding(site: Site) -> dict[str, Rbac]:
    """What the shipped bindings give to kube-scheduler, by the name of the role, as this Kubernetes has it."""
    found = {}
    for binding in manifests.shipped(site.kube):
        if {"slurm-scheduler"} == {who["name"] for who in binding.get("subjects", ())}:
            kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
            within = f"/namespaces/{binding['metadata']['namespace']}" if kind == "Role" else ""
            status, role = site.kube.api("GET", f"{RBAC}{within}/{kind.lower()}s/{name}")
            assert status == 200, role
            found[name] = Rbac.of([{**role, "kind": kind}, binding], "slurm-scheduler", NAMESPACE)
    return found


def test_every_role_that_kube_scheduler_is_given_besides_its_own_is_needed(stage: Stage) -> None:
    """Of a role of Kubernetes' own not every verb is used by every version: which ones is kube-scheduler's affair."""
    site = stage.site
    with requests_during(site, SCHEDULER) as requests, elected_scheduler(site), volume_claims(stage) as names:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        ref = stage.pod("stores", volumes=volumes)
        for name in names:
            provided(stage, name)
        site.bound(ref, timeout_s=60)
        site.delete(ref)
        site.gone(ref)
    assert refused(requests) == []

    by_role = given_by_each_binding(site)
    assert unused(by_role["slurm-scheduler"], requests) == []
    usual = by_role.pop(USUAL)
    for name, rbac in by_role.items():
        beyond = {one for one in rights_of(rbac) if not usual.allows(one.permission, one.namespace, one.name)}
        assert any(right.used(requests) for right in beyond), f"nothing of {name} was needed"
