"""How often nodes that are kept drained are looked at, lest somebody lifts the drain."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from extender.controllers.nodes.resumes import APART, AT_ONCE, LONGEST, SLOW_READ_INTERVAL_S, ResumeWatch
from tests.builders.fake_api import running
from tests.builders.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


@dataclass
class Looks:
    """Counts them."""

    held: list[str] = field(default_factory=list)
    of: Counter[str] = field(default_factory=Counter)
    takes: float = 0.0
    watch: ResumeWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = ResumeWatch(LoopClock(), lambda node: node in self.held, self.check)

    async def check(self, node: str) -> None:
        self.of[node] += 1
        await asyncio.sleep(self.takes)

    async def during(self, seconds: float) -> Counter[str]:
        self.of.clear()
        await asyncio.sleep(seconds)
        return Counter(self.of)


@asynccontextmanager
async def watching(*held: str, closely: float = 0.0) -> AsyncIterator[Looks]:
    looks = Looks(list(held))
    for node in held:
        looks.watch.closely(node, closely)
        looks.watch.begin(node)
    async with running(looks.watch.run()):
        yield looks


async def test_a_node_where_a_pod_may_be_ending_is_checked_every_moment_and_rarely_afterwards() -> None:
    async with watching("n1", closely=60.0) as looks:
        assert (await looks.during(30.0))["n1"] >= 30.0 / APART - 2
        await looks.during(31.0)
        assert 8 <= (await looks.during(20.0))["n1"] <= 20.0 / SLOW_READ_INTERVAL_S


async def test_other_nodes_do_not_take_turns_from_one_where_it_hurts() -> None:
    async with watching(*(f"n{number}" for number in range(100))) as looks:
        looks.watch.closely("n50", 3600.0)
        await asyncio.sleep(SLOW_READ_INTERVAL_S)
        seen = await looks.during(60.0)
        assert seen["n50"] >= 60.0 / APART - 5
        assert min(seen.values()) >= 20


async def test_however_many_are_held_the_reads_are_bounded_and_each_has_its_turn() -> None:
    names = [f"n{number}" for number in range(1000)]
    async with watching(*names) as looks:
        seen = await looks.during(120.0)
        assert seen.total() <= AT_ONCE * 120.0 / (SLOW_READ_INTERVAL_S / 4)
        assert len(seen) == len(names)
        for name in names:
            looks.watch.closely(name, 3600.0)
        assert (await looks.during(30.0)).total() <= AT_ONCE * 30.0 / APART


async def test_no_node_is_read_while_none_is_held_and_the_next_one_is() -> None:
    async with watching() as looks:
        assert not await looks.during(100.0)
        looks.held.append("n1")
        looks.watch.closely("n1", 10.0)
        looks.watch.begin("n1")
        assert (await looks.during(2.0))["n1"] >= 2.0 / APART - 2


async def test_where_slurm_is_slow_the_pause_after_a_read_stays_short_while_a_pod_may_be_ending() -> None:
    async with watching("n1", closely=60.0) as looks:
        looks.takes = 0.3
        assert (await looks.during(30.0))["n1"] >= 30.0 / (looks.takes + LONGEST) - 2
