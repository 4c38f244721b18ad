"""A lab with kubelets has a network of its own, and leaves this process in the network where it was."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.network import add_bridge, isolated_network, node_address

pytestmark = pytest.mark.lab


def links() -> list[str]:
    shown = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout
    return [line.split(": ")[1] for line in shown.splitlines()]


def network() -> str:
    return os.readlink("/proc/thread-self/ns/net")


def test_processes_and_threads_of_the_block_see_its_devices_alone() -> None:
    before, outside = network(), links()
    with isolated_network():
        add_bridge(1)
        assert links() == ["lo", "lab-1"]
        addresses = subprocess.run(["ip", "-oneline", "address"], capture_output=True, text=True, check=True).stdout
        assert f"{node_address(1)}/32" in addresses
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(network).result() == network() != before
    assert network() == before
    assert links() == outside


def test_an_error_in_the_block_leaves_the_network_too() -> None:
    before = network()
    with pytest.raises(ZeroDivisionError), isolated_network():
        assert 1 / 0
    assert network() == before
