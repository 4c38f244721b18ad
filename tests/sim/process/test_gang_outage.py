"""After an outage the jobs of deleted gangs end at once, also of those that got members later; restored ones stay."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.jobs.identity import decode_mark
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.faults import KubeFault
from simulator.kube.storage import Snapshot
from simulator.slurm.faults import SlurmFault
from tests.builders import gang_pods
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime

GANGS = [f"ring-{number}" for number in range(8)]
"""More than `massDeletionGuard.minCount`."""

SOON_S = 15.0
SOON = CONFIG + "orphans: {massGracePeriod: 90}\n"


def member(site: Site, gang: str, number: int) -> str:
    name = f"{gang}-{number}"
    site.kube.add_pod(name, cpu="500m", annotations={GANG: gang, GANG_SIZE: "2"}, grace_s=1)
    return name


async def run_gangs(site: Site, gangs: list[str] = GANGS) -> list[str]:
    names = [member(site, gang, number) for gang in gangs for number in range(2)]
    for name in names:
        await site.bound(name)
    return names


async def replace_first(site: Site, gangs: list[str] = GANGS) -> None:
    """Let another Pod take the slot of the first member of each gang."""
    for gang in gangs:
        site.kube.delete_pod(f"{gang}-0", grace_s=1)
    for gang in gangs:
        await site.gone(f"{gang}-0")
        member(site, gang, 2)
    for gang in gangs:
        await site.bound(f"{gang}-2")


async def delete_all(site: Site) -> None:
    names = [pod["metadata"]["name"] for pod in site.pods()]
    for name in names:
        site.kube.delete_pod(name, grace_s=1)
    for name in names:
        await site.gone(name)


def marks(site: Site) -> list[str]:
    found = [decode_mark(job.admin_comment) for job in site.live_jobs()]
    return [str(mark.checkpoint) for mark in found if mark is not None]


@pytest.mark.parametrize("later", [False, True], ids=["as-they-came", "with-later-members"])
async def test_jobs_of_gangs_that_were_deleted_meanwhile_end_at_once(site: Site, later: bool) -> None:
    async with site.dying():
        await run_gangs(site)
        before = marks(site)
        if later:
            await replace_first(site)
            assert not set(before) & set(marks(site))
        assert len(site.live_jobs()) == len(GANGS)
    await delete_all(site)
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "their end", within=SOON_S)


async def test_a_later_member_is_bound_only_when_the_mark_of_its_job_covers_it(site: Site) -> None:
    gang = GANGS[:1]
    async with site.running():
        await run_gangs(site, gang)
        before = marks(site)
        site.slurm.restd.faults.add(SlurmFault.UNAVAILABLE, "POST", "/job/", times=6)
        site.kube.delete_pod("ring-0-0", grace_s=1)
        await site.gone("ring-0-0")
        member(site, "ring-0", 2)
        while marks(site) == before:
            assert not site.node_of("ring-0-2")
            await asyncio.sleep(0.05)
        await site.bound("ring-0-2")


async def lost_member(site: Site) -> Snapshot:
    """Let a gang get a later member in an extender that is killed then; a snapshot of etcd from before that member."""
    async with site.dying():
        await run_gangs(site, GANGS[:1])
        site.kube.delete_pod("ring-0-0", grace_s=1)
        await site.gone("ring-0-0")
        before = site.kube.storage.save()
        member(site, "ring-0", 2)
        await site.bound("ring-0-2")
    return before


async def test_the_job_of_a_gang_whose_later_member_a_restore_took_back_is_kept(site: Site) -> None:
    site.config = SOON
    await site.restore_kube(await lost_member(site), bump=False)
    site.kube.delete_pod("ring-0-1", grace_s=1)
    await site.gone("ring-0-1")
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 1
        await site.until(lambda: not site.live_jobs(), "its end", within=60)


async def test_a_member_that_joins_after_a_restore_does_not_hide_the_restore(site: Site) -> None:
    site.config = SOON
    await site.restore_kube(await lost_member(site), bump=False)
    async with site.dying():
        await site.until(lambda: "ring-0-1" in site.bound_pods(), "the member that is left")
        member(site, "ring-0", 3)
        await site.bound("ring-0-3")
    await delete_all(site)
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == 1


async def test_a_member_that_joins_without_a_checkpoint_is_bound_and_the_mass_deletion_guard_decides_on_its_gang(
    site: Site,
) -> None:
    site.config = SOON
    fault = KubeFault("", "checkpoints", code=403, times=None)
    async with site.dying():
        await run_gangs(site)
        site.kube.faults.add(fault)
        await replace_first(site)
        assert all(text.endswith("+") for text in marks(site))
    site.kube.faults.remove(fault)
    await delete_all(site)
    async with site.running():
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == len(GANGS)
        await site.until(lambda: not site.live_jobs(), "their end", within=60)


async def test_a_start_between_grant_and_binding_of_a_later_member_covers_it_again(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.dying():
        await run_gangs(site, GANGS[:1])
        node = site.node_of("ring-0-0")
        site.kube.delete_pod("ring-0-0", grace_s=1)
        await site.gone("ring-0-0")
        site.edit_node(node, lambda one: one["spec"].update(taints=[taint]))
        member(site, "ring-0", 2)
        await asyncio.sleep(5)
        before = marks(site)
    site.edit_node(node, lambda one: one["spec"].pop("taints"))
    async with site.dying():
        await site.bound("ring-0-2")
        assert marks(site) != before
    await delete_all(site)
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "its end", within=SOON_S)


@pytest.mark.parametrize("first", [0, 1])
async def test_a_successor_that_comes_after_a_start_gets_the_slot_of_a_member_that_was_deleted_before(
    site: Site, first: int
) -> None:
    async with site.dying():
        await run_gangs(site, GANGS[:1])
        job = site.live_jobs()[0].job_id
    gone = f"ring-0-{first}"
    node = site.node_of(gone)
    site.kube.delete_pod(gone, grace_s=1)
    await site.gone(gone)
    async with site.running():
        await asyncio.sleep(5)
        member(site, "ring-0", 2)
        assert await site.bound("ring-0-2") == node
        assert [one.job_id for one in site.live_jobs()] == [job]


async def test_bindings_whose_outcome_is_not_known_in_time_end_no_gang(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang_pods.gang(site, range(3), 3, name="wide", gates=(GATE,))
        site.edit_node("n3", lambda node: node["spec"].update(taints=[taint]))
        await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
        running = site.live_jobs()
        site.kube.caches.behind_s = 50
        site.kube.faults.add(KubeFault("POST", "/binding", code=0, after=True, times=None))
        unread = site.kube.faults.add(KubeFault("GET", "/pods/wide-", code=0, times=None))
        asyncio.get_running_loop().call_later(60, site.kube.faults.remove, unread)
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        for name in names:
            await site.bound(name)
        await asyncio.sleep(120)
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in names)
        assert site.live_jobs() == running
