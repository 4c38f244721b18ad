"""What kube-scheduler was told by the process before may be wrong now: it is made to ask again, once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from simulator.kube.faults import KubeFault
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime
PRIORITY = {"slurm-extender.io/priority": "9"}


async def test_a_pod_whose_setting_is_allowed_now_need_not_wait_for_kube_scheduler(site: Site) -> None:
    async with site.running(changed="jobs: {allow: []}\n"):
        site.kube.add_pod("web", annotations=PRIORITY)
        await site.until(lambda: "InvalidSlurmSettings" in site.events("web"), "the refusal")
        await asyncio.sleep(30)
    async with site.running(changed="jobs: {allow: [priority]}\n"):
        await site.bound("web", within=15)


@pytest.mark.usefixtures("unhurried")
async def test_a_start_wakes_each_pod_once_and_not_all_in_one_instant(site: Site) -> None:
    async with site.running(changed="jobs: {allow: []}\n"):
        for number in range(60):
            site.kube.add_pod(f"web-{number}", annotations=PRIORITY)
        await asyncio.sleep(60)
    for node in NAMES:
        site.cordon(node)
    await asyncio.sleep(30)
    site.kube.requests.clear()
    async with site.running(changed="jobs: {allow: [priority]}\n"):
        await asyncio.sleep(3)
        assert len(woken(site)) < 60
        await asyncio.sleep(120)
        assert woken(site) == {f"web-{number}": 1 for number in range(60)}


@pytest.mark.usefixtures("unhurried")
async def test_a_pod_that_cannot_be_written_to_is_woken_later_and_does_not_keep_others_waiting(site: Site) -> None:
    async with site.running(changed="jobs: {allow: []}\n"):
        for name in ("web-1", "web-2"):
            site.kube.add_pod(name, annotations=PRIORITY)
        await asyncio.sleep(60)
    for name in NAMES:
        site.cordon(name)
    await asyncio.sleep(30)
    site.kube.requests.clear()
    closed = site.kube.faults.add(
        KubeFault(method="PATCH", path="/pods/web-1$", code=403, reason="Forbidden", times=None)
    )
    async with site.running(changed="jobs: {allow: [priority]}\n"):
        await asyncio.sleep(60)
        assert woken(site)["web-2"] == 1
        assert woken(site)["web-1"] in {2, 3}
        site.kube.faults.rules.remove(closed)
        await asyncio.sleep(60)
        assert woken(site)["web-1"] in {3, 4}


async def test_pods_that_nothing_keeps_from_their_turn_are_not_woken(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        await asyncio.sleep(20)
    site.kube.requests.clear()
    async with site.running():
        await asyncio.sleep(60)
        assert not woken(site)


def woken(site: Site) -> Counter[str]:
    """How often each Pod was written to, but for what it is told of its wait."""
    paths = [one.path for one in site.kube.requests if one.method == "PATCH" and "/pods/" in one.path]
    return Counter(path.rpartition("/")[2] for path in paths if not path.endswith("/status"))
