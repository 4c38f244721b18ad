"""Decide requests by the roles that are bound to one service account.

Rules as in Kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go` (`RuleAllows`): verb, group, resource with its
subresource, and the name where a rule names some; a request that names no object matches no rule that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from simulator.kube.objects import Json


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission that a request needs: RBAC's verb, API group and resource (`pods/binding`)."""

    verb: str
    group: str
    resource: str


@dataclass(frozen=True, slots=True)
class _Grant:
    """A rule of a role, in a namespace; "" for everywhere."""

    namespace: str
    rule: Json

    def allows(self, permission: Permission, namespace: str, name: str) -> bool:
        names = self.rule.get("resourceNames")
        return (
            self.namespace in {"", namespace}
            and _has(self.rule["verbs"], permission.verb)
            and _has(self.rule["apiGroups"], permission.group)
            and _has(self.rule["resources"], permission.resource)
            and (not names or name in names)
        )


@dataclass(frozen=True, slots=True)
class Rbac:
    """The rights of one account."""

    account: str
    grants: Sequence[_Grant]

    @classmethod
    def of(cls, documents: Iterable[Json], account: str, namespace: str) -> Rbac:
        """Return the rules that Roles, ClusterRoles and bindings among `documents` give to a service account."""
        found = list(documents)
        roles = {(one["kind"], _where(one), one["metadata"]["name"]): one["rules"] for one in found if "rules" in one}
        grants = []
        for binding in found:
            if binding["kind"] not in {"RoleBinding", "ClusterRoleBinding"} or not _binds(binding, account, namespace):
                continue
            ref, where = binding["roleRef"], _where(binding)
            rules = roles.get((ref["kind"], "" if ref["kind"] == "ClusterRole" else where, ref["name"]), ())
            grants += [_Grant(where, rule) for rule in rules]
        return cls(account, grants)

    def allows(self, permission: Permission, namespace: str, name: str) -> bool:
        """Return whether the account may do this to an object; `name` is "" for a collection or a new object."""
        return any(grant.allows(permission, namespace, name) for grant in self.grants)


ACCOUNT = NAMESPACE = "slurm-extender"

_MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


@cache
def shipped(*components: str) -> Rbac | None:
    """Return the rights that the shipped manifests give to the extender; `None` where they are not installed.

    Those of the core, and of the `components` that bring rights.
    """
    files = (
        _MANIFESTS / "core" / "rbac-extender.yaml",
        *(_MANIFESTS / "components" / one / "rbac.yaml" for one in components),
    )
    if not all(file.exists() for file in files):
        return None
    found = [one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return Rbac.of((one for one in found if one), ACCOUNT, NAMESPACE)


def _where(one: Json) -> str:
    return str(one["metadata"].get("namespace", ""))


def _has(allowed: Sequence[str], wanted: str) -> bool:
    return wanted in allowed or "*" in allowed


def _binds(binding: Json, account: str, namespace: str) -> bool:
    return any(
        (one["kind"], one["name"], one.get("namespace", "")) == ("ServiceAccount", account, namespace)
        for one in binding.get("subjects") or ()
    )
