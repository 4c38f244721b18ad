"""After an outage of all replicas jobs of deleted Pods end at once; those of Pods that a restore took back are kept."""

from __future__ import annotations

import asyncio
import random
from itertools import count

import pytest

from extender.domain.jobs.identity import decode_mark
from simulator.kube.faults import KubeFault
from simulator.kube.resources import LEASES
from simulator.kube.storage import ObjectKey, Snapshot
from tests.builders.process_site import CONFIG, Site
from tests.builders.replicas import replicas

pytestmark = pytest.mark.looptime
SOON = CONFIG + "orphans: {massGracePeriod: 90}\n"
CHECKPOINTS = ObjectKey(LEASES, "slurm-extender", "slurm-extender-checkpoints")
SOON_S = 15.0
STARTED_AGAIN_S = 6.0
"""The same where the leader starts again in its place: its last writes are over after 4 s."""

MANY = [f"web-{number}" for number in range(20)]
FEW = MANY[:1]


async def ran(site: Site, names: list[str]) -> Snapshot:
    """Let Pods run in an extender that is killed then; a snapshot of etcd from before."""
    async with site.dying():
        site.kube.add_pod("stays", cpu="1")
        await site.bound("stays")
        before = site.kube.storage.save()
        for name in names:
            site.kube.add_pod(name, cpu="1")
        for name in names:
            await site.bound(name)
    return before


async def deleted(site: Site, names: list[str]) -> None:
    for name in names:
        site.kube.delete_pod(name, grace_s=1)
    for name in names:
        await site.gone(name)


async def said(site: Site) -> str:
    """The line about restores of the verbose readiness."""
    lines = (await site.get(8081, "/readyz?verbose")).text.splitlines()
    return next(line for line in lines if "restore" in line)


@pytest.mark.parametrize(("names", "within"), [(MANY, 15), (FEW, 5)], ids=["many", "one"])
async def test_jobs_of_pods_that_were_deleted_meanwhile_end_at_once(site: Site, names: list[str], within: int) -> None:
    await ran(site, names)
    await deleted(site, names)
    async with site.running():
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=within)
        assert len(site.jobs_of("stays")) == 1
        assert "[+]" in await said(site)


@pytest.mark.parametrize("bump", [True, False], ids=["", "versions-given-out-again"])
@pytest.mark.parametrize("names", [MANY, FEW], ids=["many", "one"])
async def test_jobs_of_pods_that_a_restore_took_back_are_kept(site: Site, names: list[str], bump: bool) -> None:
    site.config = SOON
    before = await ran(site, names)
    await site.restore_kube(before, bump=bump)
    async with site.running() as extender:
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 1 + len(names)
        assert "etcd was restored" in await said(site)
        extender.mass_deletion_guard.confirm()
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=15)
        assert len(site.jobs_of("stays")) == 1


async def test_a_restore_is_remembered_by_every_later_process_until_the_jobs_end(site: Site) -> None:
    site.config = SOON
    before = await ran(site, FEW)
    await site.restore_kube(before, bump=False)
    for number in range(3):
        async with site.dying():
            site.kube.add_pod(f"later-{number}", cpu="1")
            await site.bound(f"later-{number}")
            await asyncio.sleep(30)
    assert len(site.live_jobs()) == 5
    async with site.running():
        await site.until(lambda: len(site.live_jobs()) == 4, "its end", within=120)


async def test_pods_deleted_before_and_after_a_restore_are_distinguished_from_those_that_it_took_back(
    site: Site,
) -> None:
    site.config = SOON
    await ran(site, MANY[:3])
    await deleted(site, MANY[:2])
    before = site.kube.storage.save()
    async with site.dying():
        site.kube.add_pod("lost", cpu="1")
        await site.bound("lost")
        await asyncio.sleep(0.1)
        there = {job.job_id for job in site.jobs_of("lost")}
    await site.restore_kube(before)
    await deleted(site, MANY[2:3])
    async with site.running():
        await site.until(lambda: len(site.live_jobs()) == 2, "the end of the others", within=15)
        await asyncio.sleep(30)
        assert there < {job.job_id for job in site.live_jobs()}


async def test_without_the_lease_with_the_checkpoints_every_absence_counts_as_a_restore(site: Site) -> None:
    site.config = SOON
    await ran(site, FEW)
    await deleted(site, FEW)
    site.kube.storage.remove(CHECKPOINTS)
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 2
        await site.until(lambda: len(site.live_jobs()) == 1, "its end", within=60)


