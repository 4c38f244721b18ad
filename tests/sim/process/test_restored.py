"""States that were lost, went back or stood still, of slurmctld and the API server: nothing ends for want of words."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.faults import KubeFault
from simulator.kube.objects import owner_reference
from simulator.kube.resources import EVENTS
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import CONFIG, Site
from tests.builders.triggers import BATCH

pytestmark = pytest.mark.looptime
PACE = CONFIG.replace("{refreshRate: 2}", "{refreshRate: 1}\npolling: {minInterval: 1, maxInterval: 2}")
SOON = PACE + "orphans: {massGracePeriod: 90}\n"
"""Minutes pass."""

MANY = [f"web-{number}" for number in range(8)]


async def run(site: Site, *names: str) -> None:
    for name in names:
        site.kube.add_pod(name, annotations=BATCH, grace_s=2)
    for name in names:
        await site.bound(name)


def jobs(site: Site, *names: str) -> dict[str, list[int]]:
    return {name: [job.job_id for job in site.jobs_of(name)] for name in names}


async def missing(site: Site) -> int:
    """Pods that are held to be missing."""
    lines = (await site.get(8082, "/metrics")).text.splitlines()
    return next(int(float(line.split()[-1])) for line in lines if line.startswith("slurm_extender_missing_pods "))


# etcd.


async def deleted_unseen(site: Site, *names: str) -> None:
    """Delete Pods while the API server answers no client, and forget that it happened."""
    site.network.refuse("kube", 6443)
    site.network.cut("kube", 6443)
    for name in names:
        site.kube.delete_pod(name, grace_s=1)
    for name in names:
        await site.gone(name)
    site.kube.storage.forget_history()
    site.network.refuse("kube", 6443, refused=False)


async def restore_line(site: Site) -> str:
    lines = (await site.get(8081, "/readyz?verbose")).text.splitlines()
    return next(line for line in lines if "restore" in line)


@pytest.mark.parametrize("names", [MANY, MANY[:1]], ids=["many", "one"])
async def test_jobs_of_pods_that_were_deleted_while_no_watch_was_open_end_at_once(site: Site, names: list[str]) -> None:
    site.config = PACE
    async with site.running():
        await run(site, "stays", *names)
        await deleted_unseen(site, *names)
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=15)
        assert len(site.jobs_of("stays")) == 1
        assert "[+]" in await restore_line(site)


async def test_while_slurm_is_away_an_absence_waits_for_its_evidence(site: Site) -> None:
    site.config = PACE
    async with site.running():
        await run(site, *MANY)
        site.slurm.restd.stop_slurmctld()
        await deleted_unseen(site, *MANY)
        await asyncio.sleep(60)
        assert await missing(site) == len(MANY)
        site.slurm.restd.continue_slurmctld()
        await site.until(lambda: not site.live_jobs(), "their end", within=60)


async def test_the_checkpoints_cannot_be_read_and_the_absence_waits(site: Site) -> None:
    site.config = PACE
    async with site.running():
        await run(site, *MANY)
        site.kube.faults.add(KubeFault("", "checkpoints", code=503, times=None))
        await deleted_unseen(site, *MANY)
        await asyncio.sleep(60)
        assert len(site.live_jobs()) == len(MANY)
        assert "cannot be read" in await restore_line(site)
        site.kube.faults.clear()
        await site.until(lambda: not site.live_jobs(), "their end", within=15)


async def test_a_list_from_before_a_pod_ends_nothing_while_the_pod_can_be_read(site: Site) -> None:
    site.config = PACE
    async with site.running() as extender:
        await run(site, *MANY)
        pods = [extender.informers.pods.get(site.uid(name)) for name in MANY]
        extender.pod_controller.absent([pod for pod in pods if pod is not None])
        await asyncio.sleep(30)
        assert len(site.live_jobs()) == len(MANY)
        assert await missing(site) == len(MANY)


@pytest.mark.parametrize("restored", ["running", "at the start"])
async def test_a_suspected_restore_is_reported_on_the_nodes_and_in_the_readiness(site: Site, restored: str) -> None:
    site.config = SOON
    async with site.dying() as die:
        before = site.kube.storage.save()
        await run(site, *MANY)
        nodes = {site.node_of(name) for name in MANY}
        if restored == "running":
            await site.restore_kube(before)
            await reported(site, nodes)
            return
        die()
    await site.restore_kube(before)
    async with site.running():
        await reported(site, nodes)


async def reported(site: Site, nodes: set[str]) -> None:
    await asyncio.sleep(30)
    assert "etcd was restored" in await restore_line(site)
    found = [event for event in site.kube.storage.of(EVENTS) if event["reason"] == "RestoreSuspected"]
    assert {event["regarding"]["name"] for event in found} == nodes
    assert all("runbook SlurmExtenderPodsMissing" in event["note"] for event in found)
    assert len(found) == len(nodes)


async def test_a_few_pods_that_a_restored_etcd_does_not_have_keep_their_jobs_for_long_too(site: Site) -> None:
    site.config = SOON
    async with site.running():
        await run(site, "stays")
        before = site.kube.storage.save()
        await run(site, "web-0", "web-1")
        await site.restore_kube(before)
        await asyncio.sleep(80)
        assert len(site.live_jobs()) == 3
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=60)
        assert len(site.jobs_of("stays")) == 1


async def test_many_pods_that_a_restored_etcd_does_not_have_end_nothing_for_long(site: Site) -> None:
    site.config = SOON
    async with site.running():
        await run(site, "stays")
        before = site.kube.storage.save()
        await run(site, *MANY)
        there = jobs(site, *MANY)
        await site.restore_kube(before)
        await asyncio.sleep(80)
        assert jobs(site, *MANY) == there
        assert await missing(site) == len(MANY)
        await site.until(lambda: len(site.live_jobs()) == 1, "their end", within=60)
        assert await missing(site) == 0


async def test_many_pods_that_are_missing_before_they_were_adopted_end_nothing_for_long(site: Site) -> None:
    site.config = SOON
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    async with site.running():
        owned = owner_reference(site.kube.create(owner))
        before = site.kube.storage.save()
        for name in MANY:
            site.kube.add_pod(name, annotations=BATCH, owner=owned, grace_s=2)
        for name in MANY:
            await site.bound(name)
        there = jobs(site, *MANY)
    site.kube.faults.add(KubeFault("GET", "/replicasets", code=503, times=None))
    async with site.running(ready=False):
        await asyncio.sleep(2)
        await site.restore_kube(before)
        await asyncio.sleep(20)
        site.kube.faults.clear()
        await asyncio.sleep(70)
        assert jobs(site, *MANY) == there
        assert await missing(site) == len(MANY)
        await site.until(lambda: not site.live_jobs(), "their end", within=60)


async def test_versions_that_etcd_gives_out_a_second_time_hide_nothing_for_long(site: Site) -> None:
    """Restored without `--bump-revision`, and soon beyond the version of our watch."""
    site.config = SOON
    async with site.running():
        await run(site, "stays")
        before = site.kube.storage.save()
        await run(site, "web-0")
        await site.restore_kube(before, bump=False)
        assert site.kube.storage.version > before.version
        await site.until(lambda: len(site.live_jobs()) == 1, "its end", within=120)
        assert len(site.jobs_of("stays")) == 1
        await site.bound("stays")


async def test_an_administrator_confirms_the_end_of_the_jobs_of_missing_pods(site: Site) -> None:
    site.config = PACE
    async with site.running() as extender:
        before = site.kube.storage.save()
        await run(site, *MANY)
        await site.restore_kube(before)
        await asyncio.sleep(100)
        assert len(site.live_jobs()) == len(MANY)
        extender.mass_deletion_guard.confirm()
        await site.until(lambda: not site.live_jobs(), "their end", within=60)


async def test_nothing_ends_the_jobs_of_missing_pods_in_a_dry_run(site: Site) -> None:
    site.config = PACE + "orphans: {massGracePeriod: 90, dryRun: true}\n"
    async with site.running():
        before = site.kube.storage.save()
        await run(site, *MANY)
        await site.restore_kube(before)
        await asyncio.sleep(150)
        assert len(site.live_jobs()) == len(MANY)


async def test_many_pods_that_come_back_have_their_jobs_still(site: Site) -> None:
    site.config = SOON
    async with site.running():
        wrong = site.kube.storage.save()
        await run(site, *MANY)
        there, after = jobs(site, *MANY), site.kube.storage.save()
        await site.restore_kube(wrong)
        await asyncio.sleep(60)
        await site.restore_kube(after)
        await asyncio.sleep(120)
        assert jobs(site, *MANY) == there
        assert await missing(site) == 0
        site.kube.delete_pod("web-0", grace_s=1)
        await site.until(lambda: not site.jobs_of("web-0"), "its end")


async def test_many_waiting_pods_that_come_back_unbound_keep_their_places(site: Site) -> None:
    site.config = PACE
    names = [f"waits-{number}" for number in range(7)]
    async with site.running():
        empty = site.kube.storage.save()
        await site.fill()
        for name in names:
            site.kube.add_pod(name, cpu="8", annotations=BATCH)
        await site.until(lambda: all(site.jobs_of(name) for name in names), "their jobs")
        there, whole = jobs(site, *names), site.kube.storage.save()
        await site.restore_kube(empty)
        await asyncio.sleep(30)
        await site.restore_kube(whole)
        await asyncio.sleep(90)
        assert jobs(site, *names) == there
        for name in ("first-0", "first-1", "first-2"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: sum(bool(site.node_of(name)) for name in names) == 3, "three of them run")


async def test_a_pod_whose_binding_is_undone_is_bound_for_its_job_again(site: Site) -> None:
    site.config = PACE
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await asyncio.sleep(0.01)
        before = site.kube.storage.save()
        node = await site.bound("web")
        there = jobs(site, "web")
        await site.restore_kube(before)
        await site.until(lambda: not site.node_of("web"), "no node")
        assert await site.bound("web", within=400) == node
        await asyncio.sleep(30)
        assert jobs(site, "web") == there
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end")


async def test_a_pod_whose_deletion_is_undone_is_ended_again(site: Site) -> None:
    site.config = PACE
    async with site.running():
        await run(site, "web", "stays")
        before = site.kube.storage.save()
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.jobs_of("web"), "its end")
        await site.restore_kube(before)
        await site.gone("web", within=120)
        assert len(site.live_jobs()) == 1
        await site.until(lambda: not site.drained(), "no drain")


async def test_many_pods_whose_deletion_is_undone_run_until_an_administrator_confirms(site: Site) -> None:
    site.config = PACE
    async with site.running() as extender:
        await run(site, *MANY)
        before = site.kube.storage.save()
        for name in MANY:
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "their end")
        site.slurm.controller.forget(*[job.job_id for job in site.jobs()])  # MinJobAge is over
        await site.restore_kube(before)
        await asyncio.sleep(120)
        assert sorted(site.bound_pods()) == MANY
        assert await site.metric("mass_deletion_guard_active") == 1
        extender.mass_deletion_guard.confirm()
        await site.until(lambda: not site.bound_pods(), "their end", within=120)
        await site.until(lambda: not site.drained(), "no drain")


async def test_a_pod_whose_deletion_is_undone_while_its_job_is_sought_gets_its_turn(site: Site) -> None:
    site.config = PACE
    async with site.running():
        site.slurm.restd.stop_slurmctld()
        site.kube.add_pod("web", annotations=BATCH)
        await asyncio.sleep(10)
        before = site.kube.storage.save()
        site.kube.delete_pod("web")
        await asyncio.sleep(10)
        await site.restore_kube(before)
        await asyncio.sleep(30)
        site.slurm.restd.continue_slurmctld()
        await site.bound("web", within=600)
        assert len(site.jobs_of("web")) == 1


@pytest.mark.parametrize("after_s", [10, 90])
async def test_a_pod_that_had_finished_and_is_shown_running_again_is_ended(site: Site, after_s: float) -> None:
    site.config = PACE
    async with site.running():
        site.kube.add_pod("web", annotations=BATCH)
        await site.bound("web")
        await asyncio.sleep(5)
        before = site.kube.storage.save()
        site.edit_pod("web", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await site.until(lambda: not site.live_jobs(), "its job is over")
        await asyncio.sleep(after_s)
        await site.restore_kube(before)
        assert site.pod("web")["status"]["phase"] == "Running"
        await site.until(lambda: "web" not in site.bound_pods(), "its end", within=300)


# slurmctld.


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("stop_s", [4, 12, 45, 90])
@pytest.mark.parametrize("crash", [False, True])
async def test_a_submission_that_a_stopped_slurmctld_executes_late_makes_one_job(
    site: Site, stop_s: float, crash: bool
) -> None:
    async with site.dying() as die:
        site.slurm.restd.stop_slurmctld()
        site.kube.add_pod("web", annotations=BATCH)
        await asyncio.sleep(stop_s / 2)
        if crash:
            die()
    async with site.running():
        site.kube.add_pod("other", annotations=BATCH)
        await asyncio.sleep(stop_s / 2)
        site.slurm.restd.continue_slurmctld()
        await site.bound("web")
        await site.bound("other")
        await asyncio.sleep(90)
        assert {name: len(found) for name, found in jobs(site, "web", "other").items()} == {"web": 1, "other": 1}
        assert site.jobs_of("web")[0].nodes == (site.node_of("web"),)


async def test_jobs_that_slurmctld_forgot_right_after_it_acknowledged_them_are_recreated(site: Site) -> None:
    site.config = PACE
    async with site.running():
        await site.fill()
        names = [f"web-{number}" for number in range(3)]
        for name in names:
            site.kube.add_pod(name, annotations=BATCH, cpu="8")
        await site.until(lambda: all(site.jobs_of(name) for name in names), "acknowledged")
        site.slurm.controller.forget(*[site.jobs_of(name)[0].job_id for name in names])
        others = [await site.submit_as_another_user(number) for number in range(3)]
        site.free_all()
        await asyncio.sleep(120)
        there = {job.job_id for job in site.live_jobs() if job.name.startswith("somebody")}
        assert there == set(others)
        for other in others:
            site.slurm.controller.cancel(other)
        for name in names:
            await site.bound(name, within=400)
            assert len(site.jobs_of(name)) == 1


async def test_a_cancelled_job_that_an_older_state_brings_back_is_cancelled_again(site: Site) -> None:
    site.config = PACE
    async with site.running():
        await run(site, "web", "stays")
        saved = site.slurm.controller.save()
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.jobs_of("web"), "its end")
        site.slurm.controller.restore(saved)
        assert site.jobs_of("web")
        await site.until(lambda: not site.jobs_of("web"), "its end again", within=60)
        assert len(site.jobs_of("stays")) == 1


@pytest.mark.parametrize("restart", [False, True])
async def test_an_older_state_of_slurm_ends_few_pods_and_leaves_many_to_an_administrator(
    site: Site, restart: bool
) -> None:
    site.config = PACE
    async with site.dying() as die:
        await run(site, "stays")
        saved = site.slurm.controller.save()
        await run(site, *MANY)
        if restart:
            die()
        site.slurm.controller.restore(saved)
        others = [await site.submit_as_another_user(number) for number in range(2)]
        if not restart:
            await nothing_ended(site, others)
            return
    async with site.running():
        await nothing_ended(site, others)


async def nothing_ended(site: Site, others: list[int]) -> None:
    await asyncio.sleep(120)
    assert sorted(site.bound_pods()) == ["stays", *MANY]
    assert {job.job_id for job in site.live_jobs()} >= set(others)
    assert await site.metric("mass_deletion_guard_active") == 1
    site.extender.mass_deletion_guard.confirm()
    await site.until(lambda: site.bound_pods() == ["stays"], "their end", within=200)
    assert {job.job_id for job in site.live_jobs()} == {*others, *[job.job_id for job in site.jobs_of("stays")]}


async def test_reads_go_on_while_only_the_states_are_refused(site: Site) -> None:
    site.config = CONFIG
    async with site.running():
        await run(site, "web")
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "GET", "/jobs/state", number=1800)
        await asyncio.sleep(60)
        site.slurm.controller.end(site.jobs_of("web")[0].job_id, "TIMEOUT")
        await site.gone("web", within=60)


# Clocks.


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_a_wall_clock_that_steps_changes_nothing(site: Site, step_s: float) -> None:
    site.config = PACE
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8", annotations=BATCH)
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        before = {job.job_id for job in site.live_jobs()}
        site.clock_error_s += step_s
        await asyncio.sleep(120)
        assert {job.job_id for job in site.live_jobs()} == before
        assert len(site.bound_pods()) == 3
        site.clock_error_s -= step_s
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")
        site.clock_error_s += step_s
        site.slurm.controller.end(site.jobs_of("first-1")[0].job_id, "TIMEOUT")
        await site.gone("first-1")
        await site.until(lambda: not site.drained(), "no drain")
