"""How often a job is read for calls of hooks, and for which of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from extender.controllers.hook_reads import AT_ONCE, EVERY_S, HookReads
from extender.domain.placeholder import State
from extender.domain.states import PlaceholderJob
from extender.engine.engine import Engine
from extender.engine.placeholder_index import PlaceholderIndex
from tests.builders.loop_clock import LoopClock
from tests.builders.placeholders import in_state

pytestmark = pytest.mark.looptime

TAKES_S = 0.1


class SlowReads:
    """An engine whose reads take a while. `ended`: jobs whose end the next read shows."""

    def __init__(self, *jobs: int) -> None:
        self.placeholders = PlaceholderIndex()
        self.began: list[tuple[int, float]] = []
        self.ended: set[int] = set()
        self.answers = True
        self.under_way = self.most = 0
        for job_id in jobs:
            self.placeholders.put(in_state(State.BOUND, f"u{job_id}", PlaceholderJob(job_id)))

    async def read_job(self, job_id: int, _cause: str) -> bool:
        self.began.append((job_id, asyncio.get_running_loop().time()))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(TAKES_S)
        self.under_way -= 1
        if job_id in self.ended:
            self.placeholders.put(in_state(State.LOST, f"u{job_id}", PlaceholderJob(job_id)))
        return self.answers


@asynccontextmanager
async def running(engine: SlowReads) -> AsyncIterator[HookReads]:
    reads = HookReads(cast(Engine, engine), LoopClock())
    task = asyncio.create_task(reads.run())
    await asyncio.sleep(0)
    try:
        yield reads
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("answers", [True, False])
async def test_a_call_that_comes_alone_is_answered_at_once_with_what_slurm_said(answers: bool) -> None:
    engine = SlowReads(7)
    engine.answers = answers
    async with running(engine) as reads:
        began = now()
        assert await reads.read(7) is answers
        assert now() - began == pytest.approx(TAKES_S)


async def test_calls_that_come_during_a_read_share_the_next_one() -> None:
    engine = SlowReads(7)
    async with running(engine) as reads:
        began = now()
        first = asyncio.create_task(reads.read(7))
        await asyncio.sleep(TAKES_S / 2)
        await asyncio.gather(*(reads.read(7) for _ in range(1000)))
        assert first.done()
        assert [at - began for _, at in engine.began] == pytest.approx([0.0, EVERY_S])


async def test_a_job_is_read_once_a_second_however_often_it_is_named() -> None:
    engine = SlowReads(7)
    async with running(engine) as reads:
        began = now()
        for _ in range(10):
            await reads.read(7)
        assert [at - began for _, at in engine.began] == pytest.approx([EVERY_S * number for number in range(10)])


async def test_one_job_keeps_another_from_nothing() -> None:
    engine = SlowReads(7, 8)
    async with running(engine) as reads:
        await reads.read(7)
        began, other = now(), asyncio.create_task(reads.read(7))
        await reads.read(8)
        assert now() - began == pytest.approx(TAKES_S)
        await other


async def test_of_many_jobs_a_few_are_read_at_once() -> None:
    engine = SlowReads(*range(100))
    async with running(engine) as reads:
        assert all(await asyncio.gather(*(reads.read(job_id) for job_id in range(100))))
    assert engine.most == AT_ONCE
    assert len(engine.began) == 100


async def test_calls_that_wait_for_the_next_read_are_answered_when_one_shows_the_end() -> None:
    engine = SlowReads(7)
    engine.ended = {7}
    async with running(engine) as reads:
        began, first = now(), asyncio.create_task(reads.read(7))
        await asyncio.sleep(TAKES_S / 2)
        assert await reads.read(7)
        assert first.done()
        assert now() - began == pytest.approx(TAKES_S)
        await asyncio.sleep(2 * EVERY_S)
        assert len(engine.began) == 1


async def test_a_call_that_is_given_up_ends_no_other() -> None:
    engine = SlowReads(7)
    async with running(engine) as reads:
        given_up, other = asyncio.create_task(reads.read(7)), asyncio.create_task(reads.read(7))
        await asyncio.sleep(TAKES_S / 2)
        given_up.cancel()
        assert await other
