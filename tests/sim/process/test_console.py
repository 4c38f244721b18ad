"""What the console shows of a cluster: bounded rows, texts that are safe to show, and the Pods of its namespaces."""

from __future__ import annotations

import json

import pytest

from extender.assembly import Assembly
from extender.domain.events import MemberRef
from extender.domain.placeholder import Member, Placeholder
from extender.engine.placeholder_index import PlaceholderIndex
from extender.http.console_inspection import LONGEST_STEP, LONGEST_TEXT, MOST_WORKLOADS
from simulator.kube.objects import Json
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime

LOCAL = {"Host": "localhost:8083"}
SCRIPT = "<script>alert(1)</script>"
BIDI = "gpj.\u202eexe"
LONG = "n" * 1024


async def read(site: Site, path: str) -> Json:
    async with site.client() as client:
        reply = await client.get(f"http://extender:8083/debug/console/{path}", headers=LOCAL)
        found: Json = reply.json()
        return {**found, "status": reply.status_code}


async def test_the_queue_the_nodes_and_a_timeline_of_one_cluster_agree(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: len(site.jobs_of("web")) == 1, "its job")
        shown = await read(site, "state")
        rows = {row["pods"][0]: row for row in shown["workloads"]}
        assert rows["default/web"]["kind"] == "waiting"
        assert rows["default/web"]["why"]
        assert rows["default/first-0"]["kind"] == "placed"
        assert shown["workloads"][0]["pods"] == ["default/web"]
        assert shown["counts"] == {"waiting": 1, "placed": 3}
        on_nodes = {pod["pods"] for node in shown["nodes"] for pod in node["jobs"]}
        assert on_nodes == {"default/first-0", "default/first-1", "default/first-2"}
        assert next(one for one in shown["partitions"] if one["default"])["reasons"][0]["count"] == 1
        pod = await read(site, f"pods/{rows['default/first-0']['uid']}")
        moves = [step["move"] for step in pod["timeline"]]
        assert moves[-1].endswith("BOUND")
        assert {one["name"] for one in pod["facts"]} >= {"Slurm job", "CPUs", "Slurm nodes"}
        assert (await read(site, "pods/nobody"))["status"] == 404


async def test_a_search_finds_pods_jobs_and_nodes(site: Site) -> None:
    async with site.running():
        await site.fill()
        (node,) = site.placeholder("first-1").slurm_nodes
        for words in ("FIRST-1", node):
            found = (await read(site, f"state?search={words}"))["workloads"]
            assert [row["pods"] for row in found] == [["default/first-1"]]
        assert (await read(site, "state?search=nothing"))["workloadsFound"] == 0


def put(extender: Assembly, p: Placeholder) -> None:
    """Make the extender know a placeholder that no event has led to."""
    assert isinstance(extender.engine.placeholders, PlaceholderIndex)
    extender.engine.placeholders.put(p)


@pytest.mark.parametrize("name", [SCRIPT, BIDI, LONG], ids=["script", "bidi", "long"])
async def test_hostile_names_are_bounded_and_visible(site: Site, name: str) -> None:
    async with site.running() as extender:
        ref = MemberRef("hostile", "default", name)
        put(extender, Placeholder("hostile", members=(Member(ref),), faults=(name,)))
        shown = await read(site, "state?search=default/")
        row = next(row for row in shown["workloads"] if row["uid"] == "hostile")
        pod = await read(site, "pods/hostile")
    for text in (*row["pods"], row["why"], *pod["names"], *pod["faults"]):
        assert len(text) <= LONGEST_STEP + 1
        assert text.isprintable()
    assert len(row["pods"][0]) <= LONGEST_TEXT + 1


@pytest.mark.parametrize("text", ["%00", "%ED%A0%80", "%E2%80%AE", "%0D%0AX:%20y", "%3Cscript%3E", "..%2F..", "9" * 90])
async def test_no_search_and_no_uid_is_a_failure_of_the_process(site: Site, text: str) -> None:
    async with site.running():
        await site.fill()
        assert (await read(site, f"state?search={text}"))["workloadsFound"] == 0
        assert (await read(site, f"pods/{text}"))["status"] == 404


async def test_ten_thousand_workloads_are_counted_and_few_are_shown(site: Site) -> None:
    async with site.running() as extender:
        for number in range(10_000):
            ref = MemberRef(f"u{number}", "default", f"p{number}")
            put(extender, Placeholder(ref.uid, members=(Member(ref),)))
        shown = await read(site, "state")
        narrowed = await read(site, "state?search=p9999")
    assert len(shown["workloads"]) == MOST_WORKLOADS
    assert shown["workloadsFound"] == shown["counts"]["waiting"] == 10_000
    assert len(json.dumps(shown)) < 300_000
    assert [row["pods"] for row in narrowed["workloads"]] == [["default/p9999"]]


async def test_the_key_of_a_gang_is_no_uid(site: Site) -> None:
    async with site.running() as extender:
        put(extender, Placeholder("gang-0", members=(Member(MemberRef("first", "default", "ring-0")),)))
        put(extender, Placeholder("gang-1", members=(Member(MemberRef("second", "default", ""), unknown=True),)))
        put(extender, Placeholder("gang-2"))
        rows = (await read(site, "state"))["workloads"]
        assert {row["uid"] for row in rows} == {"first", "second", ""}
        assert (await read(site, "pods/second"))["status"] == 200


async def test_only_pods_of_its_namespaces_are_shown(site: Site) -> None:
    site.config = CONFIG.replace("debugBind:", "console: {namespaces: [team-a]}, debugBind:")
    async with site.running() as extender:
        await site.fill()
        ref = MemberRef("theirs", "team-a", "web")
        put(extender, Placeholder(ref.uid, members=(Member(ref),)))
        shown = await read(site, "state")
        assert [row["pods"] for row in shown["workloads"]] == [["team-a/web"]]
        assert "first-" not in json.dumps(shown)
        assert (await read(site, f"pods/{site.uid('first-0')}"))["status"] == 404
        assert (await read(site, "pods/theirs"))["status"] == 200
