"""Requests go on where who asked is gone, until their answer or until they are given up."""

from __future__ import annotations

import asyncio
import gc

import pytest

from extender.assembly.in_flight_writes import InFlightWrites

pytestmark = pytest.mark.looptime


async def answer(after_s: float, done: list[float]) -> float:
    await asyncio.sleep(after_s)
    done.append(after_s)
    return after_s


async def test_every_caller_gets_the_answer_or_the_fault() -> None:
    async def fail() -> None:
        raise ValueError("refused")

    in_flight_writes = InFlightWrites()
    assert await in_flight_writes.shield(answer(1.0, [])) == 1.0
    with pytest.raises(ValueError, match="refused"):
        await in_flight_writes.shield(fail())
    assert await in_flight_writes.answered(0.0) == 0


async def test_a_request_outlives_its_caller_and_its_answer_is_waited_for() -> None:
    in_flight_writes, done = InFlightWrites(), list[float]()
    requests = [asyncio.create_task(in_flight_writes.shield(answer(after_s, done))) for after_s in (1.0, 3.0, 9.0)]
    await asyncio.sleep(0.5)
    for one in requests:
        one.cancel()
    await asyncio.wait(requests)
    assert all(one.cancelled() for one in requests)
    assert await in_flight_writes.answered(4.0) == 1
    assert done == [1.0, 3.0]
    assert await in_flight_writes.answered(10.0) == 0


async def test_what_is_given_up_ends_and_reports_nothing_more() -> None:
    in_flight_writes, done = InFlightWrites(), list[float]()
    requests = asyncio.create_task(in_flight_writes.shield(answer(5.0, done)))
    await asyncio.sleep(1)
    await in_flight_writes.close()
    await asyncio.wait((requests,))
    assert (requests.cancelled(), done) == (True, [])
    assert await in_flight_writes.answered(0.0) == 0


async def test_a_fault_without_a_waiter_is_no_fault_of_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("refused")

    in_flight_writes = InFlightWrites()
    requests = asyncio.create_task(in_flight_writes.shield(fail()))
    await asyncio.sleep(0.5)
    requests.cancel()
    assert await in_flight_writes.answered(5.0) == 0
    del requests
    gc.collect()
    assert not caplog.records
