"""Ports are given to one lab at a time."""

import socket
from pathlib import Path

from lab.ports import FIRST, Ports


def test_two_labs_never_get_the_same_port(tmp_path: Path) -> None:
    with Ports(tmp_path) as one, Ports(tmp_path) as other:
        taken = [one.take(), other.take(), one.take(), other.take()]
    assert len(set(taken)) == 4


def test_a_port_that_is_in_use_is_skipped(tmp_path: Path) -> None:
    with Ports(tmp_path) as first:
        port = first.take()
    with socket.create_server(("127.0.0.1", port)), Ports(tmp_path) as second:
        assert second.take() != port


def test_a_released_port_is_given_again(tmp_path: Path) -> None:
    with Ports(tmp_path) as first:
        port = first.take()
    with Ports(tmp_path) as second:
        assert second.take() == port
    assert port >= FIRST
