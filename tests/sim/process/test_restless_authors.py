"""Authors who create, remove and change Pods as fast as they can delay no other author, and leave nothing in Slurm."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from extender.domain.wellknown import GATE
from simulator.kube.objects import Json
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

SOON_S = 5.0
"""For a Pod of another author: its job is submitted, whatever the others do."""

NAMESPACES = 500
RECREATIONS = 200
CHANGERS = 50
CHANGES = 200
PREFIX = "slurm-extender.io/"


def annotate(given: dict[str, str], pod: Json) -> None:
    pod["metadata"].setdefault("annotations", {}).update(given)


async def test_a_pod_of_each_of_hundreds_of_namespaces_delays_no_pod_of_another_one(site: Site) -> None:
    async with site.running():
        await site.fill()
        for number in range(NAMESPACES):
            site.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"flood-{number}"}})
            site.kube.add_pod("web", f"flood-{number}", gates=(GATE,), cpu="8")
        await asyncio.sleep(1)
        site.kube.add_pod("innocent", gates=(GATE,), cpu="8")
        await site.until(lambda: bool(site.jobs_of("innocent")), "its job", SOON_S)
        await site.until(lambda: len(site.live_jobs()) == NAMESPACES + 4, "the jobs of all", 300)


async def test_a_pod_that_is_recreated_all_the_time_leaves_neither_jobs_nor_drained_nodes(site: Site) -> None:
    async with site.running():
        await site.fill()
        for _ in range(RECREATIONS):
            site.kube.add_pod("web", gates=(GATE,), cpu="8")
            await asyncio.sleep(1 / 30)
            site.kube.delete_pod("web", grace_s=0)
        assert len(site.jobs()) > RECREATIONS / 10, "the extender submits jobs meanwhile"
        site.free_all()
        site.kube.add_pod("next", gates=(GATE,), cpu="8")
        await site.bound("next", within=60)
        await site.until(lambda: site.live_jobs() == site.jobs_of("next"), "no job without a Pod", 60)
        await asyncio.sleep(60)
        assert site.live_jobs() == site.jobs_of("next")
        assert not site.drained()


async def test_waiting_pods_that_change_all_the_time_keep_their_jobs_and_delay_no_other_pod(site: Site) -> None:
    async with site.running():
        await site.fill()
        names = [f"restless-{number}" for number in range(CHANGERS)]
        for name in names:
            site.kube.add_pod(name, gates=(GATE,), cpu="8")
        await site.until(lambda: len(site.live_jobs()) == CHANGERS + 3, "the jobs of all", 300)
        before = {name: [job.job_id for job in site.jobs_of(name)] for name in names}
        for number in range(CHANGES):
            given = {PREFIX + "time-limit": str(1000 + number), PREFIX + "nice": str(number)}
            site.edit_pod(names[number % CHANGERS], partial(annotate, given))
            await asyncio.sleep(1 / 200)
            if number == CHANGES // 2:
                site.kube.add_pod("innocent", gates=(GATE,), cpu="8")
        await site.until(lambda: bool(site.jobs_of("innocent")), "its job", SOON_S)
        last = {name: CHANGES - CHANGERS + number for number, name in enumerate(names)}

        def followed() -> bool:
            jobs = [(name, job) for name in names for job in site.jobs_of(name)]
            return all((job.time_limit_s, job.nice) == (60 * (1000 + last[name]), last[name]) for name, job in jobs)

        await site.until(followed, "the last word of each Pod", 300)
        assert {name: [job.job_id for job in site.jobs_of(name)] for name in names} == before
