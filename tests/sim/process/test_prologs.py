"""With the fence script as PrologSlurmctld no next job begins while a Pod is there whose job is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from extender.domain.placeholder import State
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimJob, SimNode
from tests.builders.process_site import Site, a_site

pytestmark = pytest.mark.looptime
KEY = "the-sites-own-key"
MEMORY = {"set": True, "number": 1000}


async def _fenced(tmp_path: Path, *nodes: SimNode) -> AsyncIterator[Site]:
    key = tmp_path / "site-key"
    key.write_text(KEY)
    async with a_site(fence_key=KEY, nodes=nodes or None) as one:
        one.config = one.config.replace("key: secret", f"key: secret, siteKeyFile: {key}")
        yield one


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async for one in _fenced(tmp_path):
        yield one


@pytest.fixture
async def external(tmp_path: Path) -> AsyncIterator[Site]:
    async for one in _fenced(tmp_path, SimNode("n1", cpus=8, memory_mb=64_000, external=True)):
        yield one


async def next_job(site: Site, node: str, cpus: int = 8, **more: object) -> SimJob:
    """A job of somebody else for this very node."""
    wishes = {"cpus_per_task": cpus, "required_nodes": [node], "memory_per_node": MEMORY, **more}
    number = await site.submit_as_another_user(wishes=wishes)
    return site.slurm.controller.jobs[number]


def give_away(site: Site, node: str) -> None:
    """A person sets a node DOWN and brings it back, and no drain is as quick as slurmctld."""
    site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/node/", seconds=2.0)
    site.slurm.controller.set_down(node)
    site.slurm.controller.resume(node)


def begun(job: SimJob) -> bool:
    """Whether its first line may have run."""
    return job.running and "CONFIGURING" not in job.flags


async def begins_after(site: Site, job: SimJob, pod: str) -> None:
    while site.kube.pod(pod) is not None:
        assert not begun(job), f"it began while Pod {pod} is there"
        await asyncio.sleep(0.05)
    await site.until(lambda: begun(job), "the next job begins", within=15)


async def no_notes(site: Site) -> None:
    await site.until(lambda: not site.fence.notes, "no notes", within=30)


async def test_a_node_that_an_administrator_sets_down_and_resumes_runs_its_next_job_when_the_pod_is_gone(
    site: Site,
) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=30)
        node = await site.bound("web")
        site.kubelets.stop_s = 30.0
        job = await next_job(site, node)
        give_away(site, node)
        await site.until(lambda: job.running, "Slurm gives the node away", within=2)
        await begins_after(site, job, "web")
        site.slurm.controller.cancel(job.job_id)
        await no_notes(site)
        site.slurm.restd.faults.clear()
        await site.until(lambda: not site.drained(), "no drain", within=10)


def suspend(site: Site, job: SimJob) -> None:
    site.slurm.controller.suspend(job.job_id)


def forget(site: Site, job: SimJob) -> None:
    site.slurm.controller.forget(job.job_id)


@pytest.mark.parametrize("ends", [suspend, forget])
async def test_a_node_that_slurm_frees_without_cleaning_it_up_runs_its_next_job_when_the_pod_is_gone(
    site: Site, ends: Callable[[Site, SimJob], None]
) -> None:
    """Of such an end nobody is told but by reading; of a forgotten job it takes 10 s to be believed."""
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=25)
        node = await site.bound("web")
        site.kubelets.stop_s = 25.0
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/node/", seconds=2.0)
        ends(site, site.jobs_of("web")[0])
        job = await next_job(site, node)
        await site.until(lambda: job.running, "Slurm gives the node away", within=2)
        await begins_after(site, job, "web")
        site.slurm.restd.faults.clear()
        await site.until(lambda: not site.drained(), "no drain", within=10)


async def test_a_job_that_waited_has_its_whole_time_limit(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=90)
        node = await site.bound("web")
        site.kubelets.stop_s = 90.0
        job = await next_job(site, node, time_limit={"set": True, "number": 10})
        give_away(site, node)
        await begins_after(site, job, "web")
        assert job.end_time - site.slurm.controller.timers.wall() >= 600 - 5


async def test_the_next_external_job_is_configuring_until_the_pod_is_gone(external: Site) -> None:
    site = external
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=30)
        node = await site.bound("web")
        site.kubelets.stop_s = 30.0
        job = await next_job(site, node, flags=["EXTERNAL_JOB"])
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/node/", seconds=2.0)
        site.slurm.controller.cancel(site.jobs_of("web")[0].job_id)
        await site.until(lambda: job.running, "Slurm gives the node away", within=2)
        await begins_after(site, job, "web")
        site.slurm.controller.cancel(job.job_id)
        await no_notes(site)


async def test_a_job_on_a_node_without_placeholders_calls_no_hook(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        node = await site.bound("web")
        other = next(name for name in site.slurm.controller.nodes if name != node)
        job = await next_job(site, other)
        await site.until(lambda: begun(job), "it begins", within=2)
        shown = (await site.get(8082, "/metrics")).text
        assert 'hook="clear"' not in shown


async def test_a_job_beside_a_placeholder_that_runs_begins_at_once(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="4")
        node = await site.bound("web")
        job = await next_job(site, node, cpus=2)
        await site.until(lambda: begun(job), "it begins", within=2)
        assert site.fence.notes == {(node, site.jobs_of("web")[0].job_id)}, "the note is needed yet"


async def test_while_the_extender_is_away_jobs_begin_beside_a_placeholder_that_runs(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="4")
        node = await site.bound("web")
    job = await next_job(site, node, cpus=2)
    await site.until(lambda: begun(job), "it begins", within=3)


async def test_while_the_extender_is_away_jobs_wait_for_a_placeholder_that_has_ended(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="8", grace_s=20)
        node = await site.bound("web")
        site.kubelets.stop_s = 20.0
        (placeholder,) = site.jobs_of("web")
    job = await next_job(site, node, time_limit={"set": True, "number": 5})
    site.slurm.controller.set_down(node)
    site.slurm.controller.resume(node)
    assert not placeholder.running
    for _ in range(900):
        await asyncio.sleep(1)
        assert not begun(job)
    assert job.running, "it died of waiting"
    async with site.running():
        await begins_after(site, job, "web")


async def test_a_job_waits_while_slurm_does_not_say_how_a_placeholder_on_its_node_is(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", cpu="4")
        node = await site.bound("web")
        (placeholder,) = site.jobs_of("web")
        site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "GET", "/job/")
        answer = await site.post(f"/hooks/nodes/{node}/clear?wait=3&jobs={placeholder.job_id}", KEY)
        assert answer.status_code == 503
        site.slurm.restd.faults.clear()
        answer = await site.post(f"/hooks/nodes/{node}/clear?wait=3&jobs={placeholder.job_id}", KEY)
        assert (answer.status_code, answer.content) == (204, b"")


async def test_a_clearance_is_given_to_the_site_alone(site: Site) -> None:
    async with site.running():
        assert (await site.post("/hooks/nodes/n1/clear", "")).status_code == 401
        assert (await site.post("/hooks/nodes/n1/clear", "a-jobs-token")).status_code == 403
        assert (await site.post("/hooks/nodes/n1/clear", KEY)).status_code == 200


async def test_a_slurm_conf_that_ends_the_wait_too_early_is_named(site: Site) -> None:
    async with site.running():
        assert "PrologEpilogTimeout" not in (await site.get(8081, "/readyz?verbose")).text
        await site.post("/hooks/nodes/n1/clear?limit=15", "a-jobs-token")
        assert "PrologEpilogTimeout" not in (await site.get(8081, "/readyz?verbose")).text
        await site.post("/hooks/nodes/n1/clear?limit=15", KEY)
        assert "PrologEpilogTimeout is 15 s" in (await site.get(8081, "/readyz?verbose")).text
        await site.post("/hooks/nodes/n1/clear?limit=65534", KEY)
        assert "PrologEpilogTimeout" not in (await site.get(8081, "/readyz?verbose")).text


async def test_a_note_of_a_job_whose_submission_is_not_answered_yet_stays(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        site.slurm.restd.faults.add(SlurmFault.LOSE_ANSWER, "POST", "/job/")
        site.kube.add_pod("late")
        await site.until(lambda: bool(site.jobs_of("late")), "a job")
        (job,) = site.jobs_of("late")
        assert site.placeholder("late").job_id is None
        assert (await site.post(f"/hooks/nodes/n1/clear?jobs={job.job_id}", KEY)).status_code == 204


@pytest.mark.slow
async def test_the_next_pod_is_bound_when_the_one_before_is_gone_and_its_job_is_not_taken_for_hung(site: Site) -> None:
    async with site.running():
        for name in ("first-0", "first-1", "first-2"):
            site.kube.add_pod(name, cpu="8", grace_s=170)
            await site.bound(name)
        site.kubelets.stop_s = 170.0  # longer than a granted node may go without an offer
        site.kube.add_pod("next", cpu="8")
        await site.until(lambda: bool(site.jobs_of("next")), "a job")
        (job,) = site.jobs_of("next")
        node = site.node_of("first-1")
        give_away(site, node)
        await site.until(lambda: job.running, "Slurm gives the node away", within=2)
        assert site.placeholder("next").state is State.WAITING
        while site.kube.pod("first-1") is not None:
            assert site.node_of("next") == ""
            assert site.jobs_of("next") == [job]
            await asyncio.sleep(0.5)
        assert await site.bound("next", within=30) == node
