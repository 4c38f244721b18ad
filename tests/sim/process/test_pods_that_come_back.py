"""Pods that a restored etcd lacked, and has again: what happened to them before, or meanwhile, still counts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.domain.wellknown import CANCELLED
from simulator.kube.storage import Snapshot
from tests.builders.gang_pods import gang
from tests.builders.process_site import Site
from tests.sim.process.test_gang_policy import FREE, SMALL, Policy

pytestmark = pytest.mark.looptime

RING = [f"ring-{number}" for number in range(3)]


def pods(site: Site, size: int) -> list[str]:
    """Create one Pod, or a gang of three. Return their names."""
    if size == 1:
        site.kube.add_pod("ring-0")
    else:
        gang(site, range(3), 3)
    return RING[:size]


async def once_waiting(site: Site) -> tuple[Snapshot, list[int]]:
    """Wait until the job of these Pods waits behind those of `site.fill`. Return what etcd has, and all live jobs."""
    await site.until(lambda: len(site.live_jobs()) == 4, "its job")
    await asyncio.sleep(5)
    return site.kube.storage.save(), [job.job_id for job in site.live_jobs()]


@pytest.mark.parametrize("size", [1, 3])
async def test_a_job_that_waits_keeps_its_place_where_its_pods_come_back_after_a_start(site: Site, size: int) -> None:
    async with site.dying():
        await site.fill()
        before = site.kube.storage.save()
        names = pods(site, size)
        whole, live = await once_waiting(site)
    await site.restore_kube(before)
    async with site.running():
        await asyncio.sleep(60)
        assert [job.job_id for job in site.live_jobs()] == live
        await site.restore_kube(whole)
        await asyncio.sleep(100)
        assert [job.job_id for job in site.live_jobs()] == live
        site.free_all()
        for name in names:
            await site.bound(name)
        assert [job.job_id for job in site.live_jobs()] == live[-1:]


async def test_a_job_that_waits_is_changed_where_its_pod_comes_back_after_a_start_with_other_settings(
    site: Site,
) -> None:
    async with site.dying():
        await site.fill()
        before = site.kube.storage.save()
        site.kube.add_pod("ring-0", annotations={"slurm-extender.io/time-limit": "10"})
        whole, live = await once_waiting(site)
    await site.restore_kube(before)
    async with site.running():
        await asyncio.sleep(60)
        await site.restore_kube(whole)
        later = {"slurm-extender.io/time-limit": "5"}
        site.edit_pod("ring-0", lambda pod: pod["metadata"]["annotations"].update(later))
        await asyncio.sleep(100)
        assert [job.job_id for job in site.live_jobs()] == live
        assert site.live_jobs()[-1].time_limit_s == 300


@pytest.mark.parametrize("size", [1, 3])
async def test_a_cancel_that_pods_record_counts_where_one_of_them_comes_back(site: Site, size: int) -> None:
    async with site.running():
        await site.fill()
        names = pods(site, size)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        (job,) = [job for job in site.live_jobs() if "ring" in job.name]
        site.slurm.controller.cancel(job.job_id)
        await site.until(
            lambda: all(CANCELLED in (site.pod(name)["metadata"].get("annotations") or {}) for name in names), "records"
        )
        await asyncio.sleep(60)
        whole, submitted = site.kube.storage.save(), len(site.jobs())
        site.kube.delete_pod(names[-1], grace_s=1)
        await site.gone(names[-1])
        await asyncio.sleep(30)
        await site.restore_kube(whole)  # the same UID, with the record
        await asyncio.sleep(60)
        assert len(site.jobs()) == submitted


@pytest.mark.parametrize("absent", [True, False], ids=["absent", "there"])
async def test_a_policy_that_changes_while_pods_are_absent_counts_when_they_are_back(
    site: Site, tmp_path: Path, absent: bool
) -> None:
    policy = Policy(tmp_path / "policy.yaml")
    policy.says(FREE)
    async with site.running(changed=policy.given):
        await site.fill()
        before, running = site.kube.storage.save(), site.live_jobs()
        gang(site, range(3), 3)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        whole = site.kube.storage.save()
        if absent:
            await site.restore_kube(before)
            await asyncio.sleep(10)
        policy.says(SMALL)
        await asyncio.sleep(30)
        if absent:
            await site.restore_kube(whole)
        await asyncio.sleep(60)
        assert site.live_jobs() == running
        site.free_all()
        await asyncio.sleep(60)
        assert not any(site.node_of(name) for name in RING)


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "seated"])
async def test_the_node_of_a_pod_that_came_back_and_is_deleted_by_force_is_held(site: Site, waits: bool) -> None:
    async with site.running():
        for number in range(3):
            gang(site, range(number, number + 1), 3, grace_s=3000 if number == 1 else 5)
        for name in RING:
            await site.bound(name)
        await asyncio.sleep(5)
        before = site.kube.storage.save()
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        if waits:
            gang(site, range(1, 2), 3, grace_s=5)
            await site.bound("ring-1")
        else:
            await asyncio.sleep(5)
        await site.restore_kube(before)
        await asyncio.sleep(30)
        site.kube.delete_pod("ring-1", grace_s=0)  # the one with a grace of 3000 s
        await site.gone("ring-1")
        gang(site, range(1, 2), 3, grace_s=5)
        await asyncio.sleep(1000)
        assert not site.node_of("ring-1")
        assert site.drained() == ["n2"]
