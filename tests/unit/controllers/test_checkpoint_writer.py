"""Checkpoints are shared by those that wait, and never raised over a number that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count

import pytest

from extender.controllers.checkpoint_writer import SHARED_FOR, WRITE_AGAIN_AFTER, CheckpointWriter
from extender.domain.jobs.checkpoint import Checkpoint
from extender.domain.ports import PortError
from tests.builders.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


class Store:
    """Checkpoints in memory; each write takes a second."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.writes = 0
        self.refuses = False

    async def read(self) -> Mapping[str, int]:
        return self.numbers

    async def begin(self, writer: str) -> None:
        await self._write()
        self.numbers[writer] = 1

    async def advance(self, writer: str, number: int) -> bool:
        await self._write()
        if self.numbers.get(writer) != number - 1:
            return False
        self.numbers[writer] = number
        return True

    async def _write(self) -> None:
        self.writes += 1
        await asyncio.sleep(1)
        if self.refuses:
            raise PortError("refused")


def a_writer(store: Store) -> CheckpointWriter:
    names = count(1)
    return CheckpointWriter(store, LoopClock(), lambda: f"{next(names):016x}")


async def test_numbers_of_one_writer_go_up() -> None:
    writer = a_writer(Store())
    assert [await writer.write(writer.begun), await writer.write(writer.begun)] == [
        Checkpoint("0" * 15 + "1", 1),
        Checkpoint("0" * 15 + "1", 2),
    ]


async def test_all_that_wait_share_the_write_that_begins_after_they_came() -> None:
    store = Store()
    writer = a_writer(store)
    first = asyncio.create_task(writer.write(writer.begun))
    await asyncio.sleep(0.5)
    others = await asyncio.gather(*(writer.write(writer.begun) for _ in range(9)))
    assert (await first, {str(one) for one in others}) == (Checkpoint("0" * 15 + "1", 1), {"0000000000000001.2"})
    assert store.writes == 2


async def test_after_a_restore_another_writer_continues_and_the_old_number_stays() -> None:
    store = Store()
    writer = a_writer(store)
    await writer.write(writer.begun)
    saved = dict(store.numbers)
    await writer.write(writer.begun)
    store.numbers = saved
    after = await writer.write(writer.begun)
    assert after == Checkpoint("0" * 15 + "2", 1)
    assert store.numbers == {"0" * 15 + "1": 1, "0" * 15 + "2": 1}


async def test_a_failed_write_gives_none_and_is_not_tried_again_at_once() -> None:
    store = Store()
    store.refuses = True
    writer = a_writer(store)
    assert await writer.write(writer.begun) is None
    assert await writer.write(writer.begun) is None
    assert (store.writes, writer.trouble) == (1, "refused")
    store.refuses = False
    await asyncio.sleep(WRITE_AGAIN_AFTER)
    assert await writer.write(writer.begun) is not None
    assert writer.trouble == ""


async def test_a_write_that_was_given_up_is_not_built_upon() -> None:
    store = Store()
    writer = a_writer(store)
    await writer.write(writer.begun)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await writer.write(writer.begun)
    assert (await writer.write(writer.begun)) == Checkpoint("0" * 15 + "2", 1)


async def test_pods_that_were_seen_before_a_write_began_need_no_other_one() -> None:
    store = Store()
    writer = a_writer(store)
    seen = writer.begun
    first = await writer.write(seen)
    assert await writer.write(seen) == first
    assert store.writes == 1


async def test_a_checkpoint_that_covers_the_pods_is_used_while_the_next_one_is_written() -> None:
    store = Store()
    writer = a_writer(store)
    seen = writer.begun
    first = await writer.write(seen)
    later = asyncio.create_task(writer.write(writer.begun))
    await asyncio.sleep(0.5)
    assert await writer.write(seen) == first
    await later
    assert store.writes == 2


async def test_a_checkpoint_is_not_named_long_after_it_was_written() -> None:
    store = Store()
    writer = a_writer(store)
    seen = writer.begun
    await writer.write(seen)
    await asyncio.sleep(SHARED_FOR + 1)
    assert await writer.write(seen) == Checkpoint("0" * 15 + "1", 2)
