"""A restored etcd brings a member of a gang back, which was deleted and may have a successor by now."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.placeholder import State
from simulator.kube.storage import Snapshot
from tests.builders.gang_pods import gang
from tests.builders.occasions import BATCH
from tests.builders.process_site import SITE_KEY, Site

pytestmark = pytest.mark.looptime


async def running_gang(site: Site) -> Snapshot:
    """Place a gang of three, and return what etcd had before its second member was deleted."""
    for name in gang(site, range(3), 3):
        await site.bound(name)
    await asyncio.sleep(5)
    return site.kube.storage.save()


async def is_whole(site: Site, uid: str, job: int) -> bool:
    """Return whether the Pod with this UID, and no other, has the second slot of the job.

    That a Pod is absent after a restore is believed only after minutes.
    """
    await asyncio.sleep(700)
    placed = [one.ref.uid for one in site.placeholder("ring-0").members if one.placed]
    pods = [site.pod(f"ring-{number}")["metadata"] for number in range(3)]
    return (
        sorted(placed) == sorted([site.uid("ring-0"), uid, site.uid("ring-2")])
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


async def back_after_its_node_was_returned(site: Site, grace_s: int) -> str:
    """Have a member come back whose node went back to Slurm; return its UID once its end has begun."""
    for name in gang(site, range(3), 3, grace_s=grace_s):
        await site.bound(name)
    await asyncio.sleep(5)
    before, uid, (job,) = site.kube.storage.save(), site.uid("ring-1"), site.live_jobs()
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.until(lambda: len(job.nodes) == 2, "the return of its node")
    site.kubelets.stop_s = float(grace_s)
    await site.restore_kube(before)
    index = site.extender.engine.placeholders
    await site.until(lambda: (p := index.get(uid)) is not None and p.state is State.LOST, "the begin of its end")
    return uid


async def test_a_member_that_comes_back_after_its_node_was_returned_is_ended_alone(site: Site) -> None:
    async with site.running():
        await back_after_its_node_was_returned(site, 30)
        (job,) = site.live_jobs()
        index = site.extender.engine.placeholders
        assert index.by_job(job.job_id) is index.by_pod(site.uid("ring-0"))
        await site.gone("ring-1")
        assert site.live_jobs() == [job]
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in ("ring-0", "ring-2"))


async def test_the_node_of_a_member_that_came_back_is_released_when_another_member_leaves_meanwhile(site: Site) -> None:
    async with site.running():
        uid = await back_after_its_node_was_returned(site, 30)
        site.kube.delete_pod("ring-0", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(300)
        assert site.drained() == []
        assert site.extender.engine.placeholders.get(uid) is None


async def test_an_epilog_waits_for_the_members_of_the_gang_beside_one_that_came_back(site: Site, keyed: Site) -> None:
    async with site.running():
        await back_after_its_node_was_returned(site, 60)
        (job,) = site.live_jobs()
        await asyncio.sleep(57)
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        answer = (await site.post(f"/hooks/jobs/{job.job_id}/teardown?wait=30&node=n1", SITE_KEY)).json()
        assert not (answer["gone"] and site.kube.pod("ring-0"))


@pytest.mark.parametrize("how", ["TIMEOUT", "PREEMPTED", "CANCELLED"])
async def test_a_job_that_ends_ends_the_member_that_waits_for_its_slot(site: Site, how: str) -> None:
    async with site.running():
        before = await running_gang(site)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        await site.bound("ring-1")
        await site.restore_kube(before)
        await asyncio.sleep(20)
        (job,) = site.live_jobs()
        site.slurm.controller.end(job.job_id, how)
        await site.gone("ring-0")
        await site.gone("ring-1", within=120)


async def test_a_pod_that_comes_back_before_its_end_was_reported_keeps_its_job(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await site.bound("web")
        await asyncio.sleep(5)
        before, (job,) = site.kube.storage.save(), site.live_jobs()
        site.slurm.restd.stop_slurmctld()  # so that the node cannot be drained, which comes first
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(5)
        await site.restore_kube(before)
        await asyncio.sleep(5)
        site.slurm.restd.continue_slurmctld()
        await asyncio.sleep(300)
        assert site.live_jobs() == [job]
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.placeholder("web").state is State.BOUND
        assert site.drained() == []


async def test_a_pod_that_comes_back_ended_before_its_end_was_reported_gives_its_job_back(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await site.bound("web")
        await asyncio.sleep(5)
        before = site.kube.storage.save()
        site.slurm.restd.stop_slurmctld()
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(5)
        await site.restore_kube(before)
        site.edit_pod("web", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await asyncio.sleep(5)
        site.slurm.restd.continue_slurmctld()
        await site.until(lambda: site.live_jobs() == [], "the end of its job")
