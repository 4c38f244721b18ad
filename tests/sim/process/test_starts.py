"""A Pod that holds what Slurm gave it and does not start: people are told, and its node comes back where asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.domain.wellknown import NOT_STARTING
from extender.sim.kube.objects import Json, timestamp
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

LIMIT = "starts: {limit: 2m}\n"
POLICY = """
apiVersion: slurm-extender.io/v1alpha1
kind: PodPolicy
rules:
  - name: patient
    match: {namespaces: [default]}
    startLimit: %s
"""


def condition(site: Site, name: str) -> str:
    conditions: list[Json] = site.pod(name)["status"].get("conditions", [])
    return next((one["status"] for one in conditions if one["type"] == NOT_STARTING), "")


async def never_starting(site: Site) -> None:
    site.kubelets.start_s = 10**6
    site.kube.add_pod("web")
    await site.bound("web")
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    site.edit_pod("web", lambda pod: pod["status"].update(containerStatuses=[waiting]))


async def late(site: Site) -> float:
    return await site.metric('pods_not_starting{kind="late"}')


async def test_a_pod_that_does_not_start_is_told_of_once_it_is_late_and_keeps_its_node(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(100)
        assert (condition(site, "web"), await late(site)) == ("", 0)
        assert await site.metric('pods_not_starting{kind="starting"}') == 1
        await asyncio.sleep(40)
        assert (condition(site, "web"), await late(site)) == ("True", 1)
        assert site.events("web").count("PodNotStarting") == 1
        assert any("ImagePullBackOff" in note for note in site.notes("web"))
        await asyncio.sleep(200)
        assert site.jobs_of("web")
        assert site.events("web").count("PodNotStarting") == 1


async def test_what_was_said_is_taken_back_when_it_starts_also_by_the_next_process(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(140)
        assert condition(site, "web") == "True"
    running = {"name": "main", "ready": True, "state": {"running": {}}}
    site.edit_pod("web", lambda pod: pod["status"].update(phase="Running", containerStatuses=[running]))
    async with site.running():
        await asyncio.sleep(30)
        assert (condition(site, "web"), await late(site)) == ("False", 0)


async def test_where_the_site_asks_it_is_evicted_and_its_job_ends(site: Site) -> None:
    site.config += "starts: {limit: 2m, evict: true}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(110)
        assert site.jobs_of("web")
        await site.gone("web", 120)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_init_containers_that_end_well_are_progress(site: Site) -> None:
    site.config += LIMIT
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(80)
        ended = {"exitCode": 0, "finishedAt": timestamp(site.kube.wall())}
        done = {"name": "load", "state": {"terminated": ended}}
        site.edit_pod("web", lambda pod: pod["status"].update(initContainerStatuses=[done]))
        await asyncio.sleep(80)
        assert condition(site, "web") == ""
        await asyncio.sleep(60)
        assert condition(site, "web") == "True"


@pytest.mark.parametrize(("limit", "told"), [("0", ""), ("2h", ""), ("1m", "True")])
async def test_a_rule_of_the_policy_says_another_limit_for_its_pods(
    site: Site, tmp_path: Path, limit: str, told: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY % limit)
    site.config += f"{LIMIT}jobs: {{policyFile: {path}}}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(200)
        assert condition(site, "web") == told


async def test_it_can_be_switched_off(site: Site) -> None:
    site.config += "starts: {limit: null}\n"
    async with site.running():
        await never_starting(site)
        await asyncio.sleep(200)
        assert (condition(site, "web"), await late(site)) == ("", 0)
