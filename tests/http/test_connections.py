"""The bounds of one listener: how many connections, for how long, with how many bytes; and which one has to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from extender.http.connections import ARRIVING_S, ConnectionPhase, ListenerConnections, ListenerLimits, ServedConnection

pytestmark = pytest.mark.looptime


class Listener:
    """Connections by name, and which were ended."""

    def __init__(self, **bounds: int) -> None:
        self.refused: list[str] = []
        self.ended: list[str] = []
        self.connections = ListenerConnections(
            ListenerLimits(**bounds), asyncio.get_running_loop(), ("x",), self.refused.append
        )

    def open(
        self, name: str, address: str = "a", phase: ConnectionPhase = ConnectionPhase.SILENT
    ) -> ServedConnection | None:
        return self.connections.open(address, self._end(name), phase)

    def _end(self, name: str) -> Callable[[], None]:
        return lambda: self.ended.append(name)


def entered(listener: Listener, name: str, phase: ConnectionPhase, address: str = "a") -> ServedConnection:
    found = listener.open(name, address)
    assert found is not None
    listener.connections.enter(found, phase)
    return found


async def test_a_full_listener_ends_the_one_that_is_longest_without_a_complete_head() -> None:
    listener = Listener(connections=4, per_address=4)
    entered(listener, "answered", ConnectionPhase.ANSWER)
    entered(listener, "idle", ConnectionPhase.IDLE)
    entered(listener, "first head", ConnectionPhase.HEAD)
    await asyncio.sleep(1)
    entered(listener, "second head", ConnectionPhase.HEAD)
    await asyncio.sleep(1)
    for name in ("next", "after"):
        assert listener.open(name, "b") is not None
    assert listener.ended == ["first head", "second head"]
    assert listener.refused == ["listener full"] * 2


async def test_what_is_being_answered_is_never_ended_for_a_new_one() -> None:
    listener = Listener(connections=2, per_address=2)
    for name in ("one", "two"):
        entered(listener, name, ConnectionPhase.ANSWER)
    assert listener.open("three", "b") is None
    assert listener.ended == []


async def test_a_greedy_address_loses_its_own_connections_alone() -> None:
    listener = Listener(connections=10, per_address=2)
    entered(listener, "kubelet", ConnectionPhase.HEAD, "b")
    for number in range(20):
        listener.open(f"flood {number}", "a")
    assert len(listener.connections) == 3
    assert "kubelet" not in listener.ended
    assert listener.ended == [f"flood {number}" for number in range(18)]


async def test_each_phase_ends_in_its_own_time_and_nothing_wakes_up_after() -> None:
    listener = Listener()
    entered(listener, "head", ConnectionPhase.HEAD)
    answer = entered(listener, "answer", ConnectionPhase.ANSWER)
    await asyncio.sleep(ARRIVING_S - 1)
    entered(listener, "later", ConnectionPhase.BODY)
    await asyncio.sleep(2.5)
    assert listener.ended == ["head"]
    await asyncio.sleep(ARRIVING_S)
    assert listener.ended == ["head", "later"]
    await asyncio.sleep(3600)
    assert not answer.ended
    assert listener.refused == ["no request head in time", "no request body in time"]


async def test_held_bytes_are_bounded_by_ending_the_slowest_body() -> None:
    listener = Listener(held_bytes=100)
    slow, honest = entered(listener, "slow", ConnectionPhase.BODY), entered(listener, "honest", ConnectionPhase.BODY)
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
    found = entered(listener, "x", ConnectionPhase.BODY)
    listener.connections.hold(found, 7)
    for _ in range(2):
        listener.connections.closed(found)
    assert (len(listener.connections), listener.connections.held, listener.ended) == (0, 0, [])
    assert not listener.connections.hold(found, 7)


async def test_a_flood_of_refusals_is_a_line_a_minute_and_a_number() -> None:
    listener = Listener()
    with capture_logs() as logs:
        for _ in range(130):
            listener.connections.notify("malformed request")
            await asyncio.sleep(1)
    assert [line["times"] for line in logs] == [1, 60, 60]
    assert len(listener.refused) == 130
