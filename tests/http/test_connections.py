"""The bounds of one listener: how many connections, for how long, with how many bytes; and which one has to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from extender.http.connections import ARRIVING_S, Bounds, Connection, Connections, Phase

pytestmark = pytest.mark.looptime


class Listener:
    """Connections by name, and which were ended."""

    def __init__(self, **bounds: int) -> None:
        self.refused: list[str] = []
        self.ended: list[str] = []
        self.connections = Connections(Bounds(**bounds), asyncio.get_running_loop(), ("x",), self.refused.append)

    def open(self, name: str, address: str = "a", phase: Phase = Phase.SILENT) -> Connection | None:
        return self.connections.open(address, self._end(name), phase)

    def _end(self, name: str) -> Callable[[], None]:
        return lambda: self.ended.append(name)


def entered(listener: Listener, name: str, phase: Phase, address: str = "a") -> Connection:
    found = listener.open(name, address)
    assert found is not None
    listener.connections.enter(found, phase)
    return found


async def test_a_full_listener_ends_the_one_that_is_longest_without_a_complete_head() -> None:
    listener = Listener(connections=4, per_address=4)
    entered(listener, "answered", Phase.ANSWER)
    entered(listener, "idle", Phase.IDLE)
    entered(listener, "first head", Phase.HEAD)
    await asyncio.sleep(1)
    entered(listener, "second head", Phase.HEAD)
    await asyncio.sleep(1)
    for name in ("next", "after"):
        assert listener.open(name, "b") is not None
    assert listener.ended == ["first head", "second head"]
    assert listener.refused == ["listener full"] * 2


async def test_what_is_being_answered_is_never_ended_for_a_new_one() -> None:
    listener = Listener(connections=2, per_address=2)
    for name in ("one", "two"):
        entered(listener, name, Phase.ANSWER)
    assert listener.open("three", "b") is None
    assert listener.ended == []


async def test_a_greedy_address_loses_its_own_connections_alone() -> None:
    listener = Listener(connections=10, per_address=2)
    entered(listener, "kubelet", Phase.HEAD, "b")
    for number in range(20):
        listener.open(f"flood {number}", "a")
    assert len(listener.connections) == 3
    assert "kubelet" not in listener.ended
    assert listener.ended == [f"flood {number}" for number in range(18)]


async def test_each_phase_ends_in_its_own_time_and_nothing_wakes_up_after() -> None:
    listener = Listener()
    entered(listener, "head", Phase.HEAD)
    answer = entered(listener, "answer", Phase.ANSWER)
    await asyncio.sleep(ARRIVING_S - 1)
    entered(listener, "later", Phase.BODY)
    await asyncio.sleep(2.5)
    assert listener.ended == ["head"]
    await asyncio.sleep(ARRIVING_S)
    assert listener.ended == ["head", "later"]
    await asyncio.sleep(3600)
    assert not answer.over
    assert listener.refused == ["no request head in time", "no request body in time"]


async def test_held_bytes_are_bounded_by_ending_the_slowest_body() -> None:
    listener = Listener(held_bytes=100)
    slow, honest = entered(listener, "slow", Phase.BODY), entered(listener, "honest", Phase.BODY)
    assert listener.connections.hold(slow, 90)
    assert listener.connections.hold(honest, 20)
    assert listener.ended == ["slow"]
    assert listener.connections.held == 20
    listener.connections.release(honest)
    assert listener.connections.held == 0
    assert not listener.connections.hold(honest, 101)
    assert listener.ended == ["slow", "honest"]


async def test_a_closed_connection_leaves_nothing_behind() -> None:
    listener = Listener()
    found = entered(listener, "x", Phase.BODY)
    listener.connections.hold(found, 7)
    for _ in range(2):
        listener.connections.closed(found)
    assert (len(listener.connections), listener.connections.held, listener.ended) == (0, 0, [])
    assert not listener.connections.hold(found, 7)


async def test_a_flood_of_refusals_is_a_line_a_minute_and_a_number() -> None:
    listener = Listener()
    with capture_logs() as logs:
        for _ in range(130):
            listener.connections.tell("malformed request")
            await asyncio.sleep(1)
    assert [line["times"] for line in logs] == [1, 60, 60]
    assert len(listener.refused) == 130
