"""Others have their turn when a slice of time is over, and not before."""

from __future__ import annotations

import asyncio

import pytest

from extender.runtime.cooperative_yield import SLICE_S, CooperativeYield


@pytest.mark.parametrize(("spent", "others"), [(SLICE_S / 2, []), (SLICE_S * 2, ["ran"])])
async def test_the_loop_is_left_to_others_after_a_slice(spent: float, others: list[str]) -> None:
    now, ran = 0.0, list[str]()
    turns = CooperativeYield(lambda: now)
    asyncio.get_running_loop().call_soon(ran.append, "ran")
    now = spent
    await turns.maybe_yield()
    assert ran == others
    assert not (others and turns.is_due)
