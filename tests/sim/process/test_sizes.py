"""A Pod that fits on no node there is hears so at once, with the nearest size, and gets its job when one comes."""

from __future__ import annotations

import asyncio

import pytest

from simulator.cluster import simulated_cluster
from simulator.kube.objects import Json
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from simulator.slurm.records import SimNode
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime
OURS = "slurm-extender.io/"
NOWHERE = "NoSuitableNode"

LONGEST_BACKOFF = 10
"""`podMaxBackoffSeconds`."""


def gpus() -> list[SimNode]:
    return [SimNode("n1", cpus=8, memory_mb=64_000, gres={"gpu:h100": 4}), SimNode("n2", cpus=8, memory_mb=64_000)]


async def event_of(site: Site, name: str) -> str:
    await site.until(lambda: NOWHERE in site.events(name), "a word about it", within=5)
    return next(note for note in site.notes(name) if "large enough" in note)


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_larger_than_any_node_of_slurm_gets_the_nearest_size(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="9")
        assert "8 of 9 requested CPUs" in await event_of(site, "web")
        await asyncio.sleep(200)
        assert not site.slurm.controller.jobs  # nothing was asked of Slurm, not even once
        site.slurm.controller.nodes["n2"].cpus = 16
        assert await site.bound("web", within=30) == "n2"


async def test_a_type_of_gpu_that_no_node_has_is_named_with_those_there_are() -> None:
    async with simulated_cluster(Site, nodes=gpus()) as site, site.running():
        site.kube.add_pod("web", gpus=1, annotations={OURS + "gpu-type": "h200"})
        assert "available types: gpu:h100" in await event_of(site, "web")
        site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({OURS + "gpu-type": "h100"}))
        assert await site.bound("web", within=30) == "n1"


async def test_more_gpus_than_any_node_has_and_a_gres_that_there_is_not_are_reported() -> None:
    async with simulated_cluster(Site, nodes=gpus()) as site, site.running():
        site.kube.add_pod("many", annotations={OURS + "gres": "gpu:5"})
        site.kube.add_pod("odd", annotations={OURS + "gres": "fpga:1"})
        assert "4 of 5 requested gpu" in await event_of(site, "many")
        assert "0 of 1 requested fpga" in await event_of(site, "odd")
        assert not site.slurm.controller.jobs


async def test_what_a_partition_s_nodes_are_too_small_for_is_reported_though_others_are_large_enough(
    site: Site,
) -> None:
    controller = site.slurm.controller
    controller.nodes["n3"].cpus = 32
    controller.partitions["urgent"].nodes = ("n1", "n2")
    async with site.running():
        site.kube.add_pod("web", cpu="16", annotations={OURS + "partition": "urgent"})
        assert "8 of 16 requested CPUs" in await event_of(site, "web")
        site.kube.add_pod("other", cpu="16")
        assert await site.bound("other") == "n3"


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_larger_than_any_node_of_kubernetes_gets_an_event_and_recovers_by_itself(site: Site) -> None:
    for node in ("n1", "n2", "n3"):
        site.gives(node, {"cpu": "3500m"})
    async with site.running():
        site.kube.add_pod("web", cpu="4")
        assert "3500m of 4000m requested cpu" in await event_of(site, "web")
        await asyncio.sleep(100)
        assert not site.slurm.controller.jobs
        site.gives("n3", {"cpu": "4"})
        # kube-scheduler backs off from a Pod whose Node and condition have changed.
        assert await site.bound("web", within=LONGEST_BACKOFF) == "n3"


async def test_nodes_that_lack_what_slurm_does_not_count_are_avoided_from_the_start(site: Site) -> None:
    site.gives("n2", {"hugepages-2Mi": "64Mi"})
    site.gives("n3", {"hugepages-2Mi": "16Mi"})
    async with site.running():
        site.kube.add_pod("web", more={"hugepages-2Mi": "32Mi"})
        assert await site.bound("web") == "n2"
        assert "SlurmAllocationReleased" not in site.events("web")
        (job,) = site.live_jobs()
        assert job.excluded == ("n1", "n3")


