"""Old news: lines that come twice, again or in another order, and lists that are older than what was seen."""

from __future__ import annotations

import asyncio
import random

import pytest

from extender.kube.order import ACCEPT_OLDER_LIST_AFTER_S
from simulator.kube.resources import PODS
from simulator.kube.watch_caches import WatchDisorder
from tests.builders.mirrors import Bench, a_bench

pytestmark = pytest.mark.looptime


async def disturbed(bench: Bench, disorder: WatchDisorder) -> None:
    bench.api.server.caches.disturb(disorder, random.Random(1))
    await asyncio.sleep(1)
    bench.mirror.changes.clear()


async def test_a_line_that_comes_twice_is_reported_once() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        await disturbed(bench, WatchDisorder.TWICE)
        bench.api.server.add_pod("a")
        bench.start_pod("a")
        await asyncio.sleep(2)
        assert bench.mirror.changes == ["a is Pending", "a is Running"]
        assert bench.mirror.lists == 1


async def test_a_pod_does_not_come_back_because_an_older_line_comes_again() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        await disturbed(bench, WatchDisorder.AGAIN)
        bench.api.server.add_pod("a")
        bench.start_pod("a")
        await asyncio.sleep(2)
        bench.api.server.delete_pod("a", grace_s=0)
        await asyncio.sleep(2)
        for number in range(10):
            bench.api.server.add_pod(f"other-{number}")
            await asyncio.sleep(2)
        assert "a" not in bench.mirror.names
        assert bench.mirror.lists == 1


async def test_what_came_before_the_list_and_is_reported_by_the_watch_is_no_news() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        await disturbed(bench, WatchDisorder.AGAIN)
        bench.api.server.add_pod("a")
        await asyncio.sleep(2)
        bench.api.server.delete_pod("a", grace_s=0)
        await asyncio.sleep(2)
        relisting = asyncio.create_task(bench.reflector.relist())
        await relisting
        for number in range(10):
            bench.api.server.add_pod(f"other-{number}")
            await asyncio.sleep(2)
        assert "a" not in bench.mirror.names


@pytest.mark.parametrize("disorder", [WatchDisorder.MIXED, WatchDisorder.SHUFFLED])
@pytest.mark.parametrize("seed", range(5))
async def test_a_watch_out_of_order_is_given_up_and_everything_listed(disorder: WatchDisorder, seed: int) -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        bench.api.server.caches.disturb(disorder, random.Random(seed))
        for number in range(4):
            bench.api.server.add_pod(f"p{number}")
            bench.start_pod(f"p{number}")
        bench.api.server.delete_pod("p1", grace_s=0)
        await asyncio.sleep(60)
        there = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in bench.api.server.storage.of(PODS)}
        assert {view.name: view.phase for view in bench.mirror.pods.values()} == there
        assert bench.reflector.status.relists["disorder"] >= 1


async def test_a_list_that_is_older_than_what_was_seen_removes_nothing() -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        bench.api.server.caches.stand_still(lambda: True)
        bench.api.server.add_pod("new")
        # The watch is of another API server.
        await asyncio.sleep(1)
        assert bench.mirror.names == ["new", "p0000"]
        relisting = asyncio.create_task(bench.reflector.relist())
        await asyncio.sleep(ACCEPT_OLDER_LIST_AFTER_S - 10)
        assert bench.mirror.names == ["new", "p0000"]
        assert bench.reflector.status.relists["stale"] >= 2
        assert "older" in bench.reflector.status.trouble
        bench.api.server.caches.heal()
        await relisting
        assert bench.mirror.names == ["new", "p0000"]


async def test_a_list_that_stays_older_for_minutes_is_trusted() -> None:
    """An etcd that was restored from a backup gives out its versions once more."""
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        before = bench.api.server.storage.save()
        bench.api.server.add_pod("lost")
        await asyncio.sleep(1)
        bench.api.server.storage.restore(before, bump=False)
        bench.api.app.drop_watches()
        await asyncio.sleep(ACCEPT_OLDER_LIST_AFTER_S + 60)
        assert bench.mirror.names == ["p0000"]
        bench.api.server.add_pod("next")
        await asyncio.sleep(1)
        assert bench.mirror.names == ["next", "p0000"]