@pytest.mark.parametrize(
    "fault", [KubeFault("", "checkpoints", code=503, times=None), KubeFault("", "checkpoints", code=403, times=None)]
)
async def test_while_the_checkpoints_cannot_be_read_nothing_ends(site: Site, fault: KubeFault) -> None:
    await ran(site, FEW)
    await deleted(site, FEW)
    site.kube.faults.add(fault)
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 2
        assert "cannot be read" in await said(site)
        site.kube.faults.clear()
        await site.until(lambda: len(site.live_jobs()) == 1, "its end", within=15)


async def test_where_checkpoints_cannot_be_written_pods_are_placed_and_the_mass_deletion_guard_counts_their_jobs(
    site: Site,
) -> None:
    site.config = SOON
    fault = site.kube.faults.add(KubeFault("", "checkpoints", code=403, times=None))
    await ran(site, MANY)
    await deleted(site, MANY)
    site.kube.faults.remove(fault)
    assert all(decode_mark(job.admin_comment).checkpoint is None for job in site.live_jobs())  # type: ignore[union-attr]
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 1 + len(MANY)
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=90)


async def test_the_owner_of_a_job_cannot_have_it_judged_by_another_checkpoint(site: Site) -> None:
    site.config = SOON
    before = await ran(site, FEW)
    (lost,), (stays,) = site.jobs_of("web-0"), site.jobs_of("stays")
    lost.extra = stays.extra
    await site.restore_kube(before)
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 2


@pytest.mark.parametrize("restored", [False, True])
async def test_replicas_that_all_end_leave_the_same_evidence(site: Site, restored: bool) -> None:
    async with replicas(site) as both:
        site.kube.add_pod("stays", cpu="1")
        await site.bound("stays")
        before = site.kube.storage.save()
        for name in MANY:
            site.kube.add_pod(name, cpu="1")
        for name in MANY:
            await site.bound(name)
        for process in both.processes:
            process.kill()
        if restored:
            await site.restore_kube(before, bump=False)
        else:
            await deleted(site, MANY)
        both.start()
        both.start()
        await asyncio.sleep(SOON_S if not restored else 60)  # the Lease of the killed leader runs out first
        assert len(site.live_jobs()) == (1 + len(MANY) if restored else 1)


@pytest.mark.parametrize("how", ["the-standby-follows", "both-killed-and-started-again", "killed-and-started-again"])
async def test_jobs_of_pods_that_were_deleted_when_the_leader_of_two_died_end_within_15_s(site: Site, how: str) -> None:
    async with replicas(site) as both:
        names = ["stays", *MANY]
        for name in names:
            site.kube.add_pod(name, cpu="1")
        for name in names:
            await site.bound(name)
        first, _ = await both.led()
        await asyncio.sleep(1.9)  # since when the Lease has been renewed, most likely
        first.kill()
        if how == "both-killed-and-started-again":
            both.processes[1].kill()
        for name in MANY:
            site.kube.delete_pod(name, grace_s=1)
        if how != "the-standby-follows":
            await asyncio.sleep(1)
            both.start(after=first)
        if how == "both-killed-and-started-again":
            both.start(after=both.processes[1])
        within = SOON_S if how == "the-standby-follows" else STARTED_AGAIN_S
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=within)
        assert len(site.jobs_of("stays")) == 1


def in_order(site: Site, pods: list[str]) -> bool:
    return len(site.live_jobs()) == len(pods) and all(len(site.jobs_of(name)) == 1 for name in pods)


async def test_an_extender_that_is_killed_again_and_again_under_load_leaves_no_job_without_a_pod(site: Site) -> None:
    rng, alive = random.Random(7), list[str]()
    number = count()

    async def come_and_go() -> None:
        while True:
            alive.append(f"load-{next(number)}")
            site.kube.add_pod(alive[-1], cpu="1", grace_s=1)
            if len(alive) > 20:
                site.kube.delete_pod(alive.pop(rng.randrange(len(alive))), grace_s=1)
            await asyncio.sleep(0.15)

    load = asyncio.create_task(come_and_go())
    for _ in range(5):
        async with site.dying():
            await asyncio.sleep(rng.uniform(2, 6))
        await asyncio.sleep(rng.uniform(1, 5))
    load.cancel()
    for name in [alive.pop() for _ in range(10)]:
        site.kube.delete_pod(name, grace_s=1)
    await asyncio.sleep(3)
    async with site.running():
        await site.until(lambda: in_order(site, alive), "a job for each Pod, and no other", within=20)
    assert next(number) > 100
