"""A Pod that is resized while it runs, beside a job that cannot be."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GATE
from simulator.kube.objects import Json
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


def resize(site: Site, name: str, cpu: str) -> None:
    """As `kubectl patch --subresource resize` does."""

    def edit(pod: Json) -> None:
        for part in ("requests", "limits"):
            pod["spec"]["containers"][0]["resources"][part]["cpu"] = cpu

    site.edit_pod(name, edit)


def granted(site: Site, name: str) -> bool:
    p = site.extender.engine.placeholders.by_pod(site.uid(name))
    return p is not None and p.state is State.GRANTED


async def test_growth_beyond_the_job_is_reported_and_ends_nothing(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="2")
        await site.bound("web")
        (job,) = site.live_jobs()
        resize(site, "web", "6")
        await site.until(lambda: "NotAccountedBySlurm" in site.events("web"), "a word about it")
        assert any("6 CPUs instead of 2" in note for note in site.notes("web"))
        await asyncio.sleep(60)
        assert site.live_jobs() == [job]
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.events("web").count("NotAccountedBySlurm") == 1


async def test_a_pod_that_shrinks_keeps_its_job(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="4")
        await site.bound("web")
        (job,) = site.live_jobs()
        resize(site, "web", "1")
        await asyncio.sleep(60)
        assert site.live_jobs() == [job]
        assert "NotAccountedBySlurm" not in site.events("web")


async def test_a_pod_that_waits_gets_a_job_of_its_new_size(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        resize(site, "web", "3")
        await site.until(lambda: [job.cpus_per_node for job in site.jobs_of("web")] == [3], "a smaller one")


async def test_the_growth_of_one_pod_keeps_the_next_one_off_its_node(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="2")
        node = await site.bound("web")
        resize(site, "web", "60")
        await asyncio.sleep(1)
        site.kube.add_pod("next", cpu="6")
        assert await site.bound("next") != node


async def test_a_pod_that_grows_between_grant_and_binding_gets_a_job_that_is_large_enough(site: Site) -> None:
    async with site.running():
        site.network.refuse("extender", 8080)  # kube-scheduler cannot ask
        site.kube.add_pod("web", cpu="2", gates=(GATE,))
        await site.until(lambda: granted(site, "web"), "the grant")
        resize(site, "web", "6")
        await site.until(lambda: [job.cpus_per_node for job in site.live_jobs()] == [6], "a larger job", within=20)
        site.network.refuse("extender", 8080, refused=False)
        await site.bound("web")
        assert [job.cpus_per_node for job in site.live_jobs()] == [6]
