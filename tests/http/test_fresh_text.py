"""One text for many requests: how often it is made, and who may run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from extender.http.app import application, metrics_router
from extender.http.fresh_text import FRESH_S, FreshText
from extender.observability.metrics.registry import Metrics
from extender.observability.metrics.scrape import Sources
from extender.runtime import cooperative_yield
from tests.builders.hook_services import CountedIndex, bound_pods
from tests.builders.services import StillClock, client

WALKS = 2
"""Metrics that are sums over all workloads."""


async def test_requests_of_one_second_are_answered_with_one_text() -> None:
    clock, index = StillClock(), CountedIndex(bound_pods(20))
    metrics = Metrics(clock)
    metrics.read_from(Sources(placeholders=lambda: index.all.values()))
    async with client(application([metrics_router(metrics, clock)])) as http:
        for second in range(1, 4):
            answers = await asyncio.gather(*(http.get("/metrics") for _ in range(50)))
            assert {answer.text for answer in answers} == {answers[0].text}
            assert 'slurm_extender_placeholders{state="BOUND"} 20.0' in answers[0].text
            assert index.walks == second * WALKS
            clock.time += FRESH_S


async def test_other_tasks_run_between_the_parts_of_a_text_and_later_requests_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)
    events: list[str] = []

    def make() -> Iterator[bytes]:
        for part in ("a", "b"):
            events.append(part)
            yield part.encode()

    async def other() -> None:
        events.append("other")

    text = FreshText(make, StillClock())
    first, _, second = await asyncio.gather(text.get(), other(), text.get())
    assert (first, second) == (b"ab", b"ab")
    assert events == ["a", "other", "b"]


async def test_a_request_that_ends_early_leaves_the_text_to_the_next() -> None:
    text = FreshText(lambda: iter([b"a"]), StillClock())
    await text._making.acquire()
    waiting = asyncio.ensure_future(text.get())
    await asyncio.sleep(0)
    waiting.cancel()
    text._making.release()
    assert await text.get() == b"a"
