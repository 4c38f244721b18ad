"""Lists in pages and watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from extender.kube.errors import Gone
from simulator.kube.objects import Json
from tests.builders.kube_sites import Caller
from tests.contract.kube.conftest import OpenSite


async def listed(caller: Caller, **query: str) -> Json:
    answer = await caller.site.connection.request("GET", caller.pods, query=query)
    body: Json = json.loads(answer.body)
    return body


def names(items: list[Json]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def take(lines: AsyncIterator[bytes], count: int) -> list[tuple[str, Json]]:
    events = [json.loads(await anext(lines)) for _ in range(count)]
    return [(event["type"], event["object"]) for event in events]


def a_watch(version: str = "", **query: Any) -> dict[str, str]:
    return {"watch": "true", "timeoutSeconds": "60"} | ({"resourceVersion": version} if version else {}) | query


async def test_the_pages_of_a_list_are_one_snapshot(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        for number in range(5):
            await caller.add_pod(f"p{number}")
        first = await listed(caller, limit="2")
        await caller.add_pod("a-late-one")
        await caller.call("DELETE", f"{caller.pods}/p4")
        second = await listed(caller, limit="2", **{"continue": first["metadata"]["continue"]})
        third = await listed(caller, limit="2", **{"continue": second["metadata"]["continue"]})
        assert names(first["items"]) + names(second["items"]) + names(third["items"]) == [
            f"p{number}" for number in range(5)
        ]
        assert first["metadata"]["remainingItemCount"] == 3
        versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
        assert len(versions) == 1
        assert not third["metadata"].get("continue")


async def test_a_page_can_be_requested_again_with_fewer_objects(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        for number in range(7):
            await caller.add_pod(f"p{number}")
        token = (await listed(caller, limit="1"))["metadata"]["continue"]
        whole = await listed(caller, limit="4", **{"continue": token})
        half = await listed(caller, limit="2", **{"continue": token})
        rest = await listed(caller, limit="4", **{"continue": half["metadata"]["continue"]})
        assert names(whole["items"]) == ["p1", "p2", "p3", "p4"]
        assert names(half["items"]) + names(rest["items"]) == [f"p{number}" for number in range(1, 7)]
        assert not rest["metadata"].get("continue")


async def test_a_watch_from_a_list_reports_what_follows_it(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("before")
        version = (await listed(caller))["metadata"]["resourceVersion"]
        async with site.connection.watch(caller.pods, a_watch(version), silence_s=30) as lines:
            await caller.add_pod("p")
            await caller.annotate("p", a="b")
            await caller.call("DELETE", f"{caller.pods}/p")
            events = await take(lines, 4)
        # The end is written down first, even where it is at once.
        assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert names([obj for _, obj in events]) == ["p"] * 4
        assert events[2][1]["metadata"]["deletionGracePeriodSeconds"] == 0
        versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
        assert sorted(set(versions)) == versions


async def test_a_watch_can_begin_in_the_past(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        version = (await listed(caller))["metadata"]["resourceVersion"]
        await caller.add_pod("p")
        await caller.annotate("p", a="b")
        async with site.connection.watch(caller.pods, a_watch(version), silence_s=30) as lines:
            events = await take(lines, 2)
        assert [kind for kind, _ in events] == ["ADDED", "MODIFIED"]


async def test_a_watch_without_a_version_begins_with_what_is_there(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("a")
        await caller.add_pod("b")
        async with site.connection.watch(caller.pods, a_watch(), silence_s=30) as lines:
            events = await take(lines, 2)
            await caller.add_pod("c")
            events += await take(lines, 1)
        assert [kind for kind, _ in events] == ["ADDED"] * 3
        assert sorted(names([obj for _, obj in events])) == ["a", "b", "c"]


async def test_a_watch_ends_when_its_time_has_passed_and_says_before_where_to_go_on(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        version = (await listed(caller))["metadata"]["resourceVersion"]
        query = a_watch(version, allowWatchBookmarks="true", timeoutSeconds="6")
        async with site.connection.watch(caller.pods, query, silence_s=30) as lines:
            pod = await caller.annotate("p", a="b")
            events = [json.loads(line) async for line in lines]
        # How many bookmarks come depends on where the second of a watch falls; what they say does not.
        assert [event["type"] for event in events[:1]] == ["MODIFIED"]
        assert {event["type"] for event in events[1:]} == {"BOOKMARK"}
        for bookmark in (event["object"] for event in events[1:]):
            assert bookmark["kind"] == "Pod"
            assert int(bookmark["metadata"]["resourceVersion"]) >= int(pod["metadata"]["resourceVersion"])


async def test_a_watch_with_no_news_has_no_bookmarks_either(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.add_pod("p")
        version = (await listed(caller))["metadata"]["resourceVersion"]
        query = a_watch(version, allowWatchBookmarks="true", timeoutSeconds="5")
        async with site.connection.watch(caller.pods, query, silence_s=30) as lines:
            assert [line async for line in lines] == []


async def test_a_grace_that_is_cut_short_is_reported_before_the_removal(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        await caller.running_pod("p", grace_s=60)
        version = (await listed(caller))["metadata"]["resourceVersion"]
        async with site.connection.watch(caller.pods, a_watch(version), silence_s=30) as lines:
            await caller.call("DELETE", f"{caller.pods}/p")
            await caller.call("DELETE", f"{caller.pods}/p", {"gracePeriodSeconds": 0})
            events = await take(lines, 3)
        told = [(kind, obj["metadata"]["deletionGracePeriodSeconds"]) for kind, obj in events]
        assert told == [("MODIFIED", 60), ("MODIFIED", 0), ("DELETED", 0)]


async def test_a_watch_from_too_long_ago_is_refused(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        version = await site.too_old()
        try:
            async with site.connection.watch("/api/v1/pods", a_watch(version), silence_s=30) as lines:
                [(kind, status)] = await take(lines, 1)
        except Gone as gone:
            kind, status = "ERROR", {"code": gone.code, "reason": gone.reason}
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert caller.pods


async def test_a_watch_of_a_namespace_reports_no_other_namespace(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        version = (await listed(caller))["metadata"]["resourceVersion"]
        async with site.connection.watch(caller.pods, a_watch(version), silence_s=30) as lines:
            elsewhere = "/api/v1/namespaces/default/pods"
            pod = {
                "metadata": {"name": f"of-{site.namespace}"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
            }
            await caller.call("POST", elsewhere, {"apiVersion": "v1", "kind": "Pod"} | pod)
            await caller.call("DELETE", f"{elsewhere}/of-{site.namespace}")
            await caller.add_pod("mine")
            [(_, seen)] = await take(lines, 1)
        assert seen["metadata"]["name"] == "mine"


async def test_many_changes_at_once_lose_none(open_site: OpenSite) -> None:
    async with open_site() as site:
        caller = Caller(site)
        version = (await listed(caller))["metadata"]["resourceVersion"]
        async with site.connection.watch(caller.pods, a_watch(version), silence_s=30) as lines:
            await asyncio.gather(*(caller.add_pod(f"p{number}") for number in range(30)))
            events = await take(lines, 30)
        assert sorted(names([obj for _, obj in events])) == sorted(f"p{number}" for number in range(30))
