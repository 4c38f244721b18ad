"""What the extender's account may do: every verb of the shipped ClusterRole and Roles, and what each is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, wrong

CHECK = "rights"

NODE_LEASES = "kube-node-lease"
OWN = "{namespace}"
"""Stands for the namespace of the extender, and `{lease}` for the name of its Lease."""


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (`pods/status`). `namespace` "": everywhere. `purpose`: what does not work without it."""

    verb: str
    group: str
    resource: str
    purpose: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{f' {self.name}' if self.name else ''}{where}"


def _rights(
    group: str, resources: str, verbs: str, purpose: str, *, namespace: str = "", name: str = ""
) -> tuple[Right, ...]:
    return tuple(
        Right(verb, group, resource, purpose, namespace, name)
        for resource in resources.split()
        for verb in verbs.split()
    )


_OWNERS = "annotations on a Pod's owners are not read"

RIGHTS: tuple[Right, ...] = (
    *_rights("", "pods", "get list watch", "no Pod is known"),
    *_rights("", "pods", "patch", "no grant is written, and no gate taken away"),
    *_rights("", "pods", "delete", "no Pod is ended when its job is"),
    *_rights("", "pods/status", "patch", "a Pod that is ended does not say why"),
    *_rights("", "pods/binding", "create", "no Pod is bound"),
    *_rights("", "pods/eviction", "create", "no Pod is ended within its disruption budget"),
    *_rights("", "nodes", "get list watch", "no Node is known"),
    *_rights("", "nodes", "patch", "Nodes get no annotation, taint or cordon"),
    *_rights("", "nodes/status", "patch", "Nodes get no condition"),
    *_rights(
        "", "namespaces", "get", "the identity of the cluster is not known, and nothing starts", name="kube-system"
    ),
    *_rights("", "namespaces", "list watch", "a policy cannot ask for labels of Namespaces"),
    *_rights("resource.k8s.io", "deviceclasses", "list watch", "extended resources of DeviceClasses are not known"),
    *_rights("events.k8s.io", "events", "create patch", "nobody is told anything"),
    *_rights("", "replicationcontrollers", "get", _OWNERS),
    *_rights("apps", "daemonsets deployments replicasets statefulsets", "get", _OWNERS),
    *_rights("batch", "cronjobs jobs", "get", _OWNERS),
    *_rights("jobset.x-k8s.io", "jobsets", "get", _OWNERS),
    *_rights("leaderworkerset.x-k8s.io", "leaderworkersets", "get", _OWNERS),
    *_rights("coordination.k8s.io", "leases", "create", "replicas elect nobody", namespace=OWN),
    *_rights("coordination.k8s.io", "leases", "get update", "replicas elect nobody", namespace=OWN, name="{lease}"),
    *_rights("coordination.k8s.io", "leases", "get", "Nodes stay held for longer", namespace=NODE_LEASES),
)


def rights(may: Mapping[Right, bool] | None, account: str, why: str = "") -> Iterator[Finding]:
    """`may`: what the API server answered for `account`; `None`: it did not, for the reason `why`."""
    if may is None:
        yield unseen(
            CHECK, f"of {account}: {why}", "ask as somebody who may create SubjectAccessReviews, or in the Pod"
        )
        return
    denied: dict[str, list[Right]] = {}
    for right, allowed in may.items():
        if not allowed:
            denied.setdefault(right.purpose, []).append(right)
    for purpose, missing in denied.items():
        yield wrong(
            CHECK,
            f"{account} may not {_listed(missing)}: {purpose}",
            "apply manifests/base/rbac-extender.yaml once more",
        )
    if not denied:
        yield ok(CHECK, f"{account} may do all {len(may)} things that it needs")


def _listed(missing: Sequence[Right]) -> str:
    return ", ".join(str(right) for right in missing)
