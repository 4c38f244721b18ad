"""Whoever reaches the scheduler's port may say anything about Pods: what the API server says alone counts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender.controllers import scheduling
from extender.domain.wellknown import CANCELLED, REQUEUED_AT
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime
Json = dict[str, Any]


PATHS = ("..", ".", "../../nodes", "%2e%2e", "%2e%2e%2fnodes", "a/b", "a\0b", "web?dryRun=All", "web#", "")
"""Names that could lead to another path of the API server than that of a Pod."""


def question(pod: Json, *nodes: str) -> Json:
    return {"Pod": pod, "NodeNames": list(nodes or NAMES)}


def invented(number: int, **fields: Any) -> Json:
    meta = {"name": f"invented-{number}", "namespace": "default", "uid": f"invented-{number}", **fields}
    return {"metadata": meta, "spec": {"schedulerName": "slurm", "containers": [{"name": "c"}]}, "status": {}}


async def test_a_pod_that_is_not_in_the_cluster_waits_and_gets_no_job(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("first")
        await site.bound("first")
        for number in range(20):
            said = await site.post_to_extender("/scheduler/filter", question(invented(number)))
            assert said["NodeNames"] == []
        await asyncio.sleep(20)
        assert len(site.jobs()) == 1
        assert not [one for one in (await site.get(8083, "/debug/placeholders")).json() if "invented" in str(one)]


async def test_thousands_of_invented_pods_keep_little_and_delay_no_pod_of_the_cluster(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "UNSEEN_KEPT", 50)
    async with site.running() as extender:
        answers = [
            await site.post_to_extender("/scheduler/filter", question(invented(number), *NAMES, f"only-of-{number}"))
            for number in range(200)
        ]
        refused = [answer for answer in answers if answer.get("Error") == scheduling.NOT_KNOWN]
        assert len(refused) == 150
        assert len(extender.engine.placeholders.all) == 50
        site.kube.add_pod("real")
        await site.bound("real")
        await asyncio.sleep(30)
        assert [p.pod_names for p in extender.engine.placeholders.all.values()] == ["default/real"]
        for number in range(50):
            answer = await site.post_to_extender("/scheduler/filter", question(invented(1000 + number)))
            assert not answer.get("Error"), "those that were dropped make room"


async def test_what_a_caller_says_of_a_pod_that_is_there_changes_nothing_of_it(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="1")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        submitted = site.jobs_of("waits")[0]
        lie = site.pod("waits") | {"spec": site.pod("waits")["spec"] | {"priority": 2_000_000_000}}
        lie["metadata"] = lie["metadata"] | {"annotations": {"slurm-extender.io/cpus-per-task": "8"}}
        assert (await site.post_to_extender("/scheduler/filter", question(lie)))["NodeNames"] == []
        await asyncio.sleep(20)
        assert site.jobs_of("waits") == [submitted]
        assert site.node_of("waits") == ""


async def test_words_of_the_extender_that_the_author_of_a_pod_wrote_change_nothing(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("victim")
        await site.bound("victim")
        victim = site.jobs_of("victim")[0]
        of_the_victim = json.dumps({"pod": site.uid("victim"), "job": victim.job_id, "request": "x"})
        for number, said in enumerate([of_the_victim, "x" * 100_000, "[" * 100_000, '{"pod": 1}', ""]):
            site.kube.add_pod(f"forged-{number}", cpu="10m", annotations={CANCELLED: said, REQUEUED_AT: said})
            await site.bound(f"forged-{number}")
        assert not victim.ended
        assert site.node_of("victim")


async def test_a_pod_waits_while_a_caller_names_false_nodes_and_is_bound_afterwards(site: Site) -> None:
    """Without a gate, kube-scheduler names the nodes; it names them again at the next change in the cluster."""
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")

        async def lie() -> None:
            while True:
                await site.post_to_extender("/scheduler/filter", question(site.pod("web"), NAMES[0]))
                await asyncio.sleep(1)

        lies = asyncio.create_task(lie())
        await asyncio.sleep(20)
        site.kube.delete_pod("first-1", grace_s=1)
        await asyncio.sleep(60)
        assert site.node_of("web") == ""
        assert not site.drained()
        lies.cancel()
        site.kube.add_pod("other", cpu="8")
        await site.bound("other", within=10)
        site.kube.delete_pod("first-2", grace_s=1)
        assert await site.bound("web", within=30) != NAMES[0]


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "Node"])
async def test_no_name_of_a_caller_of_bind_becomes_a_path_of_the_api_server(site: Site, field: str) -> None:
    async with site.running(changed="scheduler: {otherProfiles: [default-scheduler]}\n"):
        site.kube.add_pod("web")
        site.kube.add_pod("other", scheduler="default-scheduler")
        node = await site.bound("web")
        await asyncio.sleep(30)
        for name in ("web",) if field == "Node" else ("web", "other"):
            right = {"PodName": name, "PodNamespace": "default", "PodUID": site.uid(name), "Node": node}
            for text in (*PATHS, "placed", "kube-system"):
                seen = len(site.kube.requests)
                answer = await site.post_to_extender("/scheduler/bind", right | {field: text})
                assert answer.get("Error"), answer
                written = {one.path for one in list(site.kube.requests)[seen:] if one.method != "GET"}
                allowed = {f"/api/v1/namespaces/default/pods/{name}/binding"} if field == "Node" else set()
                assert written <= allowed
        assert site.node_of("other") == ""


async def test_no_name_of_a_caller_of_filter_becomes_a_path_of_the_api_server(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        await asyncio.sleep(30)
        seen = len(site.kube.requests)
        for number, text in enumerate(PATHS):
            for said in ({"name": text}, {"namespace": text}, {"uid": text}):
                await site.post_to_extender("/scheduler/filter", question(invented(number, **said), text))
                real = {"metadata": site.pod("web")["metadata"] | said}
                await site.post_to_extender("/scheduler/filter", question(site.pod("web") | real, text))
        await asyncio.sleep(30)
        paths = {one.path for one in list(site.kube.requests)[seen:]}
        assert not [
            path for path in paths if "/pods/" in path and not path.startswith("/api/v1/namespaces/default/pods/web")
        ]
        assert not [path for path in paths if path.startswith("/api/v1/nodes/") and path.split("/")[4] not in NAMES]
        assert site.placeholder("web").members[0].ref.full_name == "default/web"
