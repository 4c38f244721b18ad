"""Members of a packed gang: how many each node holds, and which of its devices each of them gets."""

from __future__ import annotations

import pytest

from extender.domain.gangs.layout import assigned, shared_devices, shared_places
from extender.domain.jobs.devices import Device
from extender.domain.jobs.job import GangLayout, JobRequest
from extender.domain.placing import room

NODES = ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("members", "holds", "places"),
    [
        (5, (2, 2, 2), (2, 2, 1)),
        (3, (4, 4, 4), (1, 1, 1)),
        (6, (4, 2, 4), (4, 1, 1)),
        (4, (1, 1, 4), (1, 1, 2)),
    ],
)
def test_nodes_are_filled_in_their_order_and_none_is_left_without_a_member(
    members: int, holds: tuple[int, ...], places: tuple[int, ...]
) -> None:
    assert shared_places(NODES, members, dict(zip(NODES, holds, strict=True))) == dict(zip(NODES, places, strict=True))


def test_consecutive_ranks_share_a_node() -> None:
    assert assigned(NODES[:2], 4, {}, {"n1": 3, "n2": 1}) == ("n1", "n1", "n1", "n2")


def test_a_slot_whose_node_is_known_keeps_it_and_others_get_the_places_that_are_left() -> None:
    assert assigned(NODES[:2], 4, {3: "n1"}, {"n1": 2, "n2": 2}) == ("n1", "n2", "n2", "n1")


def test_members_on_one_node_get_different_devices_of_it() -> None:
    devices = [Device("gpu", "h100", 4, "0-3"), Device("shard", "", 6)]
    assert shared_devices(devices, 0, 2) == (Device("gpu", "h100", 2, "0,1"), Device("shard", "", 3))
    assert shared_devices(devices, 1, 2) == (Device("gpu", "h100", 2, "2,3"), Device("shard", "", 3))


def test_a_member_alone_on_its_node_gets_all_of_its_devices() -> None:
    devices = (Device("gpu", "", 4, "0-3"),)
    assert shared_devices(devices, 0, 1) == devices


def test_a_packed_gang_needs_one_node_at_least_and_a_spread_one_as_many_as_members() -> None:
    spread = JobRequest(title="ring", cpus=1, memory_mb=1, members=4)
    assert spread.fewest_nodes == 4
    assert JobRequest(title="ring", cpus=1, memory_mb=1, members=4, layout=GangLayout.PACK).fewest_nodes == 1


def test_a_node_holds_a_request_as_often_as_its_scarcest_resource_allows() -> None:
    assert room.times({"CPUs": 2, "gpu": 1}, {"CPUs": 9, "gpu": 3}) == 3
    assert room.times({"CPUs": 2, "gpu": 0}, {"CPUs": 9}) == 4
    assert room.times({"CPUs": 2, "gpu": 1}, {"CPUs": 9}) == 0
