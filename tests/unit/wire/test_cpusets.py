"""The CPUs in the allocation of a ResourceClaim are read as dra-driver-cpu reads them, and hold nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.devices.views import DeviceId
from extender.kube.wire.resource_claim import read_resource_claim

RESULT = {"request": "cpus", "driver": "dra.cpu", "pool": "n1", "device": "cpudevmachine", "shareID": "s"}


def resource_claim(config: list[Any], *results: dict[str, str]) -> dict[str, Any]:
    devices = {"results": list(results or (RESULT,)), "config": config}
    return {"metadata": {"uid": "u", "name": "c", "namespace": "d"}, "status": {"allocation": {"devices": devices}}}


def entry(cpuset: object, *, driver: str = "dra.cpu", requests: tuple[str, ...] = ("cpus",)) -> dict[str, Any]:
    parameters = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": cpuset}}
    return {"requests": list(requests), "opaque": {"driver": driver, "parameters": parameters}}


def held(*cpus: int) -> frozenset[DeviceId]:
    return frozenset(DeviceId("dra.cpu", "n1", f"cpudevmachine/{cpu}") for cpu in cpus)


def test_the_cpus_of_the_request_are_held_and_not_the_device() -> None:
    found = read_resource_claim(resource_claim([entry("0,4-5")]))
    assert found.allocated is not None
    assert found.allocated[0].cpus == (0, 4, 5)
    assert found.devices == held(0, 4, 5)


@pytest.mark.parametrize(
    "config",
    [
        [],
        [entry("1-0")],
        [entry("x" * 100_000)],
        [entry("0-99999")],
        [entry("0", driver="other")],
        [entry("0", requests=("cpus", "more"))],
        [entry("0", requests=())],
    ],
    ids=["none", "backwards", "long", "too many", "another driver", "two requests", "every request"],
)
def test_a_share_without_readable_cpus_holds_nothing(config: list[Any]) -> None:
    assert read_resource_claim(resource_claim(config)).devices == frozenset()


def test_a_device_without_a_share_is_held_as_a_whole() -> None:
    alone = {name: value for name, value in RESULT.items() if name != "shareID"}
    assert read_resource_claim(resource_claim([], alone)).devices == {DeviceId("dra.cpu", "n1", "cpudevmachine")}


def test_the_capacities_of_a_request_and_the_drivers_of_its_config_are_read() -> None:
    exactly = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": "4"}}}
    spec = {"devices": {"requests": [{"name": "cpus", "exactly": exactly}], "config": [entry("0")]}}
    found = read_resource_claim({"metadata": {"uid": "u", "name": "c", "namespace": "d"}, "spec": spec})
    assert found.requests[0].capacity == (("dra.cpu/cpu", "4"),)
    assert found.configured_drivers == {"dra.cpu"}
