"""Events are sent in the background, counted up when repeated, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from looptime import LoopTimeProxy

from extender.domain.ports import Announcement
from extender.kube.announce import EventLimits, EventWriter
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json
from simulator.kube.resources import EVENTS
from tests.builders.fake_api import FakeApi, fake_api, running

pytestmark = pytest.mark.looptime


NO_LIMITS = EventLimits()


def news(text: str = "job 42 waits", name: str = "p", *, kind: str = "Pod", namespace: str = "default") -> Announcement:
    return Announcement(kind, namespace, name, f"uid-{name}", "SlurmJobPending", text)


@dataclass
class Bench:
    api: FakeApi
    limits: EventLimits
    busy: bool = False
    """Whether more urgent work than news waits."""

    def __post_init__(self) -> None:
        self.writer = EventWriter(
            self.api.connection,
            clock=self.api.clock,
            instance="extender-0",
            limits=self.limits,
            busy=lambda: self.busy,
        )

    @property
    def events(self) -> list[Json]:
        return list(self.api.server.storage.of(EVENTS))


@asynccontextmanager
async def a_bench(limits: EventLimits = NO_LIMITS, run: bool = True) -> AsyncIterator[Bench]:
    async with fake_api() as api:
        bench = Bench(api, limits)
        if not run:
            yield bench
            return
        async with running(bench.writer.run()):
            yield bench


async def test_an_announcement_becomes_an_event() -> None:
    async with a_bench() as bench:
        await asyncio.sleep(1.5)
        bench.writer.announce(news())
        await asyncio.sleep(1)
        [event] = bench.events
        assert event["metadata"]["namespace"] == "default"
        assert event["metadata"]["name"].startswith("p.")
        assert event["eventTime"] == "2026-01-01T00:00:01.500000Z"
        assert event["reportingController"] == "slurm-extender.io/extender"
        assert event["reportingInstance"] == "extender-0"
        assert (event["type"], event["reason"], event["note"]) == ("Normal", "SlurmJobPending", "job 42 waits")
        assert event["regarding"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": "uid-p",
            "namespace": "default",
        }


async def test_an_event_about_a_node_lives_in_the_default_namespace() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news(kind="Node", namespace="", name="n1"))
        await asyncio.sleep(1)
        [event] = bench.events
        assert event["metadata"]["namespace"] == "default"
        assert "namespace" not in event["regarding"]


async def test_repetitions_are_counted_up_every_half_minute_at_most() -> None:
    async with a_bench() as bench:
        for _ in range(600):
            bench.writer.announce(news())
            await asyncio.sleep(0.1)
        await asyncio.sleep(30)
        [event] = bench.events
        assert event["series"]["count"] == 600
        assert event["series"]["lastObservedTime"].startswith("2026-01-01T00:00:59.9")
        assert len(bench.api.server.requests) == 3


async def test_a_repetition_after_a_long_silence_is_a_new_event() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news())
        await asyncio.sleep(361)
        bench.writer.announce(news())
        await asyncio.sleep(1)
        assert len(bench.events) == 2


async def test_different_texts_and_objects_are_different_events() -> None:
    async with a_bench() as bench:
        for announcement in (news("a"), news("b"), news("a", name="q")):
            bench.writer.announce(announcement)
            await asyncio.sleep(1)
        assert len(bench.events) == 3


async def test_an_event_that_waits_is_replaced_by_a_newer_one_with_the_same_object_and_reason() -> None:
    async with a_bench(EventLimits(queued=10), run=False) as bench:
        for number in range(6000):
            bench.writer.announce(news(f"key {number} is not known"))
        bench.writer.announce(warning())
        assert (bench.writer.waiting, bench.writer.status.dropped) == (2, 0)
        async with running(bench.writer.run()):
            await asyncio.sleep(1)
        assert {event["note"] for event in bench.events} == {"key 5999 is not known", "job 42 is lost"}


async def test_an_event_that_fails_is_not_sent_again_where_a_newer_one_waits() -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(code=503, times=1))
        bench.api.stall()
        bench.writer.announce(news("older"))
        await asyncio.sleep(0.5)
        bench.writer.announce(news("newer"))
        bench.api.resume()
        await asyncio.sleep(20)
        assert [event["note"] for event in bench.events] == ["newer"]


@pytest.mark.parametrize("warns", [False, True])
async def test_an_event_of_one_namespace_is_the_next_but_one_however_many_another_has_waiting(warns: bool) -> None:
    def about(namespace: str, number: int) -> Announcement:
        return Announcement("Pod", namespace, f"p{number}", f"uid-{number}", "UnknownKey", "key", warning=warns)

    async with a_bench(EventLimits(burst=2, per_second=0.001), run=False) as bench:
        for number in range(2322):
            bench.writer.announce(about("kube-public", number))
        bench.writer.announce(about("default", 1))
        assert bench.writer.waiting == 1000
        async with running(bench.writer.run()):
            await asyncio.sleep(1)
        assert sorted(event["metadata"]["namespace"] for event in bench.events) == ["default", "kube-public"]


async def test_namespaces_share_a_full_queue_evenly() -> None:
    async with a_bench(EventLimits(queued=90), run=False) as bench:
        for namespace, count in (("a", 500), ("b", 500), ("c", 500), ("d", 10)):
            for number in range(count):
                bench.writer.announce(news(name=f"p{number}", namespace=namespace))
        shares = Counter(about.namespace for about in bench.writer._series)
        assert bench.writer.waiting == 90
        assert shares["d"] == 10
        assert max(shares.values()) <= 30


async def test_a_long_text_is_shortened_to_what_the_api_server_takes() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news("é" * 1000))
        await asyncio.sleep(1)
        note = bench.events[0]["note"]
        assert len(note.encode()) <= 1024
        assert note.endswith("é...")


async def test_a_long_name_keeps_a_valid_one() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news(name="x" * 253))
        await asyncio.sleep(1)
        assert len(bench.events[0]["metadata"]["name"]) == 253


async def test_a_lost_answer_makes_no_second_event() -> None:
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(method="POST", code=500, after=True))
        bench.writer.announce(news())
        await asyncio.sleep(10)
        assert len(bench.events) == 1
        assert bench.writer.status.sent == 1


async def test_an_outage_gives_an_event_up_and_harms_nothing_else() -> None:
    async with a_bench() as bench:
        bench.api.refuse()
        bench.writer.announce(news("lost"))
        await asyncio.sleep(20)
        assert bench.writer.status.failed == 1
        bench.api.refuse(False)
        bench.writer.announce(news("lost"))
        await asyncio.sleep(1)
        assert len(bench.events) == 1


async def test_a_refused_event_is_not_tried_again() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news(namespace="gone"))
        await asyncio.sleep(60)
        assert bench.writer.status.failed == 1
        assert len(bench.api.server.requests) == 1


async def test_an_expired_event_is_begun_again_by_its_repetition() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news())
        await asyncio.sleep(1)
        for event in bench.events:
            await bench.api.connection.request(
                "DELETE", f"/apis/events.k8s.io/v1/namespaces/default/events/{event['metadata']['name']}"
            )
        bench.writer.announce(news())
        await asyncio.sleep(40)
        assert len(bench.events) == 1


async def test_a_full_queue_drops_and_counts() -> None:
    async with a_bench(EventLimits(queued=10), run=False) as bench:
        for number in range(25):
            bench.writer.announce(news(name=str(number)))
        assert bench.writer.status.dropped == 15


async def test_requests_are_rate_limited(looptime: LoopTimeProxy) -> None:
    async with a_bench(EventLimits(per_second=10, burst=5)) as bench:
        for number in range(105):
            bench.writer.announce(news(name=str(number)))
        await asyncio.sleep(5)
        assert 50 <= len(bench.events) <= 57
        await asyncio.sleep(6)
        assert len(bench.events) == 105


async def test_what_is_still_queued_at_the_end_can_be_flushed(looptime: LoopTimeProxy) -> None:
    async with a_bench(run=False) as bench:
        bench.writer.announce(news())
        await bench.writer.flush(within_s=5)
        assert len(bench.events) == 1
        bench.api.stall()
        bench.writer.announce(news("more"))
        await bench.writer.flush(within_s=2)
        assert looptime == 2
        bench.api.resume()


async def test_an_event_under_way_when_the_work_ends_is_flushed_too() -> None:
    async with a_bench(run=False) as bench:
        bench.api.server.faults.add(KubeFault(code=0))
        async with running(bench.writer.run()):
            bench.writer.announce(news())
            await asyncio.sleep(1)
        await bench.writer.flush(within_s=5)
        assert len(bench.events) == 1


async def test_an_instant_that_the_clock_rounds_down_is_not_waited_for_indefinitely() -> None:
    """A time-out may end a hair before the instant it was asked for; asked again it ends at once, and again."""
    began = next(t for t in range(1_000_000, 2_000_000) if t / 1e6 + 2.0 > (t + 2_000_000) / 1e6)
    async with a_bench() as bench:
        bench.api.server.faults.add(KubeFault(code=503, times=1))
        await asyncio.sleep(began / 1e6)
        bench.writer.announce(news())
        await asyncio.sleep(2)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(bench.events) == 1


async def test_text_that_cannot_be_seen_or_is_no_unicode_is_sent_as_its_escapes() -> None:
    async with a_bench() as bench:
        bench.writer.announce(news("half a character: \ud83d, another direction: \u202e, a line:\n"))
        await asyncio.sleep(1)
        [event] = bench.events
        assert event["note"] == "half a character: \\ud83d, another direction: \\u202e, a line:\\n"


def warning(text: str = "job 42 is lost", name: str = "p") -> Announcement:
    return Announcement("Pod", "default", name, f"uid-{name}", "AllocationLost", text, warning=True)


async def test_news_waits_while_more_urgent_work_lasts_and_a_warning_does_not() -> None:
    async with a_bench() as bench:
        bench.busy = True
        bench.writer.announce(news("given n1"))
        bench.writer.announce(warning())
        await asyncio.sleep(5)
        assert [event["type"] for event in bench.events] == ["Warning"]
        bench.busy = False
        await asyncio.sleep(1)
        assert {event["type"]: event["eventTime"][-12:] for event in bench.events} == {
            "Normal": "0:00.000000Z",
            "Warning": "0:00.000000Z",
        }


async def test_news_is_held_back_for_half_a_minute_at_most() -> None:
    async with a_bench() as bench:
        bench.busy = True
        bench.writer.announce(news())
        await asyncio.sleep(29)
        assert not bench.events
        await asyncio.sleep(2)
        assert len(bench.events) == 1


async def test_news_that_is_held_back_takes_no_room_from_warnings() -> None:
    async with a_bench(EventLimits(queued=2)) as bench:
        bench.busy = True
        for number in range(5):
            bench.writer.announce(news(name=f"p{number}"))
        bench.writer.announce(warning())
        await asyncio.sleep(1)
        assert [event["type"] for event in bench.events] == ["Warning"]
        assert bench.writer.status.dropped == 3


async def test_what_is_held_back_is_sent_before_the_end() -> None:
    async with a_bench(run=False) as bench:
        bench.busy = True
        bench.writer.announce(news())
        await bench.writer.flush(5)
        assert len(bench.events) == 1
