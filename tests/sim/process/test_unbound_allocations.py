"""A granted node that kube-scheduler does not take is released to Slurm, and the Pod gets another."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime
BATCH = {"slurm-extender.io/mode": "batch"}


async def granted(site: Site, name: str = "web") -> str:
    """Let a Pod be granted a node while kube-scheduler is away; the node."""
    site.network.refuse("extender", 8080)
    site.network.cut("extender", 8080)
    await site.until(lambda: any(job.state == "RUNNING" for job in site.jobs_of(name)), "the grant")
    (job,) = site.jobs_of(name)
    return job.nodes[0]


async def waiting(site: Site, name: str = "web") -> None:
    """A Pod whose job waits behind Pods that fill the cluster."""
    await site.fill()
    site.kube.add_pod(name, cpu="8", annotations=BATCH)
    await site.until(lambda: bool(site.jobs_of(name)), "its job")


async def freed(site: Site, name: str = "web") -> str:
    """Let Slurm give the Pod a node, and every Node be cordoned before kube-scheduler asks for it; the node."""
    site.kube.delete_pod("first-1", grace_s=1)
    node = await granted(site, name)
    for each in NAMES:
        site.cordon(each)
    site.network.refuse("extender", 8080, refused=False)
    return node


async def test_a_grant_on_a_cordoned_node_is_released_although_kube_scheduler_never_calls(site: Site) -> None:
    async with site.running():
        await waiting(site)
        node = await freed(site)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=30)
        assert any("cordoned" in note for note in site.notes("web"))
        for name in NAMES:
            site.cordon(name, unschedulable=name == node)
        site.kube.delete_pod("first-0", grace_s=1)
        site.kube.delete_pod("first-2", grace_s=1)
        assert await site.bound("web") != node


async def test_a_node_that_stops_reporting_before_the_binding_is_released(site: Site) -> None:
    async with site.running():
        await waiting(site)
        for node in NAMES:
            site.report_ready(node, ready=False)
        site.kube.delete_pod("first-1", grace_s=1)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=30)
        assert any("not Ready" in note for note in site.notes("web"))


async def test_a_moment_of_trouble_of_the_node_costs_nothing(site: Site) -> None:
    async with site.running():
        await waiting(site)
        node = await freed(site)
        await asyncio.sleep(5)
        for name in NAMES:
            site.cordon(name, unschedulable=False)
        assert await site.bound("web", within=15) == node
        assert "SlurmAllocationReleased" not in site.events("web")


@pytest.mark.usefixtures("unhurried")
async def test_a_grant_that_is_never_offered_is_released_after_a_while(site: Site) -> None:
    async with site.running():
        site.network.refuse("extender", 8080)
        site.kube.add_pod("web", annotations=BATCH)
        site.network.refuse("extender", 8080, refused=False)
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await granted(site)
        await asyncio.sleep(140)
        assert "SlurmAllocationReleased" not in site.events("web")
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=30)
        site.network.refuse("extender", 8080, refused=False)
        await site.bound("web")
        assert len(site.jobs_of("web")) == 1


@pytest.mark.usefixtures("unhurried")
async def test_nothing_is_released_while_the_api_server_is_away(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        node = await granted(site)
        await site.until(lambda: site.placeholder("web").cleared, "the wake")
        site.network.refuse("kube", 6443)
        site.network.cut("kube", 6443)
        await asyncio.sleep(300)
        assert [job.nodes for job in site.jobs_of("web")] == [(node,)]
        site.network.refuse("kube", 6443, refused=False)
        site.network.refuse("extender", 8080, refused=False)
        assert await site.bound("web") == node
        assert "SlurmAllocationReleased" not in site.events("web")


async def test_a_granted_node_that_is_deleted_is_released(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        node = await granted(site)
        site.delete_node(node)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=30)
        site.network.refuse("extender", 8080, refused=False)
        assert await site.bound("web") != node
