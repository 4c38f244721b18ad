"""The doctor compares ResourceSlices with the GRES of each Slurm node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from extender.doctor.checks.devices import GresNode, access, device_classes, extended_resources, slices
from extender.doctor.facts import DeviceFacts
from extender.doctor.finding import Finding, Verdict
from extender.doctor.gather.devices import RIGHTS
from extender.domain.devices.device_map import DeviceLine, DeviceMap
from extender.domain.devices.views import ResourceSliceView, SliceDevice
from tests.builders.device_views import DRIVER, a_slice

OK, WARNING, ERROR, SKIPPED = Verdict
BY_ATTRIBUTE = DeviceLine("gpu", DRIVER, frozenset({DRIVER}), attribute="index")
ACCOUNT = "system:serviceaccount:slurm-extender:slurm-extender"
FOUR = {"gpu": 4}


def judged(
    found: Sequence[ResourceSliceView], gres: Mapping[str, Mapping[str, int]], *lines: DeviceLine
) -> list[Finding]:
    pairs = [GresNode(node, f"slurm-{node}", counts) for node, counts in gres.items()]
    return list(slices(found, DeviceMap(lines or (BY_ATTRIBUTE,)), pairs))


def seen_with_verdicts(found: Sequence[Finding]) -> list[tuple[Verdict, str]]:
    return [(one.verdict, one.seen) for one in found]


def indexed(*indexes: int) -> tuple[SliceDevice, ...]:
    return tuple(SliceDevice(f"gpu-{at}", {"index": str(index)}) for at, index in enumerate(indexes))


def test_devices_with_the_indexes_of_slurm_are_counted() -> None:
    found = judged([a_slice(node="n1"), a_slice(node="n2")], {"n1": FOUR, "n2": {"gpu:h100": 4}})
    assert seen_with_verdicts(found) == [(OK, "GRES gpu: 8 devices on 2 Nodes have the indexes of Slurm")]


@pytest.mark.parametrize(
    ("there", "gres", "verdict", "text"),
    [
        ([], FOUR, ERROR, "GRES gpu of n1: Slurm has 4, and driver gpu.example.com publishes no ResourceSlice"),
        ([a_slice(*indexed(0, 1))], FOUR, ERROR, "Slurm has 4, and no device matches index 2, 3"),
        ([a_slice(*indexed(1, 2, 3, 4))], FOUR, ERROR, "no device matches index 0; the pool has gpu-0, gpu-1"),
        ([a_slice(*indexed(0, 1, 1, 2))], FOUR, ERROR, "gpu-1, gpu-2 all match index 1"),
        ([a_slice(SliceDevice("gpu-0"))], {"gpu": 1}, ERROR, "no device matches index 0; the pool has gpu-0"),
        ([a_slice(slices=2)], FOUR, WARNING, "ResourceSlices of pool {node} are missing"),
        ([a_slice()], {"gpu": 2}, WARNING, "Slurm has 2, and does not count gpu-2, gpu-3"),
    ],
)
def test_a_difference_is_named_with_its_node(
    there: Sequence[ResourceSliceView], gres: Mapping[str, int], verdict: Verdict, text: str
) -> None:
    (found,) = judged(there, {"n1": gres})
    assert found.verdict is verdict
    assert text in found.seen
    assert "n1" in found.seen


def test_nodes_with_the_same_difference_are_one_line() -> None:
    (first, _good) = judged([a_slice(node="n1")], {"n1": FOUR, "n2": FOUR, "n3": FOUR})
    assert first.seen.startswith("GRES gpu of n2, n3: Slurm has 4")


def test_an_older_generation_is_not_counted() -> None:
    new, old = a_slice(generation=2), a_slice(*indexed(0), generation=1)
    assert [one.verdict for one in judged([old, new], {"n1": FOUR})] == [OK]


def test_devices_that_slurm_cannot_give_are_named() -> None:
    here, bare, stranger = a_slice(node="n1"), a_slice(node="n2"), a_slice(node="laptop")
    found = judged([here, bare, stranger], {"n1": FOUR, "n2": {}})
    assert [one.verdict for one in found] == [OK, WARNING, WARNING]
    assert "publishes devices of laptop, which are no Slurm nodes" in found[1].seen
    assert "publishes devices of n2, where Slurm has no such GRES" in found[2].seen


def test_a_line_without_any_gres_is_said() -> None:
    (found,) = judged([], {"n1": {"shard": 8}})
    assert seen_with_verdicts([found]) == [(WARNING, "GRES gpu: no Slurm node that is a Node has any")]


def test_a_type_has_some_of_the_indexes_of_its_gres() -> None:
    """Slurm numbers the devices of all types of a GRES together."""
    line = DeviceLine("gpu:1g.10gb", DRIVER, frozenset({"mig"}), name="mig-{index}")
    there = a_slice(*(SliceDevice(f"mig-{at}") for at in (2, 3)), SliceDevice("gpu-0"))
    (found,) = judged([there], {"n1": {"gpu:1g.10gb": 2, "gpu:h100": 2}}, line)
    assert seen_with_verdicts([found]) == [(OK, "GRES gpu:1g.10gb: 2 devices on 1 Nodes have the indexes of Slurm")]


def test_access_is_judged_before_devices() -> None:
    lines = DeviceMap((BY_ATTRIBUTE,))
    (unserved,) = access(DeviceFacts(served=False), lines, ACCOUNT)
    assert (unserved.verdict, "does not serve resource.k8s.io/v1" in unserved.seen) == (ERROR, True)
    (closed,) = access(DeviceFacts(served=True, trouble="403"), lines, ACCOUNT)
    assert (closed.verdict, "403" in closed.seen) == (SKIPPED, True)
    may = dict.fromkeys(RIGHTS, True) | {RIGHTS[0]: False}
    (denied,) = access(DeviceFacts(True, may, (), {}), lines, ACCOUNT)
    assert (denied.verdict, "may not get resourceclaims.resource.k8s.io" in denied.seen) == (ERROR, True)
    assert not list(access(DeviceFacts(True, dict.fromkeys(RIGHTS, True), (), {}), lines, ACCOUNT))


def test_a_device_class_of_the_map_that_does_not_exist_is_named() -> None:
    lines = DeviceMap((BY_ATTRIBUTE,))
    (found,) = device_classes(DeviceFacts(True, classes={"other": ""}), lines, ACCOUNT)
    assert found.seen.endswith(f"do not exist: {DRIVER}")
    assert not list(device_classes(DeviceFacts(True, classes={DRIVER: ""}), lines, ACCOUNT))


@pytest.mark.parametrize(
    ("version", "resource", "said"), [("v1.34.3", "", 1), ("v1.34.3", "example.com/gpu", 0), ("v1.36.0", "", 0)]
)
def test_extended_resources_without_their_gate_are_explained(version: str, resource: str, said: int) -> None:
    found = list(extended_resources(DeviceFacts(True, classes={DRIVER: resource}), DeviceMap((BY_ATTRIBUTE,)), version))
    assert len(found) == said
    assert all("DRAExtendedResource" in one.seen and one.verdict is OK for one in found)
