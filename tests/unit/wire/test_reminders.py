"""A ResourceClaim is a reminder by its specification, which cannot be changed, and while no Pod uses it."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.devices.views import REMINDER_CLASS
from extender.domain.wellknown import DEVICE_REMINDER
from extender.kube.wire.resource_claim import read_resource_claim

OWNER = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "c", "uid": "u-1", "controller": True}


def resource_claim(
    name: str = "of-u-1", kind: str = REMINDER_CLASS, *, count: int = 1, users: int = 0
) -> dict[str, Any]:
    requests = [{"name": name, "exactly": {"deviceClassName": kind}}] * count
    users_of = [{"resource": "pods", "name": "p", "uid": f"p-{number}"} for number in range(users)]
    meta = {"uid": "u", "name": "r", "namespace": "d", "labels": {DEVICE_REMINDER: "true"}, "ownerReferences": [OWNER]}
    return {"metadata": meta, "spec": {"devices": {"requests": requests}}, "status": {"reservedFor": users_of}}


def test_its_request_says_what_it_reminds_of() -> None:
    assert read_resource_claim(resource_claim()).reminds_of == "u-1"


@pytest.mark.parametrize(
    "obj",
    [
        resource_claim("device"),
        resource_claim(kind="gpu.example.com"),
        resource_claim(count=2),
        resource_claim(count=0),
        resource_claim(users=1),
    ],
)
def test_any_other_resource_claim_is_none_whatever_its_label_and_owner_say(obj: dict[str, Any]) -> None:
    assert read_resource_claim(obj).reminds_of == ""
