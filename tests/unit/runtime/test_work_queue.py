"""Which key a worker gets, and when."""

from __future__ import annotations

import asyncio

import pytest

from extender.runtime.work_queue import IN_A_ROW, WorkQueue

pytestmark = pytest.mark.looptime


def namespace(key: str) -> str:
    return key.partition("/")[0]


async def taken(queue: WorkQueue[str], count: int) -> list[str]:
    found = []
    for _ in range(count):
        key = await queue.get()
        queue.done(key)
        found.append(key)
    return found


async def test_a_key_that_is_queued_twice_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    assert queue.add("a")
    assert not queue.add("a")
    assert len(queue) == 1
    assert await taken(queue, 1) == ["a"]
    assert len(queue) == 0
    assert queue.idle


async def test_a_key_that_changes_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    assert queue.add("a")
    assert len(queue) == 0
    assert queue.works_on("a")
    assert not queue.idle
    queue.done(key)
    assert len(queue) == 1
    assert await taken(queue, 1) == ["a"]


async def test_a_queue_without_rerun_drops_a_key_that_a_worker_has() -> None:
    queue: WorkQueue[str] = WorkQueue(rerun=False)
    queue.add("a")
    key = await queue.get()
    assert not queue.add("a")
    queue.done(key)
    assert queue.idle


async def test_owners_take_turns() -> None:
    queue: WorkQueue[str] = WorkQueue(flow_of=namespace)
    for number in range(240):
        queue.add(f"flood/{number}")
    queue.add("other/0")
    assert await taken(queue, 3) == ["flood/0", "other/0", "flood/1"]


async def test_the_better_rank_goes_first_and_the_other_is_skipped_a_few_times_only() -> None:
    queue: WorkQueue[str] = WorkQueue(ranks=2)
    queue.add("later", 1)
    for number in range(2 * IN_A_ROW):
        queue.add(f"soon {number}")
    order = await taken(queue, 2 * IN_A_ROW + 1)
    assert order.index("later") == IN_A_ROW


async def test_a_key_can_get_a_better_rank_and_never_a_worse_one() -> None:
    queue: WorkQueue[str] = WorkQueue(ranks=2)
    queue.add("first", 1)
    queue.add("second", 1)
    queue.add("second", 0)
    queue.add("second", 1)
    assert len(queue) == 2
    assert await taken(queue, 2) == ["second", "first"]
    queue.add("first", 1)
    assert await taken(queue, 1) == ["first"]
    assert queue.idle


async def test_a_delayed_key_is_ready_after_its_delay_and_the_shorter_of_two_delays_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    queue.add_after("a", 10.0)
    queue.add_after("a", 3.0)
    queue.add_after("a", 20.0)
    assert len(queue) == 0
    assert await taken(queue, 1) == ["a"]
    assert loop.time() - began == pytest.approx(3.0)
    assert queue.idle


async def test_a_key_that_is_added_before_its_delay_has_passed_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 5.0)
    queue.add("a")
    assert await taken(queue, 1) == ["a"]
    await asyncio.sleep(10.0)
    assert queue.idle


async def test_who_waits_for_work_gets_it_when_it_comes() -> None:
    queue: WorkQueue[int] = WorkQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add(1)
    queue.add(2)
    assert sorted(await asyncio.gather(*waiting)) == [1, 2]


async def test_a_closed_queue_adds_nothing_later() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 1.0)
    queue.close()
    await asyncio.sleep(2.0)
    assert queue.idle
