"""The CPUs in the allocation of a ResourceClaim are read as dra-driver-cpu reads them, and hold nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from extender.domain.devices.views import DeviceId
from extender.kube.wire.resource_claim import read_resource_claim

RESULT = {"request": "cpus", "driver": "dra.cpu", "pool": "n1", "device": "cpudevmachine", "shareID": "s"}
WHOLE = DeviceId("dra.cpu", "n1", "cpudevmachine")


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


@pytest.mark.parametrize("config", [[], [entry("0", driver="other")]], ids=["none", "another driver"])
def test_a_share_without_cpus_in_its_configuration_holds_nothing(config: list[Any]) -> None:
    assert read_resource_claim(resource_claim(config)).devices == frozenset()


@pytest.mark.parametrize(
    "config",
    [
        [entry("1-0")],
        [entry("x" * 100_000)],
        [entry("0-99999")],
        [entry(["0"])],
        [entry(None)],
        [{"requests": ["cpus"], "opaque": {"driver": "dra.cpu", "parameters": {"cpuConfig": 1}}}],
        [entry("0"), entry("x")],
        [entry("0", requests=("cpus", "more"))],
        [entry("0", requests=())],
        [entry("0", requests=("cpus",)) | {"opaque": "x"}],
    ],
    ids=[
        "backwards", "long", "too many", "a list", "none", "a number", "one of two", "two requests", "every request",
        "malformed",
    ],
)  # fmt: skip
def test_a_share_whose_cpus_cannot_be_read_holds_the_whole_device(config: list[Any]) -> None:
    assert read_resource_claim(resource_claim(config)).devices == {WHOLE}


def test_the_cpus_of_two_entries_are_held_and_those_of_a_request_hold_for_its_subrequests() -> None:
    assert read_resource_claim(resource_claim([entry("0"), entry("4-5")])).devices == held(0, 4, 5)
    assert read_resource_claim(resource_claim([entry("0")], RESULT | {"request": "cpus/b"})).devices == held(0)


@pytest.mark.parametrize("cpu_config", [1, {"cpuset": ["0"]}, {"cpuset": "0"}, {"cpuset": "x"}, None])
def test_a_device_without_a_share_is_held_as_a_whole_whatever_its_configuration_names(cpu_config: object) -> None:
    gpu = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    parameters = {"cpuConfig": cpu_config}
    config = [{"requests": ["gpu"], "opaque": {"driver": "gpu.example.com", "parameters": parameters}}]
    found = read_resource_claim(resource_claim(config, gpu))
    assert found.devices == {DeviceId("gpu.example.com", "n1", "gpu-0")}
    assert found.allocated is not None
    assert found.allocated[0].cpus == ()
    alone = {name: value for name, value in RESULT.items() if name != "shareID"}
    assert read_resource_claim(resource_claim([entry("0")], alone)).devices == {WHOLE}


def test_a_configuration_that_is_too_long_hides_no_device() -> None:
    """10 KiB of numbers such as 1e15, which the API server accepts, are 40 KB as the extender writes them."""
    numbers = {"opaque": {"driver": "d", "parameters": {"a": [1e15] * 2_000}}}
    spec = {"devices": {"requests": [], "config": [numbers] * 32}}
    found = read_resource_claim(resource_claim([entry("0")]) | {"spec": spec})
    assert found.devices == held(0)
    assert found.unreadable == "config is longer than Kubernetes allows"


def test_the_capacities_of_a_request_and_the_drivers_of_its_config_are_read() -> None:
    exactly = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": "4"}}}
    spec = {"devices": {"requests": [{"name": "cpus", "exactly": exactly}], "config": [entry("0")]}}
    found = read_resource_claim({"metadata": {"uid": "u", "name": "c", "namespace": "d"}, "spec": spec})
    assert found.requests[0].capacity == (("dra.cpu/cpu", "4"),)
    assert found.configured_drivers == {"dra.cpu"}
