"""Requests of an account to a real API server, from its audit log, beside what its roles allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import manifests
from lab.site import Site
from simulator.kube.rbac import NAMESPACE, Permission, Rbac

DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True, order=True)
class AuditedRequest:
    """One kind of request about one object; `name` is "" for a collection, `namespace` for all of them."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    refused: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Describe one permission of a role. `namespace` "": everywhere; `name` "": to each object."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    @property
    def permission(self) -> Permission:
        """Return this permission for any object."""
        return Permission(self.verb, self.group, self.resource)

    def used(self, requests: Iterable[AuditedRequest]) -> bool:
        """Return whether one of these requests needed it and was allowed."""
        return any(self._allows(one) for one in requests if not one.refused)

    def _allows(self, one: AuditedRequest) -> bool:
        same = (one.verb, one.group, one.resource) == (self.verb, self.group, self.resource)
        return same and self.namespace in {"", one.namespace} and self.name in {"", one.name}


def requests_of(account: str, events: Iterable[dict[str, Any]]) -> set[AuditedRequest]:
    """Return the requests of an account about objects, also those that other users made as it (`--as`)."""
    return set(_of(account, events))


def _of(account: str, events: Iterable[dict[str, Any]]) -> Iterator[AuditedRequest]:
    for event in events:
        who = (event.get("impersonatedUser") or event["user"])["username"]
        about = event.get("objectRef")
        if who == account and about:
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            where, name = about.get("namespace", ""), about.get("name", "")
            refused = event.get("annotations", {}).get(DECISION) == "forbid"
            yield AuditedRequest(event["verb"], about.get("apiGroup", ""), resource, where, name, refused)


def rights_of(rbac: Rbac) -> set[Right]:
    """Return every permission of an account's rules."""
    return {
        Right(verb, group, resource, grant.namespace, name)
        for grant in rbac.grants
        for verb in grant.rule["verbs"]
        for group in grant.rule["apiGroups"]
        for resource in grant.rule["resources"]
        for name in grant.rule.get("resourceNames") or ("",)
    }


def unused(rbac: Rbac, requests: Iterable[AuditedRequest]) -> list[Right]:
    """Return the permissions that an account has not used."""
    done = set(requests)
    return sorted(right for right in rights_of(rbac) if not right.used(done))


def refused(requests: Iterable[AuditedRequest]) -> list[AuditedRequest]:
    """Return the requests that were rejected."""
    return sorted(one for one in requests if one.refused)


@contextmanager
def requests_during(site: Site, account: str) -> Iterator[set[AuditedRequest]]:
    """Collect the requests of `account` during the block; the set is filled at its end."""
    before = len(site.kube.audit_events())
    found: set[AuditedRequest] = set()
    yield found
    found |= requests_of(account, site.kube.audit_events()[before:])


def given(site: Site, account: str, folder: Path = manifests.BASE) -> Rbac:
    """Return the permissions that the manifests of a folder give to an account of the extender, by its own roles."""
    return Rbac.of(manifests.shipped(site.kube, folder), account.rpartition(":")[2], NAMESPACE)
