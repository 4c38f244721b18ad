"""Thousands of Pods that name one gang do not keep the extender busy: their changes are settled together."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from extender.controllers.gangs.members import SETTLED_AT_ONCE, GangMembers
from extender.domain import events as e
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, State
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import Announcement
from extender.domain.translation.translate import Translated
from extender.engine.placeholder_index import PlaceholderIndex
from tests.builders.placeholders import in_state
from tests.builders.pod_views import a_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from extender.domain.views import PodView

pytestmark = pytest.mark.looptime

KEY = "gang-x"
MANY = SETTLED_AT_ONCE + 1


class CountingPods(dict[str, "PodView"]):
    """Count how often a Pod is read."""

    reads = 0

    def get(self, uid: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(uid, default)


class GangOfFour:
    """Join Pods that name one gang of four; keep what the engine and the announcer get."""

    def __init__(self) -> None:
        self.size = 4
        self.events: list[e.Event] = []
        self.keys: list[str] = []
        self.told: list[str] = []
        self.pods = CountingPods()
        self.placeholders = PlaceholderIndex()
        engine = SimpleNamespace(placeholders=self.placeholders, handle=self._handle)
        announcer = SimpleNamespace(announce=self._announce)
        self.members = GangMembers(
            cast("Any", engine), cast("Any", self.pods), cast("Any", announcer), [], DeferredPods()
        )

    def _handle(self, key: str, event: e.Event, _cause: str) -> None:
        self.events.append(event)
        self.keys.append(key)

    def _announce(self, announcement: Announcement) -> None:
        self.told.append(announcement.uid)

    def join(self, *numbers: int, key: str = KEY, of: str = "uid") -> None:
        for number in numbers:
            pod = a_pod(uid=f"{of}-{number}", name=f"x-{number}")
            self.pods[pod.uid] = pod
            order = MemberOrder((), pod.name)
            said = Membership(GangSource.ANNOTATION, "team", "gang x", ("", "x"), self.size, order)
            request = JobRequest(pod.full_name, cpus=1, memory_mb=1)
            self.members.join(key, pod, said, Translated(request))

    @asynccontextmanager
    async def settling(self) -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(self.members.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_gang_of_ordinary_size_requests_its_job_as_soon_as_its_last_pod_has_joined() -> None:
    gang = GangOfFour()
    gang.join(*range(4))
    assert isinstance(gang.events[-1], e.PodWanted)


async def test_changes_of_a_gang_with_very_many_pods_are_settled_together() -> None:
    gang = GangOfFour()
    async with gang.settling():
        gang.join(*range(MANY))
        before = len(gang.events)
        for _ in range(20):
            gang.join(*range(MANY))
        assert len(gang.events) == before
        await asyncio.sleep(1)
        assert len(gang.events) == before + 1
        wanted = gang.events[-1]
        assert isinstance(wanted, e.PodWanted)
        assert [ref.uid for ref in wanted.members] == [f"uid-{number}" for number in range(4)]


async def test_a_gang_with_very_many_pods_is_settled_again_and_again_while_they_change_without_pause() -> None:
    gang = GangOfFour()
    async with gang.settling():
        gang.join(*range(257))
        before = len(gang.events)
        for _ in range(100):
            gang.join(0)
            await asyncio.sleep(0.01)
        assert 10 <= len(gang.events) - before <= 20


@pytest.mark.parametrize("state", [State.ABSENT, State.WAITING, State.UNSURE])
async def test_the_cost_of_a_change_of_every_pod_of_a_gang_grows_with_its_pods_and_not_with_their_square(
    state: State,
) -> None:
    async def reads(count: int) -> int:
        gang = GangOfFour()
        gang.placeholders.put(replace(in_state(state), key=KEY, request=None))
        gang.size = 2  # sizes differ, so that the gang stays incomplete
        gang.join(0)
        gang.size = 4
        async with gang.settling():
            gang.join(*range(1, count))
            await asyncio.sleep(1)
            gang.pods.reads = 0
            gang.join(*range(1, count))
            await asyncio.sleep(1)
        return gang.pods.reads

    few, many = await reads(128), await reads(256)
    assert 128 <= few < 128 * 5
    assert many < 2.2 * few


async def test_gangs_of_one_namespace_do_not_delay_a_large_gang_of_another_one() -> None:
    gang = GangOfFour()
    keys = [f"gang-{number}" for number in range(6)]
    for key in keys:
        ref = e.MemberRef(f"{key}-0", "flood" if key != keys[-1] else "team", "x-0")
        gang.placeholders.put(replace(in_state(State.ABSENT), key=key, members=(Member(ref),)))
        gang.join(*range(MANY), key=key, of=key)
    gang.keys.clear()
    async with gang.settling():
        for key in keys:
            gang.join(0, key=key, of=key)
        await asyncio.sleep(1)
    assert sorted(gang.keys) == keys
    assert gang.keys.index(keys[-1]) <= 1


async def test_after_a_start_a_gang_with_very_many_pods_is_settled_before_its_job_has_nodes() -> None:
    gang = GangOfFour()
    gang.placeholders.put(replace(in_state(State.UNSURE), key=KEY, request=None))
    gang.join(*range(MANY))
    assert len(gang.events) == MANY - 3


async def test_a_pod_beyond_the_size_of_its_gang_gets_one_event_that_it_waits() -> None:
    gang = GangOfFour()
    gang.join(*range(6))
    gang.join(*range(6))
    assert gang.told == ["uid-4", "uid-5"]
    gang.members.leave("uid-5")
    gang.join(5)
    assert gang.told == ["uid-4", "uid-5", "uid-5"]
