"""Work waits by rank, and within a rank by turns of namespaces."""

from __future__ import annotations

import asyncio

from extender.engine.turn_queue import TurnQueue


async def test_the_better_rank_goes_first_and_namespaces_take_turns() -> None:
    queue: TurnQueue[str] = TurnQueue(ranks=2)
    for number in range(240):
        queue.put("flood", f"f{number}", 1)
    queue.put("other", "o", 1)
    queue.put("flood", "first", 0)
    assert len(queue) == 242
    assert [await queue.get() for _ in range(4)] == ["first", "f0", "o", "f1"]


async def test_who_waits_for_work_gets_it_when_it_comes() -> None:
    queue: TurnQueue[int] = TurnQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.put("a", 1)
    queue.put("a", 2)
    assert sorted(await asyncio.gather(*waiting)) == [1, 2]
