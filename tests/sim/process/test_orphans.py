"""Jobs without a Pod, and Pods without a job: found, counted, ended after a while, or only told of."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from extender.domain.wellknown import GATE
from extender.http.fresh_text import FRESH_S
from simulator.kube.faults import KubeFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
DRY = "orphans: {dryRun: true, gracePeriod: 5s}\n"


async def counted(site: Site, what: str, kind: str) -> float:
    lines = (await site.get(8082, "/metrics")).text.splitlines()
    name = f'slurm_extender_orphans_total{{object="{kind}",result="{what}"}} '
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)


def events(logs: list[dict[str, object]], job_ids: list[int]) -> list[object]:
    return [line["event"] for line in logs if line.get("job_id") in job_ids and "orphaned_job" in str(line["event"])]


async def test_a_job_without_a_pod_is_ended_after_the_grace_reported_and_counted(site: Site) -> None:
    jobs = await site.left_alone(marked=False)
    with capture_logs() as logs:
        async with site.running(changed="orphans: {gracePeriod: 12s}\n"):
            await asyncio.sleep(8)
            assert [job.job_id for job in site.live_jobs()] == jobs
            shown = (await site.get(8083, "/debug/orphans")).json()
            assert [one["jobId"] for one in shown["jobs"]] == jobs
            await site.until(lambda: not site.live_jobs(), "its end", within=10)
            assert (await counted(site, "found", "job"), await counted(site, "ended", "job")) == (1, 1)
    assert events(logs, jobs) == ["orphaned_job_found", "orphaned_job_ended"]  # type: ignore[arg-type]


async def test_a_dry_run_ends_no_job_and_says_which_it_would_end(site: Site) -> None:
    jobs = await site.left_alone()
    with capture_logs() as logs:
        async with site.running(changed=DRY) as extender:
            await asyncio.sleep(15)
            extender.mass_deletion_guard.confirm()
            await asyncio.sleep(15)
            assert [job.job_id for job in site.live_jobs()] == jobs
            shown = (await site.get(8083, "/debug/orphans")).json()
            assert shown["dryRun"]
            assert [(one["jobId"], one["said"]) for one in shown["jobs"]] == [(jobs[0], "would_be_ended")]
            assert (await counted(site, "spared", "job"), await counted(site, "ended", "job")) == (1, 0)
    assert events(logs, jobs) == ["orphaned_job_found", "orphaned_job_would_be_ended"]  # type: ignore[arg-type]


async def test_many_jobs_without_pods_wait_until_an_administrator_confirms(site: Site) -> None:
    jobs = await site.left_alone(count=6, marked=False)
    with capture_logs() as logs:
        async with site.running() as extender:
            await asyncio.sleep(20)
            assert len(site.live_jobs()) == 6
            assert await counted(site, "held", "job") == 6
            extender.mass_deletion_guard.confirm()
            await site.until(lambda: not site.live_jobs(), "their end", within=10)
            await asyncio.sleep(FRESH_S)
            assert await counted(site, "ended", "job") == 6
    (said,) = [line for line in logs if line["event"] == "orphaned_jobs_released"]
    assert said["jobs"] == jobs
    assert any("runbook SlurmExtenderPodsMissing" in str(line.get("what")) for line in logs)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("gates", [(), (GATE,)])
@pytest.mark.parametrize("settings", [{}, {"job-name": "training"}])
async def test_a_job_whose_pod_is_missing_in_an_old_list_alone_is_spared(
    site: Site, settings: dict[str, str], gates: tuple[str, ...]
) -> None:
    old = False
    site.kube.caches.stand_still(lambda: old)
    async with site.dying():
        wishes = {"slurm-extender.io/" + key: value for key, value in settings.items()}
        site.kube.add_pod("web", annotations=wishes, gates=gates)
        await site.bound("web")
    jobs, old = [job.job_id for job in site.live_jobs()], True
    with capture_logs() as logs:
        async with site.running():
            await asyncio.sleep(60)
            assert [job.job_id for job in site.live_jobs()] == jobs
            assert (await counted(site, "spared", "job"), await counted(site, "ended", "job")) == (1, 0)
            old = False
            site.kube.caches.heal()
            await asyncio.sleep(30)
            assert site.placeholder("web").state == "BOUND"
            assert (await site.get(8083, "/debug/orphans")).json()["jobs"] == []
    assert [job.job_id for job in site.live_jobs()] == jobs
    assert events(logs, jobs) == ["orphaned_job_found", "orphaned_job_spared"]  # type: ignore[arg-type]


async def test_a_job_that_was_ended_and_lives_again_in_a_restored_state_is_ended_again(site: Site) -> None:
    await site.left_alone()
    saved = site.slurm.controller.save()
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "its end")
        await asyncio.sleep(5)
        site.slurm.controller.restore(saved)
        assert site.live_jobs()
        await site.until(lambda: not site.live_jobs(), "its end once more", within=30)


async def test_a_job_that_comes_back_under_the_id_of_another_is_ended(site: Site) -> None:
    (job,) = await site.left_alone()
    saved = site.slurm.controller.save()
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "its end")
        site.slurm.controller.forget(job)
        assert await site.submit_as_another_user(0) == job
        await asyncio.sleep(20)
        site.slurm.controller.restore(saved)
        assert [one.job_id for one in site.live_jobs()] == [job]
        await site.until(lambda: not site.live_jobs(), "its end once more", within=60)


async def test_an_orphan_of_which_the_api_server_does_not_say_whether_its_pod_is_there_is_not_ended(site: Site) -> None:
    jobs = await site.left_alone()
    silent = site.kube.faults.add(KubeFault("GET", "/namespaces/default/pods/web-0$", code=500, times=None))
    async with site.running():
        await asyncio.sleep(30)
        assert [job.job_id for job in site.live_jobs()] == jobs
        site.kube.faults.remove(silent)
        await site.until(lambda: not site.live_jobs(), "its end")


async def test_a_running_pod_without_a_job_is_counted_and_ended(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", grace_s=2)
        await site.bound("web")
        site.slurm.controller.forget(site.jobs_of("web")[0].job_id)
        await site.gone("web", within=30)
        assert (await counted(site, "found", "pod"), await counted(site, "ended", "pod")) == (1, 1)


@pytest.mark.parametrize("restart", [False, True])
async def test_a_dry_run_ends_no_pod_and_says_which_it_would_end(site: Site, restart: bool) -> None:
    site.config += DRY
    async with site.dying() as die:
        site.kube.add_pod("web", grace_s=2)
        node = await site.bound("web")
        if restart:
            die()
        site.slurm.controller.forget(site.jobs_of("web")[0].job_id)
        if not restart:
            await shows_spared(site, node)
    if restart:
        async with site.running():
            await shows_spared(site, node)


async def shows_spared(site: Site, node: str) -> None:
    await site.until(lambda: "EvictionPaused" in site.events("web"), "an Event", within=60)
    site.extender.mass_deletion_guard.confirm()
    await asyncio.sleep(20)
    assert "deletionTimestamp" not in site.pod("web")["metadata"]
    assert any("orphans.dryRun" in text for text in site.notes("web"))
    shown = (await site.get(8083, "/debug/orphans")).json()
    assert [one["pods"] for one in shown["pods"]] == [["default/web"]]
    assert (await counted(site, "spared", "pod"), await counted(site, "ended", "pod")) == (1, 0)
    assert site.drained() == [node]
