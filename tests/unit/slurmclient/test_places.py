"""Who is sent first where all places at connections are taken."""

from __future__ import annotations

import asyncio

import pytest

from slurmclient.places import Places

pytestmark = pytest.mark.looptime


async def test_those_that_cannot_wait_go_before_all_others_who_wait() -> None:
    places, went = Places(1), list[str]()

    async def go(name: str, *, first: bool) -> None:
        async with places.place(first=first):
            went.append(name)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(go(name, first=False))
        for name in ("drain", "another"):
            group.create_task(go(name, first=True))
    assert went == ["a", "drain", "another", "b", "c"]


@pytest.mark.parametrize("late", [False, True])
async def test_a_place_that_nobody_wants_any_more_goes_on(late: bool) -> None:
    places = Places(1)
    waiting = asyncio.ensure_future(_once(places))
    async with places.place(first=False):
        await asyncio.sleep(0)
        if not late:
            waiting.cancel()
    waiting.cancel()  # late: the place was given in this very turn
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    async with asyncio.timeout(1):
        await _once(places)


async def _once(places: Places) -> None:
    async with places.place(first=False):
        pass
