"""Slurm's cores become Linux CPUs, and whatever an annotation holds is bounded and proved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.devices.cpu_order import (
    HIGHEST_CPU,
    LONGEST_ORDER,
    MOST_CPUS,
    NodeCpus,
    cpuset_text,
    linux_cpus,
    order_of_lscpu,
    order_text,
    read_order,
)
from extender.domain.gangs.layout import shared_devices
from extender.domain.jobs.devices import Cores, cores_of, written_devices

SERVER = tuple(cpu for socket in range(2) for core in range(8) for cpu in (socket * 8 + core, 16 + socket * 8 + core))
"""Two sockets of eight cores with two threads, as Linux numbers them on most servers: second threads come last."""


def lscpu(cpus: int, sockets: int, cores: int, *, offline: frozenset[int] = frozenset()) -> str:
    """Return what `lscpu -p=CPU,CORE,SOCKET,NODE` prints of a server whose second threads come last."""
    rows = [
        f"{cpu},{cpu % (sockets * cores)},{cpu % (sockets * cores) // cores},{cpu % (sockets * cores) // cores}"
        for cpu in range(cpus)
        if cpu not in offline
    ]
    return "# CPU,Core,Socket,Node\n" + "\n".join(rows) + "\n"


def test_threads_of_a_core_are_neighbours_in_the_order() -> None:
    assert order_of_lscpu(lscpu(32, 2, 8)) == SERVER


def test_offline_cpus_are_no_part_of_the_order() -> None:
    offline = frozenset({3, 19})
    assert order_of_lscpu(lscpu(32, 2, 8, offline=offline)) == tuple(cpu for cpu in SERVER if cpu not in offline)


def test_sockets_with_alternating_cpus_are_ordered_by_their_lowest_cpu() -> None:
    text = "0,0,0,0\n1,1,1,1\n2,2,0,0\n3,3,1,1\n"
    assert order_of_lscpu(text) == (0, 2, 1, 3)


def test_numa_nodes_of_one_socket_come_one_after_the_other() -> None:
    assert order_of_lscpu("0,0,0,0\n1,1,0,1\n2,2,0,0\n3,3,0,1\n") == (0, 2, 1, 3)


def test_core_numbers_that_repeat_on_each_socket_are_different_cores() -> None:
    assert order_of_lscpu("0,0,0,0\n1,1,0,0\n2,0,1,1\n3,1,1,1\n") == (0, 1, 2, 3)


def test_a_machine_without_numa_nodes_has_an_order() -> None:
    assert order_of_lscpu("0,0,0,\n1,1,0,\n") == (0, 1)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "0,0,0\n", "a,0,0,0\n", "0,0,0,0\n0,0,0,0\n", "-1,0,0,0"])
def test_text_that_is_no_table_of_lscpu_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        order_of_lscpu(text)


def test_an_order_of_too_many_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        order_of_lscpu("\n".join(f"{cpu},{cpu},0,0" for cpu in range(MOST_CPUS + 1)))


@pytest.mark.parametrize(
    "text",
    ["", ",", "0,", "0,0", "0-3,2", "3-1", "-1", "0 1", "0x1", "٣", "1-", f"{HIGHEST_CPU + 1}", "99999", "0-8191"],
)
def test_an_order_that_names_no_cpu_or_one_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_order(text)


def test_a_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(ValueError, match="characters"):
        read_order("0," * LONGEST_ORDER)


@given(st.lists(st.integers(0, HIGHEST_CPU), min_size=1, max_size=200, unique=True))
def test_a_written_order_is_read_as_it_was(order: list[int]) -> None:
    text = order_text(order)
    assert read_order(text) == tuple(order)
    assert sorted(read_order(cpuset_text(order))) == sorted(order)


@given(st.text(max_size=40))
def test_any_text_is_an_order_or_a_value_error(text: str) -> None:
    try:
        order = read_order(text)
    except ValueError:
        return
    assert 0 < len(set(order)) == len(order) <= MOST_CPUS


@given(st.integers(1, 4), st.integers(1, 16), st.integers(1, 4), st.data())
def test_different_cores_have_different_cpus_and_all_cores_have_all(
    sockets: int, cores: int, threads: int, data: st.DataObject
) -> None:
    total = sockets * cores
    order = data.draw(st.permutations(range(total * threads)))
    parts = [linux_cpus(order, Cores(total, threads, (core,))) for core in range(total)]
    assert all(len(part) == threads for part in parts)
    assert sorted(cpu for part in parts for cpu in part) == list(range(total * threads))


def test_cores_of_another_topology_than_the_map_are_refused() -> None:
    with pytest.raises(ValueError, match="Slurm counts 2 cores with 1 CPUs each, and the map has 4 CPUs"):
        linux_cpus((0, 1, 2, 3), Cores(2, 1, (0,)))
    with pytest.raises(ValueError, match="beyond"):
        linux_cpus((0, 1), Cores(2, 1, (2,)))


def test_the_map_must_have_as_many_cpus_as_the_node() -> None:
    assert NodeCpus("0,2,1,3", "4").order() == (0, 2, 1, 3)
    with pytest.raises(ValueError, match="has 4 CPUs, and the Node has 8"):
        NodeCpus("0-3", "8").order()
    with pytest.raises(ValueError, match="has no annotation"):
        NodeCpus("", "8").order()


@pytest.mark.parametrize("capacity", ["", "0", "4500m", "-1", "9999999999", "1e3", "1025"])
def test_a_node_without_a_usable_capacity_has_no_order(capacity: str) -> None:
    with pytest.raises(ValueError, match="capacity"):
        NodeCpus("0-3", capacity).order()


def test_a_registered_node_has_its_cores_in_the_order_of_the_cpus_that_are_not_reserved() -> None:
    assert NodeCpus("", "4", registered=3).order(frozenset({0})) == (1, 2, 3)
    assert NodeCpus("0,2,1,3", "4", registered=2).order() == (0, 2)
    with pytest.raises(ValueError, match="registered with 4 CPUs, and 3 are not reserved"):
        NodeCpus("", "4", registered=4).order(frozenset({1}))


def test_cores_are_kept_as_a_device_that_no_annotation_shows() -> None:
    cores = Cores(16, 2, (0, 5, 6))
    assert cores_of((cores.as_device(),)) == cores
    assert cores_of(()) is None
    assert written_devices((cores.as_device(),)) == {}


def test_members_that_share_a_node_share_its_cores() -> None:
    shared = [shared_devices((Cores(8, 1, (0, 1, 4, 5)).as_device(),), place, 2) for place in range(2)]
    assert [found.given for one in shared if (found := cores_of(one))] == [(0, 1), (4, 5)]
