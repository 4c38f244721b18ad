"""The reflector keeps its mirror true through everything an API server and a network do."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from looptime import LoopTimeProxy
from structlog.testing import capture_logs

from extender.domain.views import PodView
from extender.kube.order import ACCEPT_OLDER_LIST_AFTER_S
from extender.kube.reflector import Reflector
from extender.kube.wire.stream import POD
from simulator.kube.faults import KubeFault
from simulator.kube.pods import pod_key
from simulator.kube.resources import PODS
from simulator.kube.storage import WatchEvent
from tests.builders.fake_api import a_rng, fake_api, running
from tests.builders.mirrors import PATH, Bench, Mirror, a_bench

pytestmark = pytest.mark.looptime


async def test_it_lists_in_pages_of_one_hundred_and_then_reports_everything_at_once() -> None:
    async with a_bench(pods=250) as bench:
        await bench.until_watching()
        assert len(bench.mirror.pods) == 250
        assert bench.mirror.lists == 1
        assert [request.query["limit"] for request in bench.lists] == ["100"] * 3
        assert "resourceVersion" not in bench.lists[0].query


async def test_it_watches_from_the_version_of_the_list() -> None:
    async with a_bench(pods=1) as bench:
        version = str(bench.api.server.storage.version)
        await bench.until_watching()
        query = bench.watches[0].query
        assert query["resourceVersion"] == version
        assert query["allowWatchBookmarks"] == "true"
        assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_changes_are_reported_in_order() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        bench.api.server.add_pod("a")
        bench.start_pod("a")
        bench.api.server.delete_pod("a", grace_s=0)
        await asyncio.sleep(1)
        assert bench.mirror.changes == ["a is Pending", "a is Running", "a is Running", "a is gone"]


async def test_a_page_that_is_too_old_starts_the_list_again() -> None:
    async with a_bench(pods=150) as bench:
        bench.api.server.faults.add(KubeFault(code=None))
        bench.api.server.faults.add(KubeFault(code=None, delay_s=5))
        await asyncio.sleep(1)
        bench.api.server.storage.forget_history()
        await bench.until_watching()
        assert len(bench.mirror.pods) == 150
        assert bench.reflector.status.relists == {"gone": 1}
        assert [("continue" in request.query) for request in bench.lists] == [False, True, False, True]


async def test_a_watch_that_ends_is_resumed_from_the_last_version(looptime: LoopTimeProxy) -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        await asyncio.sleep(5)
        bench.api.server.add_pod("new")
        await asyncio.sleep(1)
        version = str(bench.api.server.storage.version)
        bench.api.app.drop_watches()
        await asyncio.sleep(0.5)
        assert len(bench.watches) == 2
        assert bench.watches[1].query["resourceVersion"] == version
        assert bench.mirror.lists == 1


async def test_a_bookmark_moves_the_version_on() -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        bench.start_pod("p0000")
        version = str(bench.api.server.storage.version)
        await asyncio.sleep(61)
        assert bench.reflector.status.changes == {"MODIFIED": 1, "BOOKMARK": 1}
        bench.api.app.drop_watches()
        await asyncio.sleep(2)
        assert bench.watches[1].query["resourceVersion"] == version


async def test_watches_that_end_at_once_are_not_begun_more_than_once_a_second() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        for _ in range(100):
            bench.api.app.drop_watches()
            await asyncio.sleep(0.1)
        assert 9 <= len(bench.watches) <= 12
        assert bench.mirror.lists == 1


@pytest.mark.parametrize("within_the_stream", [True, False])
async def test_a_version_that_is_too_old_forces_a_list_which_reports_missed_deletions(within_the_stream: bool) -> None:
    async with a_bench(pods=3) as bench:
        await bench.until_watching()
        bench.api.refuse()
        bench.api.cut()
        await asyncio.sleep(0.01)
        bench.api.server.delete_pod("p0001")
        bench.api.server.storage.forget_history()
        if not within_the_stream:
            bench.api.server.faults.add(KubeFault(watch=True, code=410, reason="Expired"))
        bench.api.refuse(False)
        await asyncio.sleep(10)
        assert bench.mirror.names == ["p0000", "p0002"]
        assert bench.reflector.status.relists == {"gone": 1}


async def test_a_401_renews_the_token_and_continues() -> None:
    tokens = iter(["old", "new", "new", "new"])
    async with fake_api(token=lambda: next(tokens)) as api:
        api.server.tokens = {"new"}
        mirror = Mirror()
        reflector = Reflector(api.connection, PATH, POD, mirror, rng=a_rng())
        async with running(reflector.run()):
            await asyncio.sleep(0.1)
            assert mirror.lists == 1
            assert reflector.status.trouble == ""


async def test_a_403_is_not_synced_loud_and_slow(looptime: LoopTimeProxy) -> None:
    async with fake_api() as api:
        api.server.allowed = lambda permission: False
        mirror = Mirror()
        reflector = Reflector(api.connection, PATH, POD, mirror, rng=a_rng())
        async with running(reflector.run()):
            await asyncio.sleep(299)
            assert mirror.lists == 0
            assert "403" in reflector.status.trouble
            assert len(api.server.requests) <= 10
            api.server.allowed = None
            await asyncio.sleep(61)
            assert mirror.lists == 1


async def test_a_429_is_waited_out_as_long_as_requested(looptime: LoopTimeProxy) -> None:
    async with fake_api() as api:
        api.server.faults.add(KubeFault(code=429, retry_after_s=20))
        mirror = Mirror()
        async with running(Reflector(api.connection, PATH, POD, mirror, rng=a_rng()).run()):
            await asyncio.sleep(19.9)
            assert mirror.lists == 0
            await asyncio.sleep(1)
            assert mirror.lists == 1


async def test_an_outage_is_retried_with_growing_waits_and_loses_nothing() -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        bench.start_pod("p0000")
        await asyncio.sleep(1)
        version = str(bench.api.server.storage.version)
        bench.api.refuse()
        bench.api.cut()
        await asyncio.sleep(600)
        assert bench.reflector.status.trouble != ""
        assert 20 <= bench.reflector.status.watches <= 120
        bench.api.server.add_pod("new")
        bench.api.refuse(False)
        await bench.api.app.watched.wait()
        assert bench.watches[-1].query["resourceVersion"] == version
        await asyncio.sleep(5)
        assert bench.mirror.names == ["new", "p0000"]
        assert bench.mirror.lists == 1
        assert bench.reflector.status.trouble == ""


async def test_after_an_outage_everything_is_listed_once_more() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        before = bench.api.server.storage.save()
        bench.api.server.add_pod("lost")
        await asyncio.sleep(1)
        bench.api.refuse()
        bench.api.cut()
        await asyncio.sleep(5)
        bench.api.server.storage.restore(before, bump=False)
        for number in range(5):
            bench.api.server.add_pod(f"since-{number}")
        bench.api.refuse(False)
        await asyncio.sleep(60)
        assert bench.mirror.names == ["p0000", "p0001", *[f"since-{number}" for number in range(5)]]
        assert bench.reflector.status.relists == {"outage": 1}
        assert bench.mirror.lists == 2


async def test_an_outage_that_passes_while_the_mirror_waits_is_taken_for_one() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        bench.api.refuse()
        bench.api.cut()
        await asyncio.sleep(200)  # so that it waits long after each fault
        bench.api.refuse(False)
        await asyncio.sleep(45)
        before, watches = bench.api.server.storage.save(), bench.reflector.status.watches
        bench.api.server.add_pod("lost")
        await asyncio.sleep(1)
        bench.api.cut()
        await asyncio.sleep(0.5)
        bench.api.server.storage.restore(before, bump=False)
        for number in range(5):
            bench.api.server.add_pod(f"since-{number}")
        assert bench.reflector.status.watches == watches, "it asked meanwhile"
        await asyncio.sleep(60)
        assert bench.mirror.names == ["p0000", "p0001", *[f"since-{number}" for number in range(5)]]


async def test_a_watch_that_is_cut_and_resumed_at_once_lists_nothing() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        bench.api.cut()
        await asyncio.sleep(60)
        assert bench.mirror.lists == 1


async def test_back_off_is_forgotten_after_two_healthy_minutes() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        bench.api.refuse()
        bench.api.cut()
        await asyncio.sleep(300)
        bench.api.refuse(False)
        await asyncio.sleep(31 + 121)
        bench.api.cut()
        await asyncio.sleep(0.9)
        assert bench.api.app.watches == 1


async def test_a_half_open_connection_is_dropped(looptime: LoopTimeProxy) -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        bench.api.stall()
        await asyncio.sleep(179)
        assert bench.reflector.status.trouble == ""
        await asyncio.sleep(2)
        assert bench.reflector.status.watches == 2
        await asyncio.sleep(31)
        assert "no answer" in bench.reflector.status.trouble
        bench.api.resume()
        await asyncio.sleep(31)
        assert bench.reflector.status.trouble == ""


async def test_a_quiet_cluster_costs_a_request_every_three_minutes_and_no_alarm() -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        await asyncio.sleep(3600)
        assert 18 <= len(bench.watches) <= 25
        assert bench.mirror.lists == 1
        assert bench.reflector.status.trouble == ""


async def test_kinds_of_changes_that_do_not_exist_yet_are_ignored() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        line = json.dumps({"type": "RECONSIDERED", "object": {"metadata": {"uid": "u", "resourceVersion": "99"}}})
        _notify(bench, line.encode() + b"\n")
        bench.api.server.add_pod("a")
        await asyncio.sleep(1)
        assert bench.mirror.names == ["a"]
        assert bench.mirror.lists == 1


async def test_a_line_that_does_not_decode_is_counted_and_forces_a_list() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        _notify(bench, b'{"type":"ADDED","object":{"metad\n')
        await asyncio.sleep(2)
        assert bench.reflector.status.unreadable_events == 1
        assert bench.mirror.lists == 2
        assert len(bench.mirror.pods) == 2


async def test_an_error_within_the_stream_forces_a_list() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd is ill"}
        _notify(bench, json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        await asyncio.sleep(2)
        assert bench.reflector.status.relists == {"refused": 1}
        assert bench.mirror.lists == 2


async def test_a_version_from_the_future_forces_a_list() -> None:
    async with a_bench(pods=2) as bench:
        await bench.until_watching()
        bench.api.server.storage.version -= 1
        bench.api.app.drop_watches()
        await asyncio.sleep(5)
        assert len(bench.lists) >= 2
        await asyncio.sleep(ACCEPT_OLDER_LIST_AFTER_S + 60)
        assert bench.mirror.lists == 2


async def test_an_odd_object_is_counted_and_the_watch_continues() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        bench.api.server.add_pod("odd")
        await asyncio.sleep(1)
        bench.api.server.change(pod_key("default", "odd"), lambda pod: pod["spec"].update(nodeName=["n"]))
        bench.api.server.add_pod("next")
        await asyncio.sleep(1)
        assert bench.mirror.names == ["next", "odd"]
        assert bench.reflector.status.unreadable_items == 1
        assert bench.mirror.lists == 1
        bench.api.server.delete_pod("odd", grace_s=0)
        await asyncio.sleep(1)
        assert bench.mirror.names == ["next"]


async def test_an_odd_object_in_a_list_is_reported_by_name() -> None:
    async with fake_api() as api:
        api.server.add_pod("good")
        api.server.add_pod("odd")
        api.server.change(pod_key("default", "odd"), lambda pod: pod["spec"].update(nodeName=["n"]))
        mirror = Mirror()
        async with running(Reflector(api.connection, PATH, POD, mirror, rng=a_rng()).run()):
            await asyncio.sleep(1)
        assert mirror.names == ["good"]
        assert mirror.unreadable == ["odd"]


async def test_cancelling_closes_the_connection_within_a_second() -> None:
    async with a_bench() as bench:
        await bench.until_watching()
        api = bench.api
        # Leaving the context cancels the task.
    await asyncio.sleep(0.9)
    assert api.connections == 0


async def test_its_status_shows_what_happened() -> None:
    async with a_bench(pods=1) as bench:
        await bench.until_watching()
        await asyncio.sleep(5)
        bench.start_pod("p0000")
        await asyncio.sleep(1)
        status = bench.reflector.status
        assert (status.lists, status.watches) == (1, 1)
        assert status.changes == {"MODIFIED": 1}
        assert status.last_heard == pytest.approx(5, abs=0.1)


async def test_a_burst_of_changes_lets_others_run_in_between() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    class Counting(Mirror):
        def __init__(self) -> None:
            super().__init__()
            self.per_turn: Counter[int] = Counter()

        def changed(self, view: PodView) -> None:
            self.per_turn[turns] += 1

    async with fake_api() as api:
        mirror = Counting()
        async with running(Reflector(api.connection, PATH, POD, mirror, rng=a_rng()).run()):
            await api.app.watched.wait()
            await asyncio.sleep(0.01)
            for number in range(500):
                api.server.add_pod(f"p{number}")
            async with running(count_turns()):
                for _ in range(100):
                    await asyncio.sleep(0)
        assert mirror.per_turn.total() == 500
        assert max(mirror.per_turn.values()) <= 64


async def test_a_fault_of_the_sink_is_not_swallowed() -> None:
    class Broken(Mirror):
        def changed(self, view: PodView) -> None:
            raise RuntimeError("the sink is broken")

    async with fake_api() as api:
        task = asyncio.create_task(Reflector(api.connection, PATH, POD, Broken(), rng=a_rng()).run())
        await asyncio.sleep(1)
        api.server.add_pod("a")
        with pytest.raises(RuntimeError, match="the sink is broken"):
            await task


def _notify(bench: Bench, line: bytes) -> None:
    """Put a line of our own into every open watch."""
    storage = bench.api.server.storage
    event = WatchEvent(storage.version, "ADDED", PODS, {"metadata": {"namespace": "default"}}, line)
    for listener in tuple(storage.listeners):
        listener(event)


async def test_a_missing_permission_is_reported_once_and_again_when_it_is_missing_again() -> None:
    with capture_logs() as logs:
        async with a_bench(pods=1) as bench:
            refusal: dict[str, Any] = {"code": 403, "reason": "Forbidden", "times": None}
            faults = bench.api.server.faults
            first = faults.add(KubeFault(**refusal, message="may not list pods"))
            await asyncio.sleep(600)
            assert said(logs) == 1
            assert "may not list pods" in bench.reflector.status.trouble
            faults.remove(first)
            other = faults.add(KubeFault(**refusal, message="may not watch pods", watch=True))
            await asyncio.sleep(600)
            assert said(logs) == 2
            faults.remove(other)
            await asyncio.sleep(60)
            assert not bench.reflector.status.trouble
            faults.add(KubeFault(**refusal, message="may not watch pods"))
            bench.api.app.drop_watches()
            await asyncio.sleep(600)
            assert said(logs) == 3


def said(logs: Sequence[Mapping[str, object]]) -> int:
    return sum(line["event"] == "list_watch_forbidden" for line in logs)
