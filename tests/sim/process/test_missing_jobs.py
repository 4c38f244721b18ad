"""A missing job ends its Pod. Many missing jobs at once end no Pod before an administrator confirms."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from extender.http.fresh_text import FRESH_S
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
MANY = 8


async def run_many(site: Site, count: int = MANY) -> list[str]:
    names = [f"web-{number}" for number in range(count)]
    for name in names:
        site.kube.add_pod(name, grace_s=2)
    for name in names:
        await site.bound(name)
    return names


def alive(site: Site, names: list[str]) -> list[str]:
    """Pods that nobody has asked to end."""
    pods = {name: site.kube.pod(name) for name in names}
    return [name for name, pod in pods.items() if pod and "deletionTimestamp" not in pod["metadata"]]


async def test_a_job_that_vanished_ends_its_pod(site: Site) -> None:
    async with site.running():
        (name,) = await run_many(site, 1)
        site.slurm.controller.forget(site.jobs_of(name)[0].job_id)
        await site.gone(name, within=30)
        assert any("has no job" in note for note in site.notes(name))


@pytest.mark.usefixtures("unhurried")
async def test_jobs_that_ended_and_were_purged_while_unwatched_are_missing_jobs(site: Site) -> None:
    """slurmctld keeps the record of an ended job for MinJobAge."""
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8", annotations={"slurm-extender.io/mode": "batch"})
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
    ran, waited = site.jobs_of("first-0") + site.jobs_of("waits")
    for job in (ran, waited):
        site.slurm.controller.end(job.job_id, "NODE_FAIL")
    await asyncio.sleep(300)
    following = site.slurm.controller.next_id
    site.slurm.controller.forget(ran.job_id, waited.job_id)
    site.slurm.controller.next_id = following
    async with site.running():
        await site.until(lambda: not alive(site, ["first-0"]), "its end", within=60)
        (said,) = [one for one in site.pod("first-0")["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert said["reason"] == "SlurmJobVanished"
        assert await site.bound("waits") == ran.nodes[0]
        assert len(site.jobs_of("waits")) == 1
        assert alive(site, ["first-1", "first-2"]) == ["first-1", "first-2"]
        await site.until(lambda: not site.drained(), "no drain")


async def test_the_node_of_a_job_that_slurm_does_not_know_any_more_is_held_before_that_is_confirmed(site: Site) -> None:
    async with site.running():
        (name,) = await run_many(site, 1)
        await asyncio.sleep(5)
        site.slurm.controller.forget(site.jobs_of(name)[0].job_id)
        await asyncio.sleep(3)
        assert site.drained() == [site.node_of(name)]
        assert alive(site, [name])
        await site.gone(name, within=30)
        await site.until(lambda: not site.drained(), "no drain")


async def test_the_node_of_a_job_whose_id_another_job_bears_is_held_at_the_first_reading(site: Site) -> None:
    async with site.running():
        site.kube.add_pod(name := "web", grace_s=30)
        await site.bound(name)
        await asyncio.sleep(5)
        (job,) = site.jobs_of(name)
        site.slurm.controller.forget(job.job_id)
        assert await site.submit_as_another_user() == job.job_id
        await asyncio.sleep(4)
        assert site.drained() == [site.node_of(name)]
        assert alive(site, [name])
        site.kubelets.stop_s = 20.0
        with capture_logs() as logs:
            await site.gone(name, within=60)
        assert [line["event"] for line in logs].count("job_owned_by_another") == 1
        await site.until(lambda: not site.drained(), "no drain")


async def test_a_job_that_is_missing_once_is_held_and_let_go(site: Site) -> None:
    async with site.running():
        (name,) = await run_many(site, 1)
        await asyncio.sleep(5)
        jobs = dict(site.slurm.controller.jobs)
        site.slurm.controller.jobs.clear()
        await asyncio.sleep(3)
        assert site.drained() == [site.node_of(name)]
        site.slurm.controller.jobs.update(jobs)
        await site.until(lambda: not site.drained(), "no drain", within=10)
        assert alive(site, [name])


async def test_a_pod_whose_jobs_id_was_given_out_again_is_ended(site: Site) -> None:
    async with site.running():
        (name,) = await run_many(site, 1)
        (job,) = site.jobs_of(name)
        site.slurm.controller.forget(job.job_id)
        site.kube.add_pod("next", grace_s=2)
        await site.bound("next")
        assert [one.job_id for one in site.jobs_of("next")] == [job.job_id]
        await site.gone(name, within=60)
        assert alive(site, ["next"])


@pytest.mark.usefixtures("unhurried")
async def test_when_slurm_forgets_everything_all_pods_run_on_until_an_administrator_confirms(site: Site) -> None:
    async with site.running() as extender:
        names = await run_many(site)
        site.slurm.controller.forget(*[job.job_id for job in site.live_jobs()])
        await asyncio.sleep(100)
        left = alive(site, names)
        assert left == names
        assert await site.metric("mass_deletion_guard_active") == 1
        assert all("EvictionPaused" in site.events(name) for name in left)
        assert site.drained() == sorted({site.node_of(name) for name in left})
        extender.mass_deletion_guard.confirm()
        await site.until(lambda: not alive(site, names), "their end", within=60)
        await asyncio.sleep(FRESH_S)
        assert await site.metric("mass_deletion_guard_active") == 0
        await site.until(lambda: not site.drained(), "no drain")


@pytest.mark.usefixtures("unhurried")
@pytest.mark.slow
async def test_the_mass_deletion_guard_holds_across_a_restart(site: Site) -> None:
    async with site.running():
        names = await run_many(site)
    site.slurm.controller.forget(*[job.job_id for job in site.live_jobs()])
    for _ in range(2):
        async with site.running():
            await asyncio.sleep(25)
    async with site.running() as extender:
        await asyncio.sleep(60)
        assert alive(site, names) == names
        assert site.drained() == sorted({site.node_of(name) for name in names})
        assert await site.metric("mass_deletion_guard_active") == 1
        extender.mass_deletion_guard.confirm()
        await site.until(lambda: not alive(site, names), "their end", within=150)


@pytest.mark.usefixtures("unhurried")
async def test_when_the_jobs_come_back_the_mass_deletion_guard_is_released_by_itself(site: Site) -> None:
    async with site.running():
        names = await run_many(site)
        jobs = dict(site.slurm.controller.jobs)
        site.slurm.controller.jobs.clear()
        await asyncio.sleep(60)
        left = alive(site, names)
        site.slurm.controller.jobs.update(jobs)
        await asyncio.sleep(60)
        assert await site.metric("mass_deletion_guard_active") == 0
        assert alive(site, names) == left
        assert not site.drained()
        assert all(site.placeholder(name).state == "BOUND" for name in left)


@pytest.mark.usefixtures("unhurried")
async def test_pods_that_an_administrator_deletes_while_the_mass_deletion_guard_holds_have_ended(site: Site) -> None:
    async with site.running():
        names = await run_many(site)
        site.slurm.controller.forget(*[job.job_id for job in site.live_jobs()])
        await asyncio.sleep(30)
        for name in alive(site, names):
            site.kube.delete_pod(name)
        await site.until(lambda: not alive(site, names), "their end", within=30)
        await asyncio.sleep(70)
        assert await site.metric("mass_deletion_guard_active") == 0
        assert not site.extender.engine.placeholders.all
        assert not site.drained()


async def test_a_waiting_job_that_vanished_is_made_again(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
        (job,) = site.jobs_of("waits")
        site.slurm.controller.forget(job.job_id)
        await site.until(lambda: not site.jobs_of("waits") or site.jobs_of("waits")[0] is not job, "its loss")
        await site.until(lambda: bool(site.jobs_of("waits")), "a new job")
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")
