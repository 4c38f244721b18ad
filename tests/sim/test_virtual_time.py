"""The loop whose time jumps: exact, in order, and loud where nothing can happen any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from simulator.replicas.process_loop import ProcessLoop
from simulator.virtual_time import Stuck, run_virtual


def test_a_day_passes_exactly_and_in_the_order_of_the_timers() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 86_400.1), sleeper("early", 0.1), sleeper("late too", 86_400.1))

    run_virtual(main())
    assert seen == [("early", 0.1), ("late", 86_400.1), ("late too", 86_400.1)]


def _fails() -> None:
    raise LookupError("none")


async def _large_answers_are_read() -> None:
    """As they are outside of simulations: in a thread, while a timer runs."""
    loop = asyncio.get_running_loop()
    began, timer = loop.time(), loop.call_later(0.001, lambda: None)
    assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
    with pytest.raises(LookupError):
        await asyncio.to_thread(_fails)
    assert loop.time() == began
    timer.cancel()


def test_what_is_given_to_a_thread_is_done_at_once_and_takes_no_virtual_time() -> None:
    run_virtual(_large_answers_are_read())


def test_nor_does_it_in_a_process_among_others() -> None:
    async def main() -> None:
        own = ProcessLoop(asyncio.get_running_loop())
        finished = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                await _large_answers_are_read()
            finally:
                finished.set_result(None)

        task = own.create_task(work())
        await finished
        own.close()
        task.result()

    run_virtual(main())


@pytest.mark.looptime
async def test_nor_in_a_test_on_virtual_time() -> None:
    await _large_answers_are_read()


@pytest.fixture
async def begun() -> float:
    await asyncio.sleep(7)
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_a_fixture_and_its_test_live_by_one_clock_which_begins_at_0(begun: float) -> None:
    assert asyncio.get_running_loop().time() == begun == 7


def test_a_program_that_waits_for_nothing_is_reported() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="nothing will ever happen"):
        run_virtual(main())
