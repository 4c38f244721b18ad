"""Permissions of the extender by the shipped manifests, and reviews of them with known answers."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from extender.kube.lease import NODE_LEASES
from simulator.kube.patch import apply_patch
from simulator.kube.rbac import ACCOUNT, NAMESPACE, Permission, Rbac, shipped
from tests.builders.kustomize import COMPONENTS, CORE, documents


@dataclass(frozen=True, slots=True)
class Question:
    """May the extender do this? `name` is "" for a collection, `namespace` for all and for cluster-wide kinds."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        parts = (self.verb, self.group, self.resource, self.subresource, self.name, self.namespace)
        return "-".join(filter(None, parts))

    @property
    def permission(self) -> Permission:
        """Return the permission as RBAC has it."""
        return Permission(self.verb, self.group, "/".join(filter(None, (self.resource, self.subresource))))


MAY = (
    Question("list", "pods"),
    Question("watch", "nodes"),
    Question("patch", "nodes"),
    Question("patch", "nodes", subresource="status"),
    Question("patch", "pods", namespace="anywhere"),
    Question("delete", "pods", namespace="anywhere"),
    Question("patch", "pods", namespace="anywhere", subresource="status"),
    Question("create", "pods", namespace="anywhere", subresource="binding"),
    Question("create", "pods", namespace="anywhere", subresource="eviction"),
    Question("create", "events", "events.k8s.io", "anywhere"),
    Question("get", "namespaces", name="kube-system"),
    Question("list", "namespaces"),
    Question("watch", "deviceclasses", "resource.k8s.io"),
    Question("get", "deployments", "apps", "anywhere"),
    Question("create", "leases", "coordination.k8s.io", NAMESPACE),
    Question("update", "leases", "coordination.k8s.io", NAMESPACE, "slurm-extender"),
    Question("patch", "leases", "coordination.k8s.io", NAMESPACE, "slurm-extender-checkpoints"),
    Question("get", "leases", "coordination.k8s.io", NODE_LEASES, "any-node"),
)
MAY_NOT = (
    Question("create", "pods", namespace="anywhere"),
    Question("get", "secrets", namespace=NAMESPACE),
    Question("list", "configmaps", namespace=NAMESPACE),
    Question("update", "nodes"),
    Question("delete", "nodes"),
    Question("get", "namespaces", name="default"),
    Question("list", "deployments", "apps"),
    Question("create", "pods", namespace="anywhere", subresource="exec"),
    Question("update", "leases", "coordination.k8s.io", NAMESPACE, "slurm-scheduler"),
    Question("create", "leases", "coordination.k8s.io", "anywhere"),
    Question("list", "leases", "coordination.k8s.io", NODE_LEASES),
    Question("update", "leases", "coordination.k8s.io", NODE_LEASES, "any-node"),
)


def namespaced_rights(*components: str) -> Rbac:
    """Return the extender's with components that patch the rights of the core, in this order, without kustomize."""
    found = documents(CORE / "rbac-extender.yaml")
    for component in components:
        [kustomization] = documents(COMPONENTS / component / "kustomization.yaml")
        found += [
            one for name in kustomization.get("resources", ()) for one in documents(COMPONENTS / component / name)
        ]
        for patch in kustomization["patches"]:
            for one in found if "patch" in patch else ():
                where = one["metadata"].get("namespace", "")
                known = {"kind": one["kind"], "name": one["metadata"]["name"], "namespace": where}
                if patch["target"].items() <= known.items():
                    one |= apply_patch(one, yaml.safe_load(patch["patch"]), "application/json-patch+json")
    return Rbac.of(found, ACCOUNT, NAMESPACE)


def shipped_rights(*components: str) -> Rbac:
    """Return the extender's, with those of components."""
    found = shipped(*components)
    assert found is not None
    return found
