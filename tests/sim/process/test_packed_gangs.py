"""Packed gangs: members are tasks of one job, and share nodes as Slurm packs them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from extender.domain.wellknown import DEVICES, GANG, GANG_LAYOUT, GANG_NODES, GANG_RANK, GANG_SIZE, GATE
from simulator.cluster import NAMES
from simulator.kube.kubelet import RUN_FOR
from simulator.slurm.records import SimNode
from tests.builders.process_site import Site, a_site

pytestmark = pytest.mark.looptime


def packed(site: Site, numbers: range, size: int, cpu: str = "3", **fields: Any) -> list[str]:
    names = [f"ring-{number}" for number in numbers]
    said = {GANG: "ring", GANG_SIZE: str(size), GANG_LAYOUT: "pack", **fields.pop("annotations", {})}
    for name in names:
        site.kube.add_pod(name, annotations=said, cpu=cpu, gates=(GATE,), **fields)
    return names


def annotations_of(site: Site, name: str) -> dict[str, str]:
    found: dict[str, str] = site.pod(name)["metadata"]["annotations"]
    return found


async def test_members_share_nodes_and_ranks_follow_the_order_of_the_nodes(site: Site) -> None:
    async with site.running():
        names = packed(site, range(5), 5)
        nodes = [await site.bound(name) for name in names]
        (job,) = site.live_jobs()
        assert len(job.nodes) < 5
        assert nodes == sorted(nodes)
        assert Counter(nodes) == dict(job.tasks_on)
        for rank, name in enumerate(names):
            said = annotations_of(site, name)
            assert said[GANG_RANK] == str(rank)
            assert said[GANG_NODES].split(",") == nodes
        assert (job.tasks, job.cpus, Counter(nodes)) == (5, 15, {"n1": 2, "n2": 2, "n3": 1})


async def test_members_share_a_node_on_a_release_that_reports_cores_and_no_cpus_of_a_node() -> None:
    async with a_site(release="23.11.11") as site, site.running():
        names = packed(site, range(3), 3, cpu="2")
        assert len({await site.bound(name) for name in names}) == 1


async def test_members_that_fit_one_node_get_one(site: Site) -> None:
    async with site.running():
        names = packed(site, range(3), 3, cpu="2")
        assert len({await site.bound(name) for name in names}) == 1
        assert [len(job.nodes) for job in site.live_jobs()] == [1]


async def test_a_node_is_returned_once_all_of_its_members_have_succeeded(site: Site) -> None:
    async with site.running():
        names = packed(site, range(4), 4, cpu="4")
        nodes = [await site.bound(name) for name in names]
        assert Counter(nodes) == {"n1": 2, "n2": 2}
        site.kube.delete_pod(names[3], grace_s=0)
        await asyncio.sleep(2)
        assert [job.nodes for job in site.live_jobs()] == [("n1", "n2")]
        site.kube.delete_pod(names[2], grace_s=0)
        await site.until(lambda: [job.nodes for job in site.live_jobs()] == [("n1",)], "n2 is returned", within=120)
        assert [site.pod(name)["spec"]["nodeName"] for name in names[:2]] == ["n1", "n1"]


async def test_a_successor_gets_the_place_of_its_predecessor_beside_the_other_members(site: Site) -> None:
    async with site.running():
        names = packed(site, range(4), 4, cpu="4")
        before = [await site.bound(name) for name in names]
        jobs = site.live_jobs()
        site.kube.delete_pod(names[2], grace_s=1)
        await site.gone(names[2])
        packed(site, range(2, 3), 4, cpu="4")
        assert await site.bound(names[2]) == before[2]
        assert annotations_of(site, names[2])[GANG_RANK] == "2"
        assert site.live_jobs() == jobs


async def test_places_stay_after_a_start_of_the_extender(site: Site) -> None:
    async with site.running():
        names = packed(site, range(4), 4, cpu="4")
        before = [await site.bound(name) for name in names]
    async with site.running():
        await asyncio.sleep(5)
        site.kube.delete_pod(names[3], grace_s=1)
        await site.gone(names[3])
        packed(site, range(3, 4), 4, cpu="4")
        assert await site.bound(names[3]) == before[3]
        assert len(site.live_jobs()) == 1


async def test_edge_case_30_each_of_two_members_on_one_node_gets_devices_of_its_own() -> None:
    nodes = [SimNode(name, cpus=8, memory_mb=64_000, gres={"gpu": 4}) for name in NAMES]
    async with a_site(nodes=nodes) as site, site.running():
        names = packed(site, range(4), 4, cpu="2", gpus=2)
        for name in names:
            await site.bound(name)
        (job,) = site.live_jobs()
        given = [(site.pod(name)["spec"]["nodeName"], annotations_of(site, name)[DEVICES]) for name in names]
        assert [node for node, _ in given] == ["n1", "n1", "n2", "n2"]
        assert [devices for _, devices in given] == ["gpu:2(IDX:0,1)", "gpu:2(IDX:2,3)"] * 2
        assert job.nodes == ("n1", "n2")


async def test_a_packed_gang_larger_than_the_nodes_gets_the_number_of_members_that_fit(site: Site) -> None:
    async with site.running():
        names = packed(site, range(7), 7, cpu="7")
        text = "3 nodes are suitable, with room for 3 members; the gang has 7."
        await site.until(lambda: any(text in note for note in site.notes(names[0])), "the reason", within=60)
        assert site.live_jobs() == []


async def test_a_packed_gang_waits_for_room_and_then_starts_whole(site: Site) -> None:
    async with site.running():
        await site.fill()
        names = packed(site, range(4), 4, cpu="2")
        await site.until(lambda: any(job.state == "PENDING" for job in site.live_jobs()), "its job waits")
        for name in ("first-0", "first-1", "first-2"):
            site.kube.delete_pod(name, grace_s=1)
        assert len({await site.bound(name) for name in names}) == 1


async def test_the_job_ends_with_the_last_member(site: Site) -> None:
    async with site.running():
        names = packed(site, range(3), 3, cpu="2", annotations={RUN_FOR: "20"})
        for name in names:
            await site.bound(name)
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=120)


HOST_PORT: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            "ports": [{"containerPort": 80, "hostPort": 80}],
        }
    ]
}
APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "ring"}}}
            ]
        }
    }
}


@pytest.mark.parametrize(("spec", "text"), [(HOST_PORT, "host port 80"), (APART, "required anti-affinity")])
async def test_edge_case_28_packing_is_refused_for_members_that_cannot_share_a_node(
    site: Site, spec: dict[str, Any], text: str
) -> None:
    async with site.running():
        packed(site, range(2), 2, labels={"app": "ring"}, spec_more=spec)
        await site.until(lambda: any(text in note for note in site.notes("ring-0")), "the refusal")
        assert site.jobs() == []
