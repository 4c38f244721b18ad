"""Members of a gang that leave while no extender runs may still run: a start holds their nodes, and no others."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.storage import Snapshot
from simulator.slurm.faults import SlurmFault
from tests.builders.gang_pods import a_leader, gang, workers_of
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime

RING = [f"ring-{number}" for number in range(3)]
GRACE_S = 500
HEARD_S = 120.0
"""Within which a kubelet has heard of a removal, and has reported again after a grace of 30 s."""


async def run_gang(site: Site, grace_s: int = GRACE_S) -> None:
    for name in gang(site, range(3), 3, grace_s=grace_s):
        await site.bound(name)
    await asyncio.sleep(5)


# Deleted by force.


@pytest.mark.parametrize("seen", [False, True], ids=["no extender", "an extender"])
@pytest.mark.parametrize("successor", [False, True])
async def test_the_node_of_a_member_that_was_deleted_by_force_is_held_until_its_grace_has_passed(
    site: Site, seen: bool, successor: bool
) -> None:
    site.kubelets.stop_s = 400.0
    async with site.dying():
        await run_gang(site)
        if seen:
            site.kube.delete_pod("ring-1", grace_s=0)
            await asyncio.sleep(5)
    if not seen:
        site.kube.delete_pod("ring-1", grace_s=0)
    async with site.running():
        await asyncio.sleep(10)
        if successor:
            gang(site, range(1, 2), 3, grace_s=GRACE_S)
        await asyncio.sleep(150)
        assert site.drained() == ["n2"]
        assert not (successor and site.node_of("ring-1"))
        (job,) = site.live_jobs()
        assert job.nodes == ("n1", "n2", "n3")


async def test_the_node_is_held_where_the_extender_dies_before_slurm_could_drain_it(site: Site) -> None:
    async with site.dying():
        await run_gang(site)
        site.slurm.restd.stop_slurmctld()
        site.kube.delete_pod("ring-1", grace_s=0)
        await asyncio.sleep(3)
    site.slurm.restd.continue_slurmctld()
    async with site.running():
        gang(site, range(1, 2), 3)
        await asyncio.sleep(150)
        assert site.drained() == ["n2"]
        assert not site.node_of("ring-1")


@pytest.mark.parametrize("starts", [1, 2])
async def test_a_successor_gets_the_slot_once_the_kubelet_has_learned_of_the_removal(site: Site, starts: int) -> None:
    async with site.dying():
        await run_gang(site, grace_s=30)
        jobs = [job.job_id for job in site.live_jobs()]
    site.kube.delete_pod("ring-1", grace_s=0)
    gang(site, range(1, 2), 3)
    for _ in range(starts - 1):
        async with site.dying():
            await site.until(lambda: site.drained() == ["n2"], "a drain")
    async with site.running():
        await site.until(lambda: site.drained() == ["n2"], "a drain")
        assert not site.node_of("ring-1")
        assert await site.bound("ring-1", within=HEARD_S) == "n2"
        await site.until(lambda: site.drained() == [], "no drain", within=10)
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_a_slot_without_a_successor_goes_back_to_slurm_once_its_pod_is_known_to_be_gone(site: Site) -> None:
    async with site.dying():
        await run_gang(site, grace_s=30)
    site.kube.delete_pod("ring-1", grace_s=0)
    async with site.running():
        (job,) = site.live_jobs()
        await site.until(lambda: job.nodes == ("n1", "n3"), "the return of its node", within=HEARD_S + 20)
        await asyncio.sleep(5)
        assert site.drained() == []


async def test_the_job_ends_with_the_members_that_are_known_while_the_other_node_stays_held(site: Site) -> None:
    async with site.dying():
        await run_gang(site)
    site.kube.delete_pod("ring-1", grace_s=0)
    async with site.running():
        await site.until(lambda: site.drained() == ["n2"], "a drain")
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of the job", within=30)
        await asyncio.sleep(100)
        assert site.drained() == ["n2"]


async def test_a_worker_of_a_group_that_was_deleted_by_force_holds_its_node(site: Site) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site))
        await asyncio.sleep(20)
        workers = workers_of(site, leader)
        for name in workers:
            await site.bound(name)
        await asyncio.sleep(5)
    site.kube.delete_pod(workers[1], grace_s=0)
    async with site.running():
        await site.until(lambda: site.drained() == ["n3"], "a drain")


@pytest.mark.parametrize("gates", [(), (GATE,)], ids=["no gate", "gate"])
async def test_the_nodes_of_a_gang_all_of_whose_members_were_deleted_by_force_are_held(
    site: Site, gates: tuple[str, ...]
) -> None:
    async with site.dying():
        await run_gang(site)
    for name in RING:
        site.kube.delete_pod(name, grace_s=0)
    gang(site, range(3), 3, gates=gates)
    async with site.running():
        await asyncio.sleep(60)
        assert not any(site.node_of(name) for name in RING)
        assert site.drained() == ["n1", "n2", "n3"]


async def test_a_gang_all_of_whose_members_were_deleted_by_force_is_placed_again_after_their_grace(site: Site) -> None:
    async with site.dying():
        await run_gang(site, grace_s=30)
    for name in RING:
        site.kube.delete_pod(name, grace_s=0)
    gang(site, range(3), 3)
    async with site.running():
        for name in RING:
            await site.bound(name, within=HEARD_S + 60)
        await asyncio.sleep(20)
        assert site.drained() == []
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_each_node_of_a_gang_of_which_no_pod_is_left_is_held_until_its_own_kubelet_has_reported(
    site: Site, restarted: bool
) -> None:
    async with site.dying():
        await run_gang(site, grace_s=30)
    for name in RING:
        site.kube.delete_pod(name, grace_s=0)
    site.kubelets.take_down("n2")
    if restarted:
        async with site.dying():
            await site.until(lambda: not site.live_jobs(), "the end of the job", within=30)
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "the end of the job", within=30)
        await asyncio.sleep(60)
        assert site.drained() == ["n1", "n2", "n3"]
        await site.until(lambda: site.drained() == ["n2"], "reports of two kubelets", within=HEARD_S)
        await asyncio.sleep(100)
        assert site.drained() == ["n2"]
        site.kubelets.bring_back("n2")
        await site.until(lambda: site.drained() == [], "reports of the third", within=HEARD_S)


async def test_all_nodes_are_held_on_which_drains_of_the_process_before_name_one_pod(site: Site) -> None:
    for node in ("n1", "n2"):
        text = "Pod a/b (c0ffee) was removed from n1 without a kubelet report, grace 30 s"
        site.slurm.controller.drain(node, f"slurm-extender: {text}")
    async with site.running():
        await asyncio.sleep(60)
        assert site.drained() == ["n1", "n2"]
        await site.until(lambda: site.drained() == [], "two reports of the kubelet", within=HEARD_S)


# Slots that hold nothing.


async def let_run(site: Site) -> None:
    """Free the nodes of `site.fill` without an extender."""
    site.free_all()
    await site.gone("first-2")
    for job in site.live_jobs():
        if "first" in job.name:
            site.slurm.controller.cancel(job.job_id)
    await site.until(lambda: all(job.running for job in site.live_jobs()), "its nodes")


@pytest.mark.parametrize("gates", [(), (GATE,)], ids=["no gate", "gate"])
async def test_a_gang_that_slurm_gives_its_nodes_while_no_extender_runs_is_bound_at_once(
    site: Site, gates: tuple[str, ...]
) -> None:
    async with site.dying():
        await site.fill()
        gang(site, range(3), 3, gates=gates)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
    await let_run(site)
    async with site.running():
        for name in RING:
            await site.bound(name, within=20)
        assert site.drained() == []


async def test_slots_that_no_worker_had_yet_are_not_held(site: Site) -> None:
    async with site.dying():
        await site.bound(leader := a_leader(site))
        await asyncio.sleep(5)
    async with site.running():
        await asyncio.sleep(10)
        assert site.drained() == []
        workers = workers_of(site, leader)
        assert [await site.bound(name, within=10) for name in workers] == ["n2", "n3"]


async def test_the_node_of_a_member_that_succeeded_while_no_extender_ran_goes_back_to_slurm_at_once(
    site: Site,
) -> None:
    async with site.dying():
        for number, name in enumerate(RING):
            runs = {RUN_FOR: "20"} if number == 1 else {}
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "3"} | runs)
        for name in RING:
            await site.bound(name)
    await site.until(lambda: site.pod("ring-1")["status"]["phase"] == "Succeeded", "its end")
    (job,) = site.live_jobs()
    async with site.running():
        await asyncio.sleep(5)
        assert job.nodes == ("n1", "n3")
        assert site.drained() == []


# Taken back by a restore of etcd.


async def without_a_member(site: Site) -> Snapshot:
    """Run a gang, and kill the extender; return what etcd had while the gang lacked a member."""
    async with site.dying():
        await run_gang(site)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        before = site.kube.storage.save()
        gang(site, range(1, 2), 3, grace_s=GRACE_S)
        await site.bound("ring-1")
        await asyncio.sleep(20)
    return before


async def test_a_member_that_a_restored_etcd_lacks_at_a_start_keeps_its_slot_until_it_is_back(site: Site) -> None:
    before = await without_a_member(site)
    whole, (job,) = site.kube.storage.save(), site.live_jobs()
    await site.restore_kube(before)
    async with site.running():
        await asyncio.sleep(160)
        assert (job.nodes, site.drained()) == (("n1", "n2", "n3"), [])
        assert "missing Pods: Kubernetes lacks the checkpoint" in site.extender.restore_suspected
        await site.restore_kube(whole)
        await asyncio.sleep(100)
        assert "deletionTimestamp" not in site.pod("ring-1")["metadata"]
        assert not site.extender.restore_suspected
        assert site.placeholder("ring-1") is site.placeholder("ring-0")
        assert (job.nodes, site.drained()) == (("n1", "n2", "n3"), [])


async def test_a_job_outlives_the_members_that_are_left_while_a_restored_etcd_may_lack_another(site: Site) -> None:
    await site.restore_kube(await without_a_member(site))
    async with site.running():
        await asyncio.sleep(20)
        for name in ("ring-0", "ring-2"):
            site.kube.delete_pod(name, grace_s=1)
        await asyncio.sleep(100)
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize("how", ["waited", "confirmed"])
async def test_a_member_that_does_not_come_back_counts_as_deleted_in_the_end(site: Site, how: str) -> None:
    before = await without_a_member(site)
    if how == "waited":
        site.config = CONFIG + "orphans: {massGracePeriod: 90}\n"
    await site.restore_kube(before)
    async with site.running():
        gang(site, range(1, 2), 3)
        await asyncio.sleep(60)
        assert (site.drained(), site.node_of("ring-1")) == ([], "")
        if how == "confirmed":
            site.extender.mass_deletion_guard.confirm()
        await site.until(lambda: site.drained() == ["n2"], "a drain", within=50)
        assert not site.node_of("ring-1")


async def test_a_gang_of_which_a_pod_was_replaced_while_its_job_was_searched_for_is_bound_at_once(site: Site) -> None:
    async with site.running():
        site.slurm.restd.faults.add(SlurmFault.LOSE_ANSWER, "POST", times=1)
        lost = site.slurm.restd.faults.add(SlurmFault.LOSE_ANSWER, "GET")
        gang(site, range(3), 3)
        await asyncio.sleep(1)
        await site.until(lambda: site.placeholder("ring-0").state is State.UNSURE, "a request without an answer")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        await asyncio.sleep(5)
        site.slurm.restd.faults.rules.remove(lost)
        for name in RING:
            await site.bound(name, within=60)
        assert site.drained() == []
        assert len(site.jobs()) == 1


async def test_the_job_ends_of_a_gang_whose_last_pod_ends_before_its_job_is_found(site: Site) -> None:
    async with site.dying():
        for number, name in enumerate(RING):
            runs = {RUN_FOR: "20"} if number else {}
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "3"} | runs)
        for name in RING:
            await site.bound(name)
    await site.until(lambda: all(site.pod(name)["status"]["phase"] == "Succeeded" for name in RING[1:]), "their end")
    site.slurm.restd.stop_slurmctld()
    async with site.running():
        await asyncio.sleep(5)
        site.kube.delete_pod("ring-0", grace_s=1)
        await site.gone("ring-0")
        await asyncio.sleep(20)
        site.slurm.restd.continue_slurmctld()
        await site.until(lambda: not site.live_jobs(), "the end of its job", within=60)
        assert site.drained() == []


# Never bound, or ended as their kubelets report.


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
async def test_a_gang_that_waited_and_of_which_a_pod_was_replaced_is_bound_at_once_after_a_start(
    site: Site, seen: bool
) -> None:
    async with site.dying():
        await site.fill()
        gang(site, range(3), 3)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        if seen:
            site.kube.delete_pod("ring-1", grace_s=1)
            await site.gone("ring-1")
            gang(site, range(1, 2), 3)
            await asyncio.sleep(20)
    if not seen:
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
    await let_run(site)
    async with site.running():
        await asyncio.sleep(30)
        assert site.drained() == []
        for name in RING:
            await site.bound(name, within=5)


async def test_a_gang_that_lost_a_pod_before_its_binding_keeps_its_job_for_the_successor_after_a_start(
    site: Site,
) -> None:
    async with site.dying():
        await site.fill()
        gang(site, range(3), 3)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
    await let_run(site)
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    live = site.live_jobs()
    async with site.running():
        await asyncio.sleep(5)
        gang(site, range(1, 2), 3)
        await asyncio.sleep(20)
        assert site.drained() == []
        assert site.live_jobs() == live


async def test_workers_that_came_while_the_job_of_their_leader_waited_are_bound_at_once_after_a_start(
    site: Site,
) -> None:
    async with site.dying():
        await site.fill()
        leader = a_leader(site)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        workers = workers_of(site, leader)
        await asyncio.sleep(5)
    await let_run(site)
    async with site.running():
        await asyncio.sleep(30)
        assert site.drained() == []
        for name in (leader, *workers):
            await site.bound(name, within=5)


async def test_the_slot_of_a_successor_is_not_given_to_a_pod_that_a_restored_etcd_shows_as_waiting(site: Site) -> None:
    async with site.dying():
        await site.fill()
        gang(site, range(3), 3, grace_s=GRACE_S)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
        await asyncio.sleep(5)
        before = site.kube.storage.save()
        await let_run(site)
        for name in RING:
            await site.bound(name)
        await asyncio.sleep(5)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3, grace_s=GRACE_S)
        await site.bound("ring-1")
        await asyncio.sleep(10)
    await site.restore_kube(before)
    async with site.running():
        await asyncio.sleep(60)
        assert not site.node_of("ring-1")


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_the_node_of_a_member_that_is_shown_as_ended_is_not_held_after_a_start(site: Site, phase: str) -> None:
    async with site.dying():
        await run_gang(site)
        site.edit_pod("ring-1", lambda pod: pod["status"].update(phase=phase, containerStatuses=[]))
        await asyncio.sleep(10)
    async with site.running():
        await asyncio.sleep(20)
        assert site.drained() == []
