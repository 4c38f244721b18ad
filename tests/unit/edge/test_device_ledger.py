"""The ledger of the turnover test sees a device that two Pods have, and tells it from one that is contested."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.device_ledger import DeviceLedger


def a_claim(name: str, device: str, user: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"allocation": {"devices": {"results": [{"pool": "n1", "device": device}]}}}
    if user:
        status["reservedFor"] = [{"uid": user}]
    return {"type": "MODIFIED", "object": {"kind": "ResourceClaim", "metadata": {"uid": name}, "status": status}}


def a_pod(uid: str, node: str = "n1", phase: str = "Pending") -> dict[str, Any]:
    meta = {"uid": uid, "name": uid}
    return {
        "type": "MODIFIED",
        "object": {"kind": "Pod", "metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}},
    }


@pytest.fixture
def ledger() -> DeviceLedger:
    found = DeviceLedger()
    found.feed([a_claim("c1", "gpu-0", "p1"), a_pod("p1")])
    return found


def test_a_pod_has_the_devices_of_its_binding(ledger: DeviceLedger) -> None:
    assert ledger.bound["p1"].devices == (("n1", "gpu-0"),)
    assert (ledger.shared, ledger.moved, ledger.contested) == ([], [], set())


def test_two_pods_with_one_device_are_seen(ledger: DeviceLedger) -> None:
    ledger.feed([a_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.shared
    assert ledger.contested


def test_a_claim_without_a_bound_pod_is_contested_and_not_shared(ledger: DeviceLedger) -> None:
    ledger.feed([a_claim("c2", "gpu-0")])
    assert len(ledger.contested) == 1
    assert not ledger.shared


def test_a_device_is_free_for_the_next_once_its_pod_has_finished(ledger: DeviceLedger) -> None:
    ledger.feed([a_pod("p1", phase="Succeeded"), a_claim("c2", "gpu-0", "p2"), a_pod("p2")])
    assert ledger.finished == {"p1"}
    assert not ledger.shared


def test_devices_that_change_after_the_binding_are_seen(ledger: DeviceLedger) -> None:
    ledger.feed([a_claim("c1", "gpu-1", "p1")])
    assert ledger.moved
