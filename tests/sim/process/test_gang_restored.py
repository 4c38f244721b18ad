"""A restored etcd brings deleted members of gangs back, or lacks members that wait or run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from extender.domain import events as e
from extender.domain.placeholder import State
from extender.domain.wellknown import GATE
from simulator.kube.storage import Snapshot
from simulator.slurm.records import SimJob
from tests.builders.gang_pods import a_leader, gang
from tests.builders.process_site import CONFIG, SITE_KEY, Site
from tests.builders.triggers import BATCH

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


async def restored_after_success(site: Site, name: str, settings: Mapping[str, str] | None = None) -> SimJob:
    """Restore an etcd from before a member succeeded; return the job of its gang."""
    for each in gang(site, range(3), 3, settings=settings):
        await site.bound(each)
    await asyncio.sleep(5)
    before, (job,) = site.kube.storage.save(), site.live_jobs()
    site.edit_pod(name, lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
    await asyncio.sleep(60)
    await site.restore_kube(before)
    return job


async def test_a_member_that_succeeded_and_is_shown_running_again_after_its_node_was_returned_is_ended_alone(
    site: Site,
) -> None:
    async with site.running():
        job = await restored_after_success(site, "ring-1")
        assert job.nodes == ("n1", "n3")
        await site.gone("ring-1", within=120)
        await asyncio.sleep(60)
        assert site.live_jobs() == [job]
        assert site.drained() == []
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in ("ring-0", "ring-2"))


async def test_a_member_that_succeeded_and_is_shown_running_again_has_its_slot_again_while_the_job_has_its_node(
    site: Site,
) -> None:
    async with site.running():
        job = await restored_after_success(site, "ring-0", BATCH)  # the node of the script stays
        await asyncio.sleep(60)
        assert job.nodes == ("n1", "n2", "n3")
        first = site.placeholder("ring-1").in_slot(0)
        assert first is not None
        assert (first.ref.name, first.node, first.end) == ("ring-0", "n1", None)
        assert "deletionTimestamp" not in site.pod("ring-0")["metadata"]


async def test_a_member_that_comes_back_twice_while_slurm_is_away_belongs_to_one_workload(site: Site) -> None:
    async with site.running():
        before = await running_gang(site)
        (job,), uid = site.live_jobs(), site.uid("ring-1")
        site.network.stall("slurm", 6820)  # the return of its node is under way
        site.edit_pod("ring-1", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await asyncio.sleep(2)
        await site.restore_kube(before)
        await asyncio.sleep(10)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        site.slurm.restd.slurmctld_up = False
        site.network.resume("slurm", 6820)
        kept = e.ShrinkAnswered(job.job_id, False, "Slurm does not return the node.")
        site.extender.engine.handle(site.placeholder("ring-0").key, kept, "test")
        await site.restore_kube(before)
        for second in range(60):
            await asyncio.sleep(1)
            site.slurm.restd.slurmctld_up = second > 20
            own = site.extender.engine.placeholders.get(uid)
            member = site.placeholder("ring-0").member(uid)
            seated = member is not None and member.end is None
            assert not (seated and own is not None and own.state is not State.GONE)


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


# Members that a restored etcd lacks.

TAINT = {"key": "x", "value": "y", "effect": "NoSchedule"}
RING = [f"ring-{number}" for number in range(3)]


def jobs_of_the_gang(site: Site, name: str = "ring") -> list[int]:
    """Return every job that was submitted for a gang, ended ones included."""
    return [job.job_id for job in site.jobs() if f"gang {name}" in job.name]


def why_it_waits(site: Site) -> str:
    (p,) = (one for one in site.extender.engine.placeholders.all.values() if one.is_gang)
    return site.extender.engine.explain(p).text


async def held_at_the_barrier(site: Site) -> list[Snapshot]:
    """Let two of three members vote; return what etcd had before each of them, and after all."""
    kept = [site.kube.storage.save()]
    for number in range(3):
        gang(site, range(number, number + 1), 3, gates=(GATE,))
        kept.append(site.kube.storage.save())
    site.edit_node("n3", lambda node: node["spec"].update(taints=[TAINT]))
    await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
    return kept


async def lost_after_the_grant(site: Site) -> list[Snapshot]:
    """Restore etcd to before a gang whose barrier is held; return what it had after each of its Pods."""
    before, *kept = await held_at_the_barrier(site)
    await site.restore_kube(before)
    return kept


async def test_no_job_is_submitted_for_a_gang_that_a_restored_etcd_lacks_after_its_grant(site: Site) -> None:
    async with site.running():
        await lost_after_the_grant(site)
        await asyncio.sleep(300)
        assert len(jobs_of_the_gang(site)) == 1
        assert site.live_jobs() == []
        assert why_it_waits(site).startswith("The API server has no Pod of gang ring")


async def test_no_job_is_submitted_for_a_gang_that_a_restored_etcd_lacks_while_its_job_is_released(site: Site) -> None:
    async with site.running():
        before, *_ = await held_at_the_barrier(site)
        site.slurm.restd.stop_slurmctld()
        await site.until(lambda: site.placeholder("ring-0").state is State.RELEASING, "its release")
        await site.until(lambda: len(site.placeholder("ring-0").candidates or ()) == 2, "an offer without its node")
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        await site.until(lambda: len(site.placeholder("ring-0").candidates or ()) == 3, "an offer of all nodes")
        await site.restore_kube(before)
        await asyncio.sleep(60)
        site.slurm.restd.continue_slurmctld()
        await asyncio.sleep(200)
        assert len(jobs_of_the_gang(site)) == 1
        assert site.live_jobs() == []


async def test_a_gang_that_runs_keeps_its_job_while_a_restored_etcd_lacks_it(site: Site) -> None:
    async with site.running():
        before = site.kube.storage.save()
        whole = await running_gang(site)
        running = site.live_jobs()
        await site.restore_kube(before)
        await asyncio.sleep(200)
        await site.restore_kube(whole)
        await asyncio.sleep(200)
        assert site.live_jobs() == running == site.jobs()
        assert all(site.node_of(name) and "deletionTimestamp" not in site.pod(name)["metadata"] for name in RING)


async def test_no_second_job_is_submitted_for_a_group_whose_leader_a_restored_etcd_lacks(site: Site) -> None:
    async with site.running():
        await site.fill()
        before = site.kube.storage.save()
        a_leader(site)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        await site.restore_kube(before)
        submitted = len(site.jobs())
        site.free_all()
        await asyncio.sleep(300)
        assert len(site.jobs()) == submitted
        assert site.live_jobs() == []


async def test_a_gang_that_a_restored_etcd_lacks_keeps_its_place_in_the_queue_and_gets_no_second_job(
    site: Site,
) -> None:
    async with site.running():
        await site.fill()
        before = site.kube.storage.save()
        gang(site, range(3), 3)
        await site.until(lambda: bool(jobs_of_the_gang(site)), "its job")
        await asyncio.sleep(5)
        there = jobs_of_the_gang(site)
        await site.restore_kube(before)
        await asyncio.sleep(200)
        assert [job.job_id for job in site.live_jobs() if job.job_id in there] == there
        site.free_all()
        await asyncio.sleep(200)
        assert jobs_of_the_gang(site) == there


async def test_a_gang_that_lacks_one_member_in_a_restored_etcd_keeps_its_place_in_the_queue(site: Site) -> None:
    async with site.running():
        await site.fill()
        gang(site, range(2), 3)
        before = site.kube.storage.save()
        gang(site, range(2, 3), 3)
        await site.until(lambda: bool(jobs_of_the_gang(site)), "its job")
        await asyncio.sleep(5)
        (job,), whole = jobs_of_the_gang(site), site.kube.storage.save()
        await site.restore_kube(before)
        await asyncio.sleep(200)
        await site.restore_kube(whole)
        site.free_all()
        for name in RING:
            await site.bound(name, within=400)
        assert jobs_of_the_gang(site) == [job]


@pytest.mark.parametrize("step", [1, 3], ids=["one by one", "together"])
async def test_a_gang_whose_members_come_back_gets_one_job_once_all_are_there(site: Site, step: int) -> None:
    async with site.running():
        kept = await lost_after_the_grant(site)
        await asyncio.sleep(120)
        for snapshot in kept[step - 1 :: step]:
            assert len(jobs_of_the_gang(site)) == 1
            await site.restore_kube(snapshot)
            await asyncio.sleep(20)
        for name in RING:
            await site.bound(name, within=400)
        assert len(jobs_of_the_gang(site)) == 2
        assert len(site.live_jobs()) == 1


async def test_a_gang_whose_members_come_back_after_a_start_is_placed(site: Site) -> None:
    async with site.dying():
        kept = await lost_after_the_grant(site)
        await asyncio.sleep(120)
    async with site.running():
        await asyncio.sleep(120)
        assert len(jobs_of_the_gang(site)) == 1
        await site.restore_kube(kept[-1])
        for name in RING:
            await site.bound(name, within=400)
        assert len(jobs_of_the_gang(site)) == 2


async def test_a_gang_whose_members_count_as_deleted_is_forgotten_without_another_job(site: Site) -> None:
    site.config = CONFIG + "orphans: {massGracePeriod: 90}\n"
    async with site.running():
        await lost_after_the_grant(site)
        await asyncio.sleep(300)
        assert len(jobs_of_the_gang(site)) == 1
        assert not any(one.is_gang for one in site.extender.engine.placeholders.all.values())
        assert not site.extender.gangs.lacking()
        for name in gang(site, range(3), 3):
            await site.bound(name)
