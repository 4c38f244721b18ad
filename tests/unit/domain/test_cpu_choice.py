"""The CPUs of Slurm's cores become the cpuset of ResourceClaims, each CPU of one alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.devices.choice import (
    ChosenDevices,
    DeviceStock,
    DevicesUnknown,
    DevicesUnusable,
    choose,
    conflicts,
)
from extender.domain.devices.device_map import CpuLine, DeviceLine, DeviceMap
from extender.domain.devices.resource_claims import read_resource_claims
from extender.domain.devices.views import (
    AllocatedDevice,
    DeviceId,
    DeviceRequest,
    ResourceClaimView,
    ResourceSliceView,
    SliceDevice,
)
from extender.domain.jobs.devices import Cores, Device
from extender.domain.views import Container, PodResourceClaim, PodView
from tests.builders.device_views import GPUS, a_resource_claim, a_slice, a_stock, gpu
from tests.builders.pod_views import a_pod

LINE = CpuLine()
CPUS = DeviceMap(cpus=LINE)
ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


def wants(count: int | str, name: str = "cpus") -> DeviceRequest:
    return DeviceRequest(name, "dra.cpu", capacity=((LINE.capacity, str(count)),))


def cpu_slice(device: str = "cpudevmachine", pool: str = "n1") -> ResourceSliceView:
    one = SliceDevice(device, unsupported="allowMultipleAllocations")
    return ResourceSliceView(f"s-{pool}", "s", "1", "dra.cpu", pool, 1, 1, pool, (one,))


def stock(*resource_claims: ResourceClaimView, order: tuple[int, ...] = ORDER, slices: bool = True) -> DeviceStock:
    return replace(
        a_stock(*resource_claims, slices=[cpu_slice(), a_slice()] if slices else []), cpu_order=lambda _node: order
    )


def cores(*given: int, total: int = 4, threads: int = 2) -> tuple[Device, ...]:
    return (Cores(total, threads, given).as_device(),)


def held(name: str, *cpus: int) -> ResourceClaimView:
    device = DeviceId("dra.cpu", "n1", "cpudevmachine")
    return replace(
        a_resource_claim(name, wants(1)), allocated=(AllocatedDevice("cpus", device, cpus=cpus, shared=True),)
    )


def test_each_request_has_its_number_of_cpus_in_the_order_of_slurms_cores() -> None:
    first, second = a_resource_claim("a", wants(2)), a_resource_claim("b", wants(3))
    found = choose((first, second), cores(1, 2, 3), "n1", stock(), CPUS)
    assert isinstance(found, ChosenDevices)
    assert [one.cpus for one in found.by_resource_claim["uid-a"]] == [(1, 5)]
    assert [one.cpus for one in found.by_resource_claim["uid-b"]] == [(2, 3, 6)]
    assert found.by_resource_claim["uid-a"][0].device == DeviceId("dra.cpu", "n1", "cpudevmachine")


def test_cpus_and_devices_of_one_pod_are_both_chosen() -> None:
    both = DeviceMap(GPUS.lines, LINE)
    found = choose(
        (a_resource_claim("a", wants(2)), a_resource_claim("g")),
        (Device("gpu", "", 1, "2"), *cores(0)),
        "n1",
        stock(),
        both,
    )
    assert isinstance(found, ChosenDevices)
    assert [one.cpus for one in found.by_resource_claim["uid-a"]] == [(0, 4)]
    assert [one.device for one in found.by_resource_claim["uid-g"]] == [gpu(2)]


def test_a_cpu_that_another_resource_claim_holds_makes_the_allocation_unusable() -> None:
    found = choose((a_resource_claim("a", wants(2)),), cores(1), "n1", stock(held("other", 5)), CPUS)
    assert isinstance(found, DevicesUnusable)
    assert found.conflict
    assert "ResourceClaim default/other holds cpudevmachine/5 of pool n1" in found.text


def test_a_share_with_unreadable_cpus_keeps_every_cpu_of_the_device() -> None:
    share = replace(
        AllocatedDevice("cpus", DeviceId("dra.cpu", "n1", "cpudevmachine"), shared=True), unreadable_cpus=True
    )
    other = replace(a_resource_claim("other", wants(1)), allocated=(share,))
    found = choose((a_resource_claim("a", wants(2)),), cores(1), "n1", stock(other), CPUS)
    assert isinstance(found, DevicesUnusable)
    assert found.conflict
    assert conflicts(held("a", 6), stock(other)) != ()
    there = stock()
    there.holders.assume("uid-other", other.devices)
    assert there.firm_holders(next(iter(held("a", 6).devices)), "uid-a") == ("uid-other",)


def test_resource_claims_for_different_cpus_of_one_device_are_no_conflict() -> None:
    one, other = held("one", 1, 5), held("other", 2, 6)
    there = stock(one, other)
    assert conflicts(one, there) == ()
    assert conflicts(held("late", 6), there) != ()


def test_shares_of_a_device_that_name_no_cpu_hold_nothing() -> None:
    share = AllocatedDevice("cpus", DeviceId("dra.cpu", "n1", "cpudevmachine"), shared=True)
    one, other = (replace(a_resource_claim(name, wants(1)), allocated=(share,)) for name in ("a", "b"))
    assert conflicts(one, stock(one, other)) == ()


@pytest.mark.parametrize(
    ("given", "there", "why"),
    [
        (cores(0, total=8), stock(), "Slurm counts 8 cores with 2 CPUs each, and the map has 8 CPUs"),
        ((), stock(), "Slurm does not report the cores"),
        (cores(0), a_stock(slices=[cpu_slice()]), "its CPUs are not known"),
        (
            cores(0),
            replace(stock(), pools=a_stock(slices=[cpu_slice("cpudevnuma000")]).pools),
            "no device cpudevmachine",
        ),
    ],
    ids=["another topology", "no cores", "no map", "another grouping"],
)
def test_without_a_map_that_fits_the_resource_claim_is_left_to_kube_scheduler(
    given: tuple[Device, ...], there: DeviceStock, why: str
) -> None:
    found = choose((a_resource_claim("a", wants(2)),), given, "n1", there, CPUS)
    assert isinstance(found, ChosenDevices)
    assert found.by_resource_claim == {}
    assert why in found.left


def test_devices_of_a_pod_are_chosen_where_its_cpus_are_left() -> None:
    both, there = DeviceMap(GPUS.lines, LINE), a_stock(slices=[a_slice(), cpu_slice()])
    found = choose(
        (a_resource_claim("a", wants(2)), a_resource_claim("g")),
        (Device("gpu", "", 1, "2"), *cores(0)),
        "n1",
        there,
        both,
    )
    assert isinstance(found, ChosenDevices)
    assert list(found.by_resource_claim) == ["uid-g"]


def test_a_driver_that_publishes_nothing_is_waited_for() -> None:
    assert isinstance(
        choose((a_resource_claim("a", wants(2)),), cores(0), "n1", stock(slices=False), CPUS), DevicesUnknown
    )


def test_fewer_cpus_than_requested_and_reserved_ones_are_unusable() -> None:
    found = choose((a_resource_claim("a", wants(3)),), cores(0), "n1", stock(), CPUS)
    assert isinstance(found, DevicesUnusable)
    assert "CPUs 0,4 of n1, fewer than default/a requests" in found.text
    keeping = DeviceMap(cpus=replace(LINE, reserved=frozenset({4})))
    found = choose((a_resource_claim("a", wants(2)),), cores(0), "n1", stock(), keeping)
    assert isinstance(found, DevicesUnusable)
    assert "CpuSpecList" in found.text


def whole(cpu: str = "4", limit: str = "") -> PodView:
    sizes = {"cpu": cpu, "memory": "1Gi"}
    one = Container("main", sizes, {**sizes, "cpu": limit or cpu})
    return a_pod(containers=(one,), resource_claims=(PodResourceClaim("c", "c"),))


def test_the_resource_claim_of_a_guaranteed_pod_with_whole_cpus_is_translated_and_counts_no_gres() -> None:
    found = read_resource_claims(whole(), lambda *_: a_resource_claim("c", wants(4)), lambda *_: (), CPUS)
    assert [one.name for one in found.translated] == ["c"]
    assert (found.gres, found.faults, found.delegated) == ({}, (), ())


@pytest.mark.parametrize("one", [whole("1500m"), whole("4", "8")], ids=["a fraction", "burstable"])
def test_the_resource_claim_of_any_other_pod_is_left_to_kube_scheduler(one: PodView) -> None:
    found = read_resource_claims(one, lambda *_: a_resource_claim("c", wants(4)), lambda *_: (), CPUS)
    assert found.translated == ()
    assert "Guaranteed" in found.delegated[0]


@pytest.mark.parametrize(
    ("resource_claim", "why"),
    [
        (a_resource_claim("c", wants("1500m")), "whole number"),
        (a_resource_claim("c", wants("x")), "whole number"),
        (a_resource_claim("c", wants(0)), "whole number"),
        (a_resource_claim("c", DeviceRequest("cpus", "dra.cpu")), "whole number"),
        (a_resource_claim("c", replace(wants(2), count=2)), "count 1"),
        (a_resource_claim("c", wants(8)), "request 8 CPUs and its containers 4"),
        (a_resource_claim("c", wants(2), constrained=True), "constraints"),
        (a_resource_claim("c", wants(2), DeviceRequest("g", "gpu")), "two ResourceClaims"),
        (
            replace(a_resource_claim("c", wants(2)), configured_drivers=frozenset({"dra.cpu"})),
            "config for driver dra.cpu",
        ),
        (a_resource_claim("c", replace(wants(2), unsupported="selectors")), "selectors"),
    ],
)
def test_requests_that_cannot_be_honoured_are_refused_with_their_place(
    resource_claim: ResourceClaimView, why: str
) -> None:
    found = read_resource_claims(whole(), lambda *_: resource_claim, lambda *_: (), CPUS)
    assert any(why in fault for fault in found.faults)


def test_a_device_class_is_for_cpus_or_for_a_gres_alone() -> None:
    with pytest.raises(ValueError, match="and in cpus"):
        DeviceMap((DeviceLine("gpu", "d", frozenset({"dra.cpu"}), name="gpu-{index}"),), LINE)