async def test_a_waiting_job_gets_a_node_whose_devices_came_late(site: Site) -> None:
    site.gives("n1", {"smarter-devices/fuse": "1"})
    site.config = CONFIG + "jobs: {gres: [{resource: smarter-devices/*, gres: none}]}\n"
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", more={"smarter-devices/fuse": "1"})
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        (job,) = site.jobs_of("web")
        assert job.excluded == ("n2", "n3")
        site.gives("n2", {"smarter-devices/fuse": "1"})
        await site.until(lambda: job.excluded == ("n3",), "the job is told")


async def test_the_one_node_that_is_large_enough_is_requested_again_after_it_was_released(site: Site) -> None:
    site.slurm.controller.nodes["n1"].cpus = 32
    site.kube.add_pod("daemon", scheduler="other", node="n1", cpu="50")
    async with site.running():
        site.kube.add_pod("web", cpu="16")
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the node is released")
        await asyncio.sleep(30)
        assert "SlurmJobRejected" not in site.events("web")
        site.kube.delete_pod("daemon", grace_s=1)
        assert await site.bound("web") == "n1"


async def test_while_slurm_has_not_been_read_nothing_is_refused(site: Site) -> None:
    site.network.refuse("slurm", 6820)
    async with site.running():
        site.kube.add_pod("web", cpu="9")
        await asyncio.sleep(60)
        assert NOWHERE not in site.events("web")
        site.network.refuse("slurm", 6820, refused=False)
        await event_of(site, "web")


async def test_a_node_that_has_not_said_yet_what_it_gives_is_no_reason_to_refuse(site: Site) -> None:
    def forget(one: Json) -> None:
        one["status"]["allocatable"] = {}

    for node in ("n1", "n2", "n3"):
        site.kube.change(ObjectKey(NODES, "", node), forget)
    async with site.running():
        site.kube.add_pod("web")
        await site.until(lambda: bool(site.live_jobs()), "its job")
        assert NOWHERE not in site.events("web")
        site.gives(site.live_jobs()[0].nodes[0], {"cpu": "8", "memory": "8Gi", "pods": "10"})
        await site.bound("web")


@pytest.mark.usefixtures("unhurried")
async def test_what_slurm_itself_says_no_to_is_requested_again_when_nodes_change(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={OURS + "constraints": "nvme"})
        await site.until(lambda: "SlurmJobRejected" in site.events("web"), "Slurm's no")
        submitted = len(site.slurm.controller.jobs)
        await asyncio.sleep(300)
        assert len(site.slurm.controller.jobs) <= submitted
        site.slurm.controller.nodes["n2"].features = ("nvme",)
        assert await site.bound("web") == "n2"


async def test_licences_stand_in_the_job_and_on_no_node(site: Site) -> None:
    site.config = CONFIG + "jobs: {gres: [{resource: 'example.com/*', gres: 'license/{1}'}]}\n"
    async with site.running():
        site.kube.add_pod("web", more={"example.com/matlab": "2"}, annotations={OURS + "licenses": "ansys"})
        await site.bound("web")
        assert [job.licenses for job in site.live_jobs()] == ["ansys,matlab:2"]


async def test_a_node_without_slurmd_that_is_large_enough_is_used_though_those_with_one_are_not() -> None:
    small, large = SimNode("n1", cpus=8, memory_mb=64_000), SimNode("e1", cpus=32, memory_mb=64_000, external=True)
    async with simulated_cluster(Site, nodes=[small, large]) as site, site.running():
        site.kube.add_pod("web", cpu="16")
        assert await site.bound("web") == "e1"
        assert [job.external for job in site.live_jobs()] == [True]


async def test_of_a_partition_whose_one_node_is_too_small_in_kubernetes_too_the_size_is_reported(site: Site) -> None:
    site.slurm.controller.partitions["urgent"].nodes = ("n1",)
    site.gives("n1", {"cpu": "8"})
    async with site.running():
        site.kube.add_pod("web", cpu="16", annotations={OURS + "partition": "urgent"})
        assert "Closest is Node n1 with 8000m of 16000m requested cpu" in await event_of(site, "web")
        site.slurm.controller.nodes["n2"].cpus = 32
        site.slurm.controller.partitions["urgent"].nodes = ("n1", "n2")
        assert await site.bound("web", within=30) == "n2"
