"""Pods without requests: a whole node for each, where the site says so."""

from __future__ import annotations

import asyncio

import pytest

from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime


def best_effort(site: Site, name: str) -> None:
    site.kube.add_pod(name, cpu="0", memory="0")


async def test_each_pod_without_requests_gets_a_node_that_no_other_job_is_on(site: Site) -> None:
    site.config = CONFIG + "jobs: {missingRequests: whole-node}\n"
    async with site.running():
        for number in range(3):
            best_effort(site, f"greedy-{number}")
        nodes = {await site.bound(f"greedy-{number}") for number in range(3)}
        assert len(nodes) == 3
        assert "SlurmWholeNode" in site.events("greedy-0")
        site.kube.add_pod("small", cpu="1")
        await site.until(lambda: bool(site.jobs_of("small")), "its job")
        await asyncio.sleep(30)
        assert site.jobs_of("small")[0].state == "PENDING"
        site.kube.delete_pod("greedy-0", grace_s=1)
        await site.bound("small")


async def test_by_default_a_pod_without_requests_gets_no_job(site: Site) -> None:
    async with site.running():
        best_effort(site, "greedy")
        await site.until(lambda: "InvalidSlurmSettings" in site.events("greedy"), "an Event")
        assert not site.jobs()
