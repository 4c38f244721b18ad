"""Which GPUs Slurm gave stands on the Pod when it is bound, and stays true."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from simulator.cluster import simulated_cluster
from simulator.slurm.records import SimNode
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
DEVICES, GPUS = "status.slurm-extender.io/devices", "status.slurm-extender.io/gpus"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    nodes = [SimNode("n1", cpus=8, memory_mb=64_000, gres={"gpu:h100": 4, "shard": 16})]
    async with simulated_cluster(Site, nodes=nodes) as site:
        yield site


def written(site: Site, name: str) -> tuple[str | None, str | None]:
    annotations = site.pod(name)["metadata"]["annotations"]
    return annotations.get(DEVICES), annotations.get(GPUS)


async def test_the_devices_of_the_job_are_written_with_the_binding(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("first", gpus=1)
        site.kube.add_pod("second", gpus=2)
        await site.bound("first")
        await site.bound("second")
        found = sorted([written(site, "first"), written(site, "second")], key=str)
        assert [text.partition("(")[0] for text, _ in found if text] == ["gpu:h100:1", "gpu:h100:2"]
        numbers = [number for _, gpus in found if gpus for number in gpus.split(",")]
        assert sorted(numbers) == ["0", "1", "2"]  # nobody has another's


async def test_no_request_is_made_for_it(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", gpus=2)
        site.kube.add_pod("plain")
        await site.bound("web")
        await site.bound("plain")
        assert written(site, "plain") == (None, None)


async def test_what_was_written_there_before_is_not_taken_for_the_extenders(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={GPUS: "0,1,2,3", DEVICES: "gpu:4"})
        await site.bound("web")
        assert written(site, "web") == ("", "")


async def test_a_next_process_knows_them_and_writes_them_again_where_they_were_edited(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", gpus=2)
        await site.bound("web")
        was = written(site, "web")
    async with site.running():
        site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({GPUS: "3"}))
        await site.until(lambda: written(site, "web") == was, "the truth")
        assert "StatusAnnotationsIgnored" in site.events("web")


async def test_of_a_part_of_a_gpu_it_is_written_which_one_it_is(site: Site) -> None:
    async with site.running():
        site.gives("n1", {"nvidia.com/gpu.shared": "16"})
        site.kube.add_pod("web", more={"nvidia.com/gpu.shared": "6"})
        await site.bound("web")
        assert written(site, "web") == ("shard:6(IDX:0,1)", "0,1")
