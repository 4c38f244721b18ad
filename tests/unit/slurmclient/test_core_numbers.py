"""Cores of an allocation: numbered over all sockets of the node, and none where the list is not whole."""

import pytest

from slurmclient.wire.job import read_allocations


def _socket(at: object, *statuses: object) -> dict[str, object]:
    return {"index": at, "cores": [{"index": number, "status": status} for number, status in enumerate(statuses)]}


def _read(*sockets: object) -> tuple[tuple[int, ...], int]:
    nodes = {"allocation": [{"name": "node-1", "sockets": list(sockets)}]}
    (allocation,) = read_allocations({"job_resources": {"nodes": nodes}})
    return allocation.cores, allocation.node_cores


def test_cores_of_a_later_socket_follow_those_of_the_first() -> None:
    assert _read(_socket(0, ["ALLOCATED"], ["UNALLOCATED"]), _socket(1, [], ["ALLOCATED", "IN_USE"])) == ((0, 3), 4)


@pytest.mark.parametrize(
    "hostile",
    [
        _socket(1, ["ALLOCATED"]),
        _socket("0", ["ALLOCATED"]),
        _socket(0, None),
        {"index": 0},
        {"index": 0, "cores": 5},
        {"index": 0, "cores": [{"index": 1, "status": ["ALLOCATED"]}]},
        {"index": 0, "cores": [7]},
        "socket",
        None,
    ],
    ids=str,
)
def test_a_list_that_is_not_whole_gives_no_cores(hostile: object) -> None:
    assert _read(hostile) == ((), 0)
