"""Operators see each gang with its members, and what is missing, under `/debug/gangs`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.objects import Json
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


def gang(site: Site, numbers: range, size: int, **fields: Any) -> list[str]:
    names = [f"ring-{number}" for number in numbers]
    for one in names:
        site.kube.add_pod(one, annotations={GANG: "ring", GANG_SIZE: str(size)}, **fields)
    return names


async def shown(site: Site, name: str) -> Json:
    found: Json = (await site.get(8083, f"/debug/gangs/{site.uid(name)}")).json()
    return found


async def test_a_gang_is_shown_from_its_first_pod_to_its_last_binding(site: Site) -> None:
    async with site.running():
        names = gang(site, range(2), 3, gates=(GATE,))
        await asyncio.sleep(5)
        found = await shown(site, names[0])
        assert (found["name"], found["source"], found["state"], found["size"]) == (
            "gang ring",
            "annotation",
            "incomplete",
            3,
        )
        assert found["missing"] == found["why"] == "2 of 3 Pods of gang ring exist."
        assert [one["state"] for one in found["members"]] == ["waiting", "waiting"]
        names += gang(site, range(2, 4), 3, gates=(GATE,))
        for name in names[:3]:
            await site.bound(name)
        found = await shown(site, names[0])
        assert (found["state"], found["bound"], found["missing"]) == ("bound", 3, "")
        rows = {one["pod"]: (one["rank"], one["slurmNode"], one["node"], one["state"]) for one in found["members"]}
        assert rows == {
            "default/ring-0": (0, "n1", "n1", "bound"),
            "default/ring-1": (1, "n2", "n2", "bound"),
            "default/ring-2": (2, "n3", "n3", "bound"),
            "default/ring-3": (None, "", "", "unneeded"),
        }
        unneeded = await shown(site, "ring-3")
        assert unneeded["why"] == "gang ring has all of its Pods; this Pod waits until a slot of its job is free."
        listed = (await site.get(8083, "/debug/gangs?namespace=default")).json()
        assert [(one["name"], one["jobId"]) for one in listed] == [("gang ring", found["jobId"])]
        assert await site.metric("gang_wait_duration_seconds_count") == 1
        assert (await site.get(8083, "/debug/gangs?namespace=other")).json() == []


async def test_a_member_that_kube_scheduler_does_not_accept_is_named_and_the_others_have_voted(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang(site, range(3), 3, gates=(GATE,))
        site.edit_node("n3", lambda node: node["spec"].update(taints=[taint]))
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        seen: list[Json] = []
        for _ in range(30):
            await asyncio.sleep(1)
            seen.append(await shown(site, names[0]))
        waiting = [one for one in seen if one["state"] == "granted"]
        assert any(
            [row["state"] for row in one["members"]] == ["voted", "voted", "waiting"]
            and one["missing"]
            == "kube-scheduler has not accepted default/ring-2 on a node; none is bound before all are."
            for one in waiting
        ), seen[-1]
        assert all(
            one["why"].endswith("no Pod of the gang is bound before kube-scheduler has accepted each on its node.")
            for one in waiting
            if "cannot be used" not in one["why"]
        )


async def test_a_pod_of_its_own_is_shown_as_no_gang(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        reply = await site.get(8083, f"/debug/gangs/{site.uid('web')}")
        assert (reply.status_code, reply.json()["error"]) == (
            404,
            f"no gang of a Pod with UID '{site.uid('web')}' is known",
        )
