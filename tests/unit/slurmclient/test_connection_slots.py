"""The order of requests that wait for a slot."""

from __future__ import annotations

import asyncio

import pytest

from slurmclient.connection_pool import ConnectionSlots

pytestmark = pytest.mark.looptime


async def test_urgent_requests_overtake_all_others_that_wait() -> None:
    slots, went = ConnectionSlots(1), list[str]()

    async def go(name: str, *, urgent: bool) -> None:
        async with slots.slot(urgent=urgent):
            went.append(name)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(go(name, urgent=False))
        for name in ("drain", "another"):
            group.create_task(go(name, urgent=True))
    assert went == ["a", "drain", "another", "b", "c"]


@pytest.mark.parametrize("late", [False, True])
async def test_a_slot_whose_request_was_cancelled_goes_to_the_next(late: bool) -> None:
    slots = ConnectionSlots(1)
    waiting = asyncio.ensure_future(_once(slots))
    async with slots.slot(urgent=False):
        await asyncio.sleep(0)
        if not late:
            waiting.cancel()
    waiting.cancel()  # late: the slot was given in this very turn
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    async with asyncio.timeout(1):
        await _once(slots)


async def _once(slots: ConnectionSlots) -> None:
    async with slots.slot(urgent=False):
        pass
