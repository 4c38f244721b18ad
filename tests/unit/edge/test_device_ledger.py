"""The ledger of the turnover test sees a device that two Pods have, and tells it from one that is contested."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.builders.device_ledger import REMINDED_AFTER, SHOWN_AFTER, DeviceLedger

VERSIONS = count(1)


def a_resource_claim(name: str, device: str, user: str = "", *, later: int = 0) -> dict[str, Any]:
    for _ in range(later):
        next(VERSIONS)
    meta = {"uid": name, "resourceVersion": str(next(VERSIONS))}
    devices = {"results": [{"pool": "n1", "device": device}] if device else []}
    status: dict[str, Any] = {"allocation": {"devices": devices}}
    if user:
        status["reservedFor"] = [{"uid": user}]
    return {"type": "MODIFIED", "object": {"kind": "ResourceClaim", "metadata": meta, "status": status}}


def a_pod(uid: str, node: str = "n1", phase: str = "Pending") -> dict[str, Any]:
    meta = {"uid": uid, "name": uid}
    return {
        "type": "MODIFIED",
        "object": {"kind": "Pod", "metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}},
    }


@pytest.fixture
def ledger() -> DeviceLedger:
    found = DeviceLedger()
    found.feed([a_resource_claim("c1", "gpu-0", "p1"), a_pod("p1")])
    return found


def test_a_pod_has_the_devices_of_its_binding(ledger: DeviceLedger) -> None:
    assert ledger.bound["p1"].devices == (("n1", "gpu-0"),)
    assert (ledger.shared, ledger.moved, ledger.contested) == (set(), [], set())


def test_two_pods_with_one_device_are_seen(ledger: DeviceLedger) -> None:
    ledger.feed([a_resource_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.shared
    assert ledger.contested


def test_a_resource_claim_without_a_bound_pod_is_contested_and_not_shared(ledger: DeviceLedger) -> None:
    ledger.feed([a_resource_claim("c2", "gpu-0")])
    assert len(ledger.contested) == 1
    assert not ledger.shared


def test_a_device_is_free_for_the_next_once_its_pod_has_finished(ledger: DeviceLedger) -> None:
    ledger.feed([a_pod("p1", phase="Succeeded"), a_resource_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.finished == {"p1"}
    assert not ledger.shared


def test_devices_that_change_after_the_binding_are_seen(ledger: DeviceLedger) -> None:
    ledger.feed([a_resource_claim("c1", "gpu-1", "p1")])
    assert ledger.moved


def test_a_device_whose_holder_was_forgotten_is_shared_for_a_reason(ledger: DeviceLedger) -> None:
    ledger.feed([a_resource_claim("other", "gpu-0"), a_resource_claim("other", "")])
    ledger.feed([a_resource_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.shared_while_forgotten == {"('n1', 'gpu-0'): ['p1', 'p2']"}
    assert not ledger.shared


def test_a_holder_is_known_again_once_its_reminder_was_shown(ledger: DeviceLedger) -> None:
    ledger.feed(
        [a_resource_claim("other", "gpu-0"), a_resource_claim("other", ""), a_resource_claim("reminder", "gpu-0")]
    )
    ledger.feed([a_resource_claim("c2", "gpu-0", "p2", later=SHOWN_AFTER), a_pod("p2")])
    assert ledger.shared == {"('n1', 'gpu-0'): ['p1', 'p2']"}
    assert not ledger.shared_while_forgotten


def test_a_write_that_is_just_under_way_may_not_be_known_yet(ledger: DeviceLedger) -> None:
    ledger.feed(
        [a_resource_claim("other", "gpu-0"), a_resource_claim("other", ""), a_resource_claim("reminder", "gpu-0")]
    )
    ledger.feed([a_resource_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.shared_while_forgotten
    assert not ledger.shared


def test_a_free_device_is_not_forgotten(ledger: DeviceLedger) -> None:
    ledger.feed(
        [a_pod("p1", phase="Succeeded"), a_resource_claim("c1", ""), a_resource_claim("c2", "gpu-0", "p2"), a_pod("p2")]
    )
    ledger.feed([a_resource_claim("c3", "gpu-0", "p3"), a_pod("p3")])
    assert ledger.shared
    assert not ledger.shared_while_forgotten


def test_a_device_that_stays_forgotten_is_seen(ledger: DeviceLedger) -> None:
    ledger.feed([a_resource_claim("other", "gpu-0"), a_resource_claim("other", "")])
    assert not ledger.not_reminded
    ledger.feed([a_resource_claim("c9", "gpu-9", later=REMINDED_AFTER)])
    assert ledger.not_reminded == {("n1", "gpu-0")}
