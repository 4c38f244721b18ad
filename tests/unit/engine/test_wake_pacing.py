"""How many woken Pods wait for kube-scheduler at a time, and whose turn is next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from extender.domain import commands as c
from extender.domain.events import MemberRef
from extender.domain.placeholder import Placeholder
from extender.engine.wake_pacing import LEAST_UNTRIED, MOST_UNTRIED_S, TIMES_KEPT, UNTRIED, UNTRIED_S
from extender.runtime.topics import PodFiltered, PodRemoved
from tests.builders.dispatchers import dispatcher
from tests.builders.pod_views import a_pod

pytestmark = pytest.mark.looptime


class Woken:
    """Wake Pods of namespaces through a dispatcher, and record which were woken."""

    def __init__(self, kept: Callable[[str], bool] = lambda _uid: False, *, gated: bool = True) -> None:
        self.uids: list[str] = []
        self.queues = dispatcher(
            self._execute, 64, may_wake=lambda _key, command: not kept(command.member.uid), gated=gated
        )

    async def _execute(self, _key: str, command: c.Command) -> None:
        assert isinstance(command, c.WakePod)
        self.uids.append(command.member.uid)

    def grant(self, namespace: str, count: int, gang: str = "") -> None:
        """Wake so many Pods, or members of a gang."""
        for number in range(count):
            uid = f"{namespace}-{gang}{number}"
            self.queues.put(Placeholder(gang or uid), c.WakePod(MemberRef(uid, namespace, uid), "n1", number))

    def try_pod(self, uid: str) -> None:
        self.queues.tried(PodFiltered(uid.partition("-")[0], uid))

    def remove(self, uid: str) -> None:
        self.queues.removed(PodRemoved(uid, a_pod(uid=uid, namespace=uid.partition("-")[0])))

    async def settle(self, seconds: float = 0.01) -> list[str]:
        """Return which Pods were woken since the last call."""
        before = len(self.uids)
        await asyncio.sleep(seconds)
        return self.uids[before:]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Woken]:
        task = asyncio.create_task(self.queues.run())
        yield self
        task.cancel()
        await asyncio.wait([task])


def pods(namespace: str, *numbers: int) -> list[str]:
    return [f"{namespace}-{number}" for number in numbers]


async def test_few_pods_of_a_namespace_wait_for_kube_scheduler_at_a_time_and_each_that_is_tried_wakes_the_next() -> (
    None
):
    async with Woken().running() as woken:
        woken.grant("flood", 240)
        assert await woken.settle() == pods("flood", *range(UNTRIED))
        for uid in pods("flood", 3, 0):
            woken.try_pod(uid)
        woken.try_pod("flood-100")  # kube-scheduler tries it without having been woken
        assert await woken.settle() == pods("flood", UNTRIED, UNTRIED + 1)
        woken.grant("other", 1)
        assert await woken.settle() == pods("other", 0)


async def test_namespaces_that_wake_pods_share_the_places_before_kube_scheduler() -> None:
    async with Woken().running() as woken:
        woken.grant("other", 1)
        woken.grant("flood", 240)
        assert await woken.settle() == [*pods("other", 0), *pods("flood", *range(UNTRIED // 2))]
        for number in range(UNTRIED):
            woken.grant(f"more{number}", 1)
        await woken.settle()
        woken.try_pod("flood-0")
        assert await woken.settle() == []  # its share has become smaller
        for uid in pods("flood", *range(1, UNTRIED // 2 - LEAST_UNTRIED + 1)):
            woken.try_pod(uid)
        assert await woken.settle() == pods("flood", UNTRIED // 2)


async def test_a_share_grows_when_the_other_namespaces_wake_no_pod_any_more() -> None:
    async with Woken().running() as woken:
        woken.grant("other", 1)
        woken.try_pod("other-0")
        woken.grant("flood", 240)
        assert await woken.settle() == [*pods("other", 0), *pods("flood", *range(UNTRIED // 2))]
        assert len(await woken.settle(3 * UNTRIED_S)) == UNTRIED // 2


async def test_a_busy_kube_scheduler_gets_the_next_pods_as_it_tries_those_before() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 240)
        await woken.settle(4 * UNTRIED_S)
        for uid in pods("flood", *range(UNTRIED)):
            woken.try_pod(uid)
        assert len(await woken.settle(10 * UNTRIED_S)) == UNTRIED
        woken.try_pod(f"flood-{2 * UNTRIED - 1}")
        assert len(await woken.settle(1.5 * UNTRIED_S)) == 1
        assert len(await woken.settle(2 * UNTRIED_S)) == UNTRIED - 1  # after `LATE` times 4 seconds in place of one


@pytest.mark.parametrize("slow_s", [0.05, 0.2])
async def test_two_floods_in_turn_keep_the_queue_of_kube_scheduler_short(slow_s: float) -> None:
    longest = 0
    async with Woken().running() as woken:
        woken.grant("first", 900)
        tried = 0
        for step in range(round(100 / slow_s)):
            if step == round(8 / slow_s):
                woken.grant("second", 600)
            await woken.settle(slow_s)
            longest = max(longest, len(woken.uids) - tried)
            if tried < len(woken.uids):
                woken.try_pod(woken.uids[tried])
                tried += 1
    assert longest <= 2 * UNTRIED


async def test_a_kube_scheduler_that_is_away_for_a_minute_finds_a_short_queue() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 2000)
        await woken.settle(59.0)
        assert len(woken.uids) <= UNTRIED * 60 / MOST_UNTRIED_S
        woken.grant("other", 1)
        assert await woken.settle() == pods("other", 0)


async def test_pods_that_kube_scheduler_rejects_by_itself_hold_up_those_behind_them_for_a_second() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 3 * UNTRIED)
        await woken.settle(UNTRIED_S / 2)
        woken.try_pod(f"flood-{UNTRIED - 1}")  # it was behind all others
        assert await woken.settle() == pods("flood", UNTRIED)
        assert len(await woken.settle(1.5 * UNTRIED_S)) == UNTRIED - 1


async def test_a_kube_scheduler_that_becomes_slow_gets_the_next_pods_later() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 400)
        await woken.settle()
        for uid in pods("flood", *range(TIMES_KEPT)):
            woken.try_pod(uid)
        await woken.settle()
        for _ in range(5):
            woken.try_pod("other-0")  # so that all that are woken count for a second
            await woken.settle(UNTRIED_S)
        for uid in pods("flood", *range(TIMES_KEPT, 2 * TIMES_KEPT)):
            woken.try_pod(uid)  # after five seconds
        await woken.settle(UNTRIED_S)
        woken.try_pod("other-0")
        assert await woken.settle(2 * UNTRIED_S) == []


async def test_a_woken_pod_counts_for_a_bounded_time_however_slow_kube_scheduler_was() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 3 * UNTRIED)
        await woken.settle(MOST_UNTRIED_S * 0.8)
        for uid in pods("flood", *range(UNTRIED)):
            woken.try_pod(uid)
        assert len(await woken.settle(UNTRIED_S)) == UNTRIED
        woken.try_pod("other-0")
        assert await woken.settle(MOST_UNTRIED_S * 0.8) == []
        assert len(await woken.settle(MOST_UNTRIED_S * 0.3)) == UNTRIED


async def test_pods_without_a_gate_count_for_a_second_and_say_nothing_about_the_queue() -> None:
    async with Woken(gated=False).running() as woken:
        woken.grant("flood", 10 * UNTRIED)
        await woken.settle(UNTRIED_S / 2)
        for wave in range(1, 9):
            assert len(await woken.settle(UNTRIED_S)) == UNTRIED
            woken.try_pod(f"flood-{(wave - 1) * UNTRIED}")  # after its back-off
        assert not woken.queues._wakes._times


async def test_the_time_until_a_pod_without_a_gate_is_tried_is_not_kept() -> None:
    async with Woken(gated=False).running() as woken:
        woken.grant("flood", UNTRIED)
        await woken.settle(UNTRIED_S / 2)
        woken.try_pod("flood-1")
        assert not woken.queues._wakes._times


async def test_a_pod_that_is_deleted_gives_its_place_to_the_next() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", UNTRIED + 3)
        assert await woken.settle() == pods("flood", *range(UNTRIED))
        woken.remove(f"flood-{UNTRIED}")  # it is held
        woken.remove("flood-3")
        assert await woken.settle() == pods("flood", UNTRIED + 1)
        woken.remove("flood-3")
        assert await woken.settle() == []


async def test_a_pod_that_is_woken_again_keeps_its_place() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", UNTRIED + 1)
        await woken.settle()
        woken.grant("flood", 1)
        assert await woken.settle() == pods("flood", 0)
        assert list(woken.queues._wakes._of["flood"].untried)[-1] == "flood-0"
        woken.try_pod("flood-0")
        assert await woken.settle() == pods("flood", UNTRIED)


async def test_a_gang_is_woken_as_a_whole_when_it_has_its_turn() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", UNTRIED - 1)
        woken.grant("flood", 4 * UNTRIED, "a")
        woken.grant("flood", 4 * UNTRIED, "b")
        woken.grant("flood", 1, "c")
        assert len(await woken.settle()) == UNTRIED - 1 + 4 * UNTRIED
        for uid in woken.uids[: 4 * UNTRIED - 1]:
            woken.try_pod(uid)
        assert await woken.settle() == []
        for uid in woken.uids[4 * UNTRIED - 1 : 4 * UNTRIED + 4]:
            woken.try_pod(uid)
        assert await woken.settle() == [f"flood-b{number}" for number in range(4 * UNTRIED)]
        await woken.settle(2 * MOST_UNTRIED_S)
        assert woken.uids[-1] == "flood-c0"
        assert not woken.queues._wakes._of


async def test_pods_that_kube_scheduler_does_not_try_in_time_let_the_next_ones_wake() -> None:
    async with Woken().running() as woken:
        woken.grant("flood", 3 * UNTRIED)
        assert len(await woken.settle(MOST_UNTRIED_S * 0.9)) == UNTRIED
        assert len(await woken.settle(MOST_UNTRIED_S * 0.2)) == UNTRIED
        assert len(await woken.settle(MOST_UNTRIED_S)) == UNTRIED
        await woken.settle(2 * MOST_UNTRIED_S)
        assert not woken.queues._wakes._of


async def test_a_pod_whose_node_is_kept_before_its_turn_is_not_woken_and_holds_up_no_other() -> None:
    last = f"flood-{2 * UNTRIED}"
    async with Woken(kept=lambda uid: uid != last).running() as woken:
        woken.grant("flood", 2 * UNTRIED + 1)
        assert await woken.settle() == pods("flood", *range(UNTRIED))  # these were checked a moment ago
        woken.try_pod("flood-0")
        assert await woken.settle() == [last]


async def test_many_pods_that_may_not_be_woken_are_checked_in_turns() -> None:
    seen: list[str] = []
    async with Woken(kept=lambda uid: not seen.append(uid)).running() as woken:  # type: ignore[func-returns-value]
        woken.grant("flood", 10 * UNTRIED)
        await woken.settle()
        woken.try_pod("flood-0")
        assert 0 < len(seen) <= 2 * UNTRIED
        await woken.settle()
        assert len(seen) == 9 * UNTRIED
