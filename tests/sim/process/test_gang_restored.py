"""A restored etcd brings a member of a gang back, which was deleted and has a successor by now."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.storage import Snapshot
from tests.builders.gang_pods import gang
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def running_gang(site: Site) -> Snapshot:
    """Place a gang of three, and return what etcd had before its second member was deleted."""
    for name in gang(site, range(3), 3):
        await site.bound(name)
    await asyncio.sleep(5)
    return site.kube.storage.save()


async def is_whole(site: Site, uid: str, job: int) -> bool:
    """Return whether the Pod with this UID, and no other, has the second slot of the job, two minutes later."""
    await asyncio.sleep(120)
    members = site.placeholder("ring-0").members
    pods = [site.pod(f"ring-{number}")["metadata"] for number in range(3)]
    return (
        site.uid("ring-1") == uid
        and sorted(one.ref.name for one in members if one.placed) == ["ring-0", "ring-1", "ring-2"]
        and not any("deletionTimestamp" in pod for pod in pods)
        and [one.job_id for one in site.live_jobs()] == [job]
    )


async def test_a_member_that_comes_back_before_its_successor_was_bound_has_its_slot_again(site: Site) -> None:
    async with site.running():
        before = await running_gang(site)
        (job,), uid = site.live_jobs(), site.uid("ring-1")
        site.cordon("n2")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        await site.until(lambda: site.placeholder("ring-0").wants, "its successor, which waits for its node")
        await site.restore_kube(before)
        assert await is_whole(site, uid, job.job_id)


async def test_a_member_that_comes_back_waits_until_its_successor_is_known_to_be_gone(site: Site) -> None:
    async with site.running():
        before = await running_gang(site)
        (job,), uid = site.live_jobs(), site.uid("ring-1")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        await site.bound("ring-1")
        await site.restore_kube(before)
        assert await is_whole(site, uid, job.job_id)


async def test_a_member_that_comes_back_after_its_node_was_returned_is_ended_alone(site: Site) -> None:
    async with site.running():
        before = await running_gang(site)
        (job,), uid = site.live_jobs(), site.uid("ring-1")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.until(lambda: len(job.nodes) == 2, "the return of its node")
        await site.restore_kube(before)
        await site.until(lambda: site.kube.pod("ring-1") is None, "its end")
        assert uid not in site.bound_pods()
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in ("ring-0", "ring-2"))
