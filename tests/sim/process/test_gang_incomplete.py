"""A gang that loses members before it runs gets no further job. A job that waits keeps its place for a while."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import CANCELLED, GATE
from simulator.kube.storage import Snapshot
from simulator.slurm.faults import SlurmFault
from tests.builders.gang_pods import gang
from tests.builders.process_site import Site
from tests.sim.process.test_gang_restored import RING, TAINT, jobs_of_the_gang, why_it_waits

pytestmark = pytest.mark.looptime

both = pytest.mark.parametrize("restored", [True, False], ids=["restored", "deleted"])
few = pytest.mark.parametrize("left", [0, 1], ids=["none left", "one left"])


async def lose_second(site: Site, one: Snapshot, *, restored: bool) -> None:
    """Take the second of two members away: by a restore of etcd to a time before it, or by its deletion."""
    if restored:
        await site.restore_kube(one)
    else:
        site.kube.delete_pod("ring-1", grace_s=1)


async def released_slowly(site: Site) -> tuple[Snapshot, Snapshot]:
    """Have the job of a gang of two released, which Slurm does not do before it answers again.

    Return what etcd had with one member and with both.
    """
    gang(site, range(1), 2, gates=(GATE,))
    one = site.kube.storage.save()
    gang(site, range(1, 2), 2, gates=(GATE,))
    whole = site.kube.storage.save()
    site.edit_node("n2", lambda node: node["spec"].update(taints=[TAINT]))
    await site.until(lambda: site.scheduler.status.binds >= 1, "a vote")
    site.slurm.restd.stop_slurmctld()
    await site.until(lambda: site.placeholder("ring-0").state is State.RELEASING, "its release")
    site.edit_node("n2", lambda node: node["spec"].pop("taints"))
    await asyncio.sleep(20)
    return one, whole


async def wait_in_queue(site: Site, left: int = 0) -> tuple[Snapshot, Snapshot, list[int]]:
    """Have the job of a gang of three wait; return what etcd had with `left` members and with all, and its job."""
    await site.fill()
    gang(site, range(left), 3)
    before = site.kube.storage.save()
    gang(site, range(left, 3), 3)
    await site.until(lambda: bool(jobs_of_the_gang(site)), "its job")
    await asyncio.sleep(5)
    return before, site.kube.storage.save(), jobs_of_the_gang(site)


def in_queue(site: Site) -> list[int]:
    live = {job.job_id for job in site.live_jobs()}
    return [job for job in jobs_of_the_gang(site) if job in live]


async def test_edge_case_1_a_gang_that_is_incomplete_for_long_gets_one_event_with_the_reason(site: Site) -> None:
    def reported() -> list[str]:
        names = [name for name in RING if site.kube.pod(name) is not None]
        return [note for name in names for note in site.notes(name) if note == "2 of 3 Pods of gang ring exist."]

    async with site.running(changed="gangs: {completeWithin: 2m}\n"):
        gang(site, range(2), 3)
        await asyncio.sleep(110)
        assert reported() == []
        await asyncio.sleep(30)
        assert len(reported()) == 1
        assert [site.events(name) for name in RING[:2]].count(["GangIncomplete"]) == 1
        await asyncio.sleep(300)
        assert len(reported()) == 1
        gang(site, range(2, 3), 3)
        for name in RING:
            await site.bound(name)


async def test_the_time_of_a_gang_that_was_complete_meanwhile_begins_again(site: Site) -> None:
    async with site.running():
        await site.fill()
        gang(site, range(2), 3)
        await asyncio.sleep(200)
        gang(site, range(2, 3), 3)
        await asyncio.sleep(60)
        site.kube.delete_pod("ring-2", grace_s=0)
        await asyncio.sleep(200)
        assert "GangIncomplete" not in site.events("ring-0") + site.events("ring-1")
        await asyncio.sleep(120)
        assert (site.events("ring-0") + site.events("ring-1")).count("GangIncomplete") == 1


@both
async def test_no_job_is_submitted_for_a_gang_that_lost_a_member_while_its_job_was_released(
    site: Site, restored: bool
) -> None:
    async with site.running():
        one, _ = await released_slowly(site)
        uid = site.uid("ring-1")
        await lose_second(site, one, restored=restored)
        await asyncio.sleep(60)
        attempts = site.placeholder("ring-0").attempt
        site.slurm.restd.continue_slurmctld()
        await asyncio.sleep(300)
        assert len(jobs_of_the_gang(site)) == 1
        p = site.placeholder("ring-0")
        assert p.attempt == attempts
        assert (p.member(uid) is not None) == restored
        assert why_it_waits(site) == "1 of 2 Pods of gang ring exist."


@both
@pytest.mark.parametrize("during", [True, False], ids=["during the release", "after it"])
async def test_a_gang_that_lost_a_member_while_its_job_was_released_gets_a_job_once_it_is_complete(
    site: Site, restored: bool, during: bool
) -> None:
    async with site.running():
        one, whole = await released_slowly(site)
        await lose_second(site, one, restored=restored)
        await asyncio.sleep(60)
        if not during:
            site.slurm.restd.continue_slurmctld()
            await asyncio.sleep(100)
        if restored:
            await site.restore_kube(whole)
        else:
            gang(site, range(1, 2), 2, gates=(GATE,))
        if during:
            await asyncio.sleep(30)
            site.slurm.restd.continue_slurmctld()
        for name in RING[:2]:
            await site.bound(name, within=400)
        assert len(jobs_of_the_gang(site)) == 2


@both
async def test_no_job_is_submitted_for_a_gang_that_lost_a_member_while_its_job_was_searched_for(
    site: Site, restored: bool
) -> None:
    async with site.running():
        gang(site, range(1), 2)
        one = site.kube.storage.save()
        lost = site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "POST")
        gang(site, range(1, 2), 2)
        await asyncio.sleep(1)
        await site.until(lambda: site.placeholder("ring-0").state is State.UNSURE, "a request without an answer")
        await lose_second(site, one, restored=restored)
        await asyncio.sleep(3)
        assert site.placeholder("ring-0").state is State.UNSURE
        site.slurm.restd.faults.rules.remove(lost)
        await asyncio.sleep(300)
        assert jobs_of_the_gang(site) == []
        gang(site, range(1, 2), 2)
        for name in RING[:2]:
            await site.bound(name, within=400)


@pytest.mark.parametrize("gates", [(), (GATE,)], ids=["no gate", "gated"])
@pytest.mark.parametrize("later", [1, 2], ids=["incomplete", "complete"])
async def test_pods_that_come_while_a_job_is_released_leave_its_outcome_as_it_is(
    site: Site, later: int, gates: tuple[str, ...]
) -> None:
    async with site.running():
        for name in gang(site, range(2), 2):
            await site.bound(name)
        await asyncio.sleep(5)
        (job,) = site.live_jobs()
        site.slurm.restd.stop_slurmctld()
        for name in RING[:2]:
            site.edit_pod(name, lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await asyncio.sleep(10)
        p = site.placeholder("ring-0")
        assert p.state is State.RELEASING
        gang(site, range(2, 2 + later), 2, gates=gates)
        await asyncio.sleep(30)
        assert site.placeholder("ring-0").outcome == p.outcome != ""
        site.slurm.restd.continue_slurmctld()
        await asyncio.sleep(120)
        assert job not in site.live_jobs()
        assert len(jobs_of_the_gang(site)) == later


async def test_gated_pods_that_replace_those_of_an_ended_job_while_these_still_end_get_another_job(site: Site) -> None:
    async with site.dying():
        for name in (first := gang(site, range(2), 2, gates=(GATE,))):
            await site.bound(name)
        await asyncio.sleep(5)
    async with site.running():
        site.kubelets.stop_s = 20.0
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.until(lambda: site.placeholder("ring-0").state is State.LOST, "the end of its job")
        later = gang(site, range(2, 4), 2, gates=(GATE,))
        for name in first:
            await site.gone(name)
        for name in later:
            await site.bound(name)
        assert len(jobs_of_the_gang(site)) == 2


@few
async def test_a_gang_that_lacked_a_member_before_a_restored_etcd_lacks_others_keeps_its_place(
    site: Site, left: int
) -> None:
    async with site.running():
        before, whole, there = await wait_in_queue(site, left)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(10)
        await site.restore_kube(before)
        await asyncio.sleep(100)
        await site.restore_kube(whole)
        await asyncio.sleep(100)
        assert jobs_of_the_gang(site) == in_queue(site) == there


@few
async def test_the_time_for_a_successor_begins_again_once_pods_that_were_absent_are_back(site: Site, left: int) -> None:
    async with site.running():
        before, _, there = await wait_in_queue(site, left)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(40)
        without = site.kube.storage.save()
        await site.restore_kube(before)
        await asyncio.sleep(100)
        await site.restore_kube(without)
        await asyncio.sleep(40)
        assert in_queue(site) == there
        await asyncio.sleep(60)
        assert in_queue(site) == []
        gang(site, range(1, 2), 3)
        site.free_all()
        for name in RING:
            await site.bound(name, within=400)


async def test_a_cancel_that_ends_a_gang_is_recorded_on_the_member_that_waits_for_its_slot(site: Site) -> None:
    async with site.running():
        for name in gang(site, range(3), 3):
            await site.bound(name)
        await asyncio.sleep(5)
        (job,) = site.live_jobs()
        site.cordon("n2")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        await site.until(lambda: site.placeholder("ring-0").wants, "its successor, which waits for its node")
        site.slurm.controller.cancel(job.job_id)
        await site.gone("ring-0")
        await site.gone("ring-2")
        await site.until(lambda: CANCELLED in (site.pod("ring-1")["metadata"].get("annotations") or {}), "the record")


@few
async def test_a_cancel_of_a_job_whose_pods_a_restored_etcd_lacks_counts_once_they_are_back(
    site: Site, left: int
) -> None:
    async with site.running():
        before, whole, (job,) = await wait_in_queue(site, left)
        await site.restore_kube(before)
        await asyncio.sleep(30)
        site.slurm.controller.cancel(job)
        await asyncio.sleep(60)
        await site.restore_kube(whole)
        await asyncio.sleep(100)
        assert jobs_of_the_gang(site) == [job]
