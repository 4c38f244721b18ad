"""What a controller does with the keys that it is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from extender.domain.backoff import Backoff
from extender.domain.ports import PortError
from extender.runtime import cooperative_yield
from extender.runtime.controller import Controller, Requeue, Resync

pytestmark = pytest.mark.looptime


class Recorder:
    """Remember which key was reconciled when. `fails` of the first calls raise, `lasts` seconds pass in each."""

    def __init__(self, *, fails: int = 0, lasts: float = 0.0, again: float | None = None) -> None:
        self.calls: list[tuple[str, float]] = []
        self.fails = fails
        self.lasts = lasts
        self.again = again
        self.now = self.most = 0

    async def __call__(self, key: str) -> Requeue | None:
        self.calls.append((key, asyncio.get_running_loop().time()))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.lasts)
        self.now -= 1
        if self.fails:
            self.fails -= 1
            raise PortError("nobody answers")
        return None if self.again is None else Requeue(self.again)

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.calls]

    @property
    def gaps(self) -> list[float]:
        times = [at for _, at in self.calls]
        return [round(later - earlier, 3) for earlier, later in pairwise(times)]


@asynccontextmanager
async def running(controller: Controller[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_each_key_is_reconciled_with_bounded_concurrency() -> None:
    done = Recorder(lasts=1.0)
    controller = Controller("test", done, workers=3)
    async with running(controller):
        for number in range(9):
            controller.add(str(number))
        await asyncio.sleep(3.5)
        assert sorted(done.keys) == [str(number) for number in range(9)]
        assert done.most == 3


async def test_a_key_whose_reconciliation_requests_it_comes_back_after_that_time() -> None:
    done = Recorder(again=5.0)
    controller = Controller("test", done)
    async with running(controller):
        controller.add("a")
        await asyncio.sleep(11.0)
    assert done.gaps == [5.0, 5.0]


async def test_a_delay_that_the_clock_cannot_add_is_a_tick() -> None:
    begun = asyncio.get_running_loop().time()
    calls = 0

    async def until_due(_key: str) -> Requeue | None:
        nonlocal calls
        calls += 1
        assert calls < 10, "it came back at the same instant"
        left = begun + 1e-12 - asyncio.get_running_loop().time()
        return Requeue(max(left, 1e-12)) if calls == 1 or left > 0 else None

    controller = Controller("test", until_due)
    async with running(controller):
        controller.add("a")
        await asyncio.sleep(1.0)
    assert calls == 2


async def test_a_key_that_fails_waits_longer_each_time_and_the_first_success_ends_that() -> None:
    done = Recorder(fails=4)
    controller = Controller("test", done, backoff=Backoff(1.0, 4.0))
    async with running(controller):
        controller.add("a")
        await asyncio.sleep(20.0)
        assert done.gaps == [1.0, 2.0, 4.0, 4.0]
        done.fails = 1
        controller.add("a")
        await asyncio.sleep(5.0)
    assert done.gaps[-1] == 1.0


async def test_a_failure_of_one_key_delays_no_other() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)
        if key == "bad":
            raise PortError("nobody answers")

    controller = Controller[str]("test", reconcile, backoff=Backoff(100.0, 100.0))
    async with running(controller):
        controller.add("bad")
        controller.add("good")
        await asyncio.sleep(1.0)
    assert seen == ["bad", "good"]


async def test_a_fault_of_the_program_ends_the_controller() -> None:
    async def reconcile(_key: str) -> None:
        raise ZeroDivisionError

    controller = Controller[str]("test", reconcile, workers=2)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    controller.add("a")
    with pytest.raises(ExceptionGroup) as raised:
        await task
    assert raised.group_contains(ZeroDivisionError)


async def test_the_start_and_each_resync_reconcile_every_key() -> None:
    done, there = Recorder(), ["a", "b"]
    controller = Controller("test", done, resync=Resync(lambda: there, every=10.0))
    async with running(controller):
        await asyncio.sleep(1.0)
        assert done.keys == ["a", "b"]
        there.append("c")
        await asyncio.sleep(10.0)
    assert done.keys == ["a", "b", "a", "b", "c"]


async def test_a_resync_with_a_rate_is_spread() -> None:
    done = Recorder()
    controller = Controller("test", done, resync=Resync(lambda: map(str, range(100)), every=1.0, per_second=10.0))
    async with running(controller):
        await asyncio.sleep(5.0)
        assert 40 <= len(done.calls) <= 60


async def test_keys_from_before_the_run_are_dropped_unless_they_are_to_be_kept() -> None:
    for keep, expected in ((False, list[str]()), (True, ["a"])):
        done = Recorder()
        controller = Controller("test", done, keep_early=keep)
        assert controller.add("a") is keep
        async with running(controller):
            await asyncio.sleep(1.0)
        assert done.keys == expected
        assert not controller.add("b")


async def test_a_controller_that_always_has_work_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)
    done = Recorder(again=0.0)
    controller = Controller("test", done)
    async with running(controller):
        controller.add("a")
        for _ in range(10):
            await asyncio.sleep(0)
    assert len(done.calls) > 1
