"""Requests go on where who asked is gone, until their answer or until they are given up."""

from __future__ import annotations

import asyncio
import gc

import pytest

from extender.unanswered import Unanswered

pytestmark = pytest.mark.looptime


async def answer(after_s: float, done: list[float]) -> float:
    await asyncio.sleep(after_s)
    done.append(after_s)
    return after_s


async def test_whoever_asks_gets_the_answer_or_the_fault() -> None:
    async def fail() -> None:
        raise ValueError("refused")

    unanswered = Unanswered()
    assert await unanswered.carry(answer(1.0, [])) == 1.0
    with pytest.raises(ValueError, match="refused"):
        await unanswered.carry(fail())
    assert await unanswered.answered(0.0) == 0


async def test_a_request_outlives_who_asked_and_its_answer_is_waited_for() -> None:
    unanswered, done = Unanswered(), list[float]()
    asked = [asyncio.create_task(unanswered.carry(answer(after_s, done))) for after_s in (1.0, 3.0, 9.0)]
    await asyncio.sleep(0.5)
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    assert all(one.cancelled() for one in asked)
    assert await unanswered.answered(4.0) == 1
    assert done == [1.0, 3.0]
    assert await unanswered.answered(10.0) == 0


async def test_what_is_given_up_ends_and_nobody_hears_more_of_it() -> None:
    unanswered, done = Unanswered(), list[float]()
    asked = asyncio.create_task(unanswered.carry(answer(5.0, done)))
    await asyncio.sleep(1)
    await unanswered.close()
    await asyncio.wait((asked,))
    assert (asked.cancelled(), done) == (True, [])
    assert await unanswered.answered(0.0) == 0


async def test_a_fault_that_nobody_waits_for_is_no_fault_of_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("refused")

    unanswered = Unanswered()
    asked = asyncio.create_task(unanswered.carry(fail()))
    await asyncio.sleep(0.5)
    asked.cancel()
    assert await unanswered.answered(5.0) == 0
    del asked
    gc.collect()
    assert not caplog.records
