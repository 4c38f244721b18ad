"""The loop whose time jumps: exact, in order, and loud where nothing can happen any more."""

from __future__ import annotations

import asyncio

import pytest

from extender.sim.virtual_time import Stuck, run_virtual


def test_a_day_passes_exactly_and_in_the_order_of_the_timers() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 86_400.1), sleeper("early", 0.1), sleeper("late too", 86_400.1))

    run_virtual(main())
    assert seen == [("early", 0.1), ("late", 86_400.1), ("late too", 86_400.1)]


def test_a_program_that_waits_for_nothing_is_told_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="nothing will ever happen"):
        run_virtual(main())
