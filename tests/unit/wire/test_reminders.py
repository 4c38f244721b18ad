"""A ResourceClaim is a reminder only with the label, and a ResourceClaim as its controlling owner."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.wellknown import DEVICE_REMINDER
from extender.kube.wire.resource_claim import read_resource_claim

OWNER = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "name": "c", "uid": "u-1", "controller": True}


def claim(labels: dict[str, str], *owners: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"uid": "u", "name": "r", "namespace": "d", "labels": labels, "ownerReferences": list(owners)},
        "spec": {},
    }


def test_the_owner_of_a_reminder_is_what_it_reminds_of() -> None:
    found = read_resource_claim(claim({DEVICE_REMINDER: "true"}, OWNER))
    assert (found.reminds_of, found.owner) == ("u-1", "")


@pytest.mark.parametrize(
    "obj",
    [
        claim({}, OWNER),
        claim({DEVICE_REMINDER: "true"}),
        claim({DEVICE_REMINDER: "true"}, OWNER | {"kind": "Pod"}),
        claim({DEVICE_REMINDER: "true"}, OWNER | {"controller": False}),
    ],
)
def test_any_other_claim_is_none(obj: dict[str, Any]) -> None:
    assert read_resource_claim(obj).reminds_of == ""
