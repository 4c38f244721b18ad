"""Each index that Slurm allocated becomes exactly one free device of the Node, or a sentence says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.devices.choice import ChosenDevices, DevicesUnknown, DevicesUnusable, choose, conflicts
from extender.domain.devices.device_map import DeviceLine, DeviceMap
from extender.domain.devices.views import DeviceRequest, SliceDevice
from extender.domain.jobs.devices import Device
from extender.domain.views import Taint, Toleration
from tests.builders.device_views import DRIVER, GPUS, a_resource_claim, a_slice, a_stock, gpu


def gave(index: str, count: int = 1, kind: str = "") -> tuple[Device, ...]:
    return (Device("gpu", kind, count, index),)


def test_the_devices_are_those_with_slurms_indexes_in_the_order_of_the_requests() -> None:
    first, second = (
        a_resource_claim("a", DeviceRequest("x", DRIVER, 1), DeviceRequest("y", DRIVER, 1)),
        a_resource_claim("b"),
    )
    found = choose((first, second), gave("1-3", 3), "n1", a_stock(), GPUS)
    assert isinstance(found, ChosenDevices)
    assert [(one.request, one.device) for one in found.by_resource_claim["uid-a"]] == [("x", gpu(1)), ("y", gpu(2))]
    assert [one.device for one in found.by_resource_claim["uid-b"]] == [gpu(3)]


def test_an_attribute_gives_the_index_with_or_without_the_domain_of_the_driver() -> None:
    line = DeviceLine("gpu", DRIVER, frozenset({DRIVER}), attribute="index")
    devices = (SliceDevice("a", {"index": "1"}), SliceDevice("b", {f"{DRIVER}/index": "2"}))
    for index, name in ((1, "a"), (2, "b")):
        stock = a_stock(slices=[a_slice(*devices)])
        found = choose((a_resource_claim(),), gave(str(index)), "n1", stock, DeviceMap((line,)))
        assert isinstance(found, ChosenDevices)
        assert [one.device.device for one in found.by_resource_claim["uid-c"]] == [name]


def test_a_line_with_a_type_takes_the_indexes_of_that_type_alone() -> None:
    line = DeviceLine("gpu:1g.10gb", DRIVER, frozenset({DRIVER}), name="gpu-{index}")
    given = (Device("gpu", "h100", 1, "0"), Device("gpu", "1g.10gb", 1, "3"))
    found = choose((a_resource_claim(),), given, "n1", a_stock(), DeviceMap((line,)))
    assert isinstance(found, ChosenDevices)
    assert [one.device for one in found.by_resource_claim["uid-c"]] == [gpu(3)]


def test_a_device_that_another_resource_claim_holds_is_named_with_its_holder() -> None:
    stock = a_stock(a_resource_claim("other", held=[gpu(3)]))
    found = choose(
        (a_resource_claim(),), gave("3"), "n1", replace(stock, pod_of=lambda _resource_claim: "default/web"), GPUS
    )
    assert isinstance(found, DevicesUnusable)
    assert found.conflict
    assert "gpu 3 of n1" in found.text
    assert "gpu-3 of pool n1" in found.text
    assert "ResourceClaim default/other of Pod default/web holds it" in found.text


def test_a_device_that_is_being_written_into_another_resource_claim_is_not_free() -> None:
    stock = a_stock()
    stock.holders.assume("uid-other", frozenset({gpu(3)}))
    assert isinstance(choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS), DevicesUnusable)
    stock.holders.assume("uid-other", frozenset())
    assert isinstance(choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS), ChosenDevices)


def test_the_resource_claim_itself_and_one_that_yields_are_no_holders() -> None:
    own, other = a_resource_claim("c", held=[gpu(3)]), a_resource_claim("other", held=[gpu(3)])
    stock = a_stock(own)
    assert isinstance(choose((own,), gave("3"), "n1", stock, GPUS), ChosenDevices)
    stock.holders.put(other)
    yielding = replace(stock, provisional=lambda resource_claim: resource_claim.name == "other")
    assert isinstance(choose((own,), gave("3"), "n1", yielding, GPUS), ChosenDevices)
    assert conflicts(own, yielding) == ()
    assert conflicts(own, stock) == ((gpu(3), other),)


def test_a_reminder_is_no_holder_beside_its_own_resource_claim_and_is_waited_for_once_that_is_freed() -> None:
    own, reminder = (
        a_resource_claim("own", held=[gpu(3)]),
        replace(a_resource_claim("r", held=[gpu(3)]), reminds_of="uid-own"),
    )
    stock = a_stock(own, reminder)
    assert isinstance(choose((own,), gave("3"), "n1", stock, GPUS), ChosenDevices)
    assert conflicts(own, stock) == ()
    found = choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS)
    assert isinstance(found, DevicesUnusable)
    stock.holders.drop("uid-own")
    assert stock.holders.reminders("uid-own") == ("uid-r",)
    assert isinstance(choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS), DevicesUnknown)
    stock.holders.drop("uid-r")
    assert stock.holders.reminders("uid-own") == ()
    assert isinstance(choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS), ChosenDevices)


def test_a_holder_that_is_gone_holds_nothing() -> None:
    stock = a_stock(a_resource_claim("other", held=[gpu(3)]))
    stock.holders.put(a_resource_claim("other"))
    assert isinstance(choose((a_resource_claim(),), gave("3"), "n1", stock, GPUS), ChosenDevices)


@pytest.mark.parametrize(
    "slices",
    [[], [a_slice(slices=2)], [a_slice(), a_slice(SliceDevice("gpu-0"), generation=2, slices=2)]],
    ids=["none", "not all", "a newer generation that is not whole"],
)
def test_devices_that_are_not_published_completely_are_waited_for(slices: list[object]) -> None:
    stock = a_stock(slices=slices)  # type: ignore[arg-type]
    assert isinstance(choose((a_resource_claim(),), gave("0"), "n1", stock, GPUS), DevicesUnknown)


def test_only_the_newest_generation_counts() -> None:
    stock = a_stock(slices=[a_slice(), a_slice(SliceDevice("gpu-0"), generation=2)])
    assert isinstance(choose((a_resource_claim(),), gave("0"), "n1", stock, GPUS), ChosenDevices)
    found = choose((a_resource_claim(),), gave("1"), "n1", stock, GPUS)
    assert isinstance(found, DevicesUnusable)
    assert "matches no device" in found.text


def test_two_devices_with_one_index_are_none() -> None:
    line = DeviceLine("gpu", DRIVER, frozenset({DRIVER}), attribute="index")
    devices = (SliceDevice("a", {"index": "1"}), SliceDevice("b", {"index": "1"}))
    found = choose((a_resource_claim(),), gave("1"), "n1", a_stock(slices=[a_slice(*devices)]), DeviceMap((line,)))
    assert isinstance(found, DevicesUnusable)
    assert "matches 2 devices" in found.text


def test_devices_of_another_node_are_none_of_this_one() -> None:
    elsewhere = replace(a_slice(node="n2"), pool="n1")
    assert isinstance(
        choose((a_resource_claim(),), gave("1"), "n1", a_stock(slices=[elsewhere]), GPUS), DevicesUnusable
    )


@pytest.mark.parametrize("given", [(), gave("", 2), gave("1", 2)], ids=["nothing", "no index", "too few"])
def test_without_an_index_for_each_device_the_allocation_cannot_be_used(given: tuple[Device, ...]) -> None:
    found = choose((a_resource_claim("c", DeviceRequest("gpu", DRIVER, 2)),), given, "n1", a_stock(), GPUS)
    assert isinstance(found, DevicesUnusable)
    assert "default/c" in found.text


def test_a_tainted_device_needs_a_toleration() -> None:
    stock = a_stock(slices=[a_slice(SliceDevice("gpu-0", taints=(Taint("broken", "NoExecute"),)))])
    found = choose((a_resource_claim(),), gave("0"), "n1", stock, GPUS)
    assert isinstance(found, DevicesUnusable)
    assert "broken:NoExecute" in found.text
    tolerant = a_resource_claim("c", DeviceRequest("gpu", DRIVER, tolerations=(Toleration("broken", "Exists"),)))
    assert isinstance(choose((tolerant,), gave("0"), "n1", stock, GPUS), ChosenDevices)


def test_a_taint_without_effect_on_new_pods_is_ignored() -> None:
    stock = a_stock(slices=[a_slice(SliceDevice("gpu-0", taints=(Taint("noted", "None"),)))])
    assert isinstance(choose((a_resource_claim(),), gave("0"), "n1", stock, GPUS), ChosenDevices)


def test_a_part_of_a_device_that_is_made_on_demand_is_refused() -> None:
    stock = a_stock(slices=[a_slice(SliceDevice("gpu-0", unsupported="consumesCounters"))])
    found = choose((a_resource_claim(),), gave("0"), "n1", stock, GPUS)
    assert isinstance(found, DevicesUnusable)
    assert "consumesCounters" in found.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"gres": "gpu/x", "name": "gpu-{index}"},
        {"gres": "gpu"},
        {"gres": "gpu", "name": "gpu-{index}", "attribute": "index"},
        {"gres": "gpu", "name": "gpu"},
        {"gres": "gpu", "attribute": "index", "pool": "{node}{node}"},
    ],
)
def test_a_line_that_can_name_no_device_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"gpu"):
        DeviceLine(driver=DRIVER, **wrong)  # type: ignore[arg-type]


def test_a_device_class_is_in_one_line_alone() -> None:
    line = DeviceLine("gpu", DRIVER, frozenset({"c"}), name="gpu-{index}")
    with pytest.raises(ValueError, match="DeviceClass 'c'"):
        DeviceMap((line, replace(line, gres="mic")))
