"""Jobs and Pods that pretend, or seem, to be somebody else's: nothing foreign is ever ended as ours."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from extender.domain.jobs.identity import decode_mark, encode_mark, job_name
from extender.domain.jobs.job import Mark
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimJob
from tests.builders.process_site import CLUSTER, NAMES, Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
USER = "slurm-extender.io/user-id"
SMALL = {"memory_per_node": {"set": True, "number": 64}}
JOB_ID = "status.slurm-extender.io/job-id"
NODE = "status.slurm-extender.io/node"
POD = "status.slurm-extender.io/pod-uid"
PROOF = "status.slurm-extender.io/allocation-proof"


@pytest.fixture
def policy_user(site: Site) -> None:
    """Pods may name the Slurm user of their jobs."""
    site.config += "jobs: {allow: [user-id]}\n"


async def waiting(site: Site, name: str = "waits", user: str = "") -> SimJob:
    """A Pod's job that queues behind three others, for a whole node. `user`: the Slurm user that its Pod names."""
    await site.fill("7")
    site.kube.add_pod(name, annotations={MODE: "batch"} | ({USER: user} if user else {}), cpu="8")
    await site.until(lambda: bool(site.jobs_of(name)), "its job")
    await asyncio.sleep(2)
    (job,) = site.jobs_of(name)
    return job


async def foreign(site: Site, user: int = 2001) -> SimJob:
    """A running job of somebody else."""
    job = site.slurm.controller.jobs[await site.submit_as_another_user(0, SMALL)]
    job.user_id = user
    await site.until(lambda: job.running, "it runs")
    return job


@pytest.mark.parametrize("user", ["root", "slurm"])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_waiting_job_of_which_both_marks_were_emptied_is_known_by_its_name_and_user(
    site: Site, restart: bool, user: str
) -> None:
    site.config = site.config.replace("user: root", f"user: {user}")  # whose number only root's tells
    async with site.dying() as die:
        job = await waiting(site)
        job.extra = job.admin_comment = ""
        if restart:
            die()
        else:
            await asyncio.sleep(20)
    async with site.running():
        await asyncio.sleep(65)
        assert site.jobs_of("waits") == [job]
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")
        site.kube.delete_pod("waits", grace_s=1)
        await site.until(lambda: job.ended, "its end")


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_foreign_job_with_the_extenders_name_and_a_copied_mark_is_not_adopted(
    site: Site, restart: bool, marked: bool
) -> None:
    with capture_logs() as logs:
        async with site.dying() as die:
            job = await waiting(site)
            twin = site.slurm.controller.jobs[await site.submit_as_another_user()]
            twin.user_id, twin.name = 2001, job.name
            twin.extra = job.extra if marked else ""
            if restart:
                die()
            await asyncio.sleep(10)
        async with site.running():
            await asyncio.sleep(65)
            assert not job.ended
            assert not twin.ended
            assert site.placeholder("waits").job_id == job.job_id
            site.kube.delete_pod("waits", grace_s=1)
            await site.until(lambda: job.ended, "its end")
            await asyncio.sleep(10)
            assert not twin.ended
    told = {line["job_id"] for line in logs if line["event"] == "mark_not_proven"}
    assert told == ({twin.job_id} if marked else set())


@pytest.mark.usefixtures("unhurried", "policy_user")
@pytest.mark.parametrize("copied", [False, True], ids=["name", "name and extra"])
@pytest.mark.parametrize("running", [False, True], ids=["waits", "runs"])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_twin_of_the_very_user_of_a_placeholder_job_is_neither_taken_nor_ended(
    site: Site, restart: bool, running: bool, copied: bool
) -> None:
    async with site.dying() as die:
        early = await foreign(site) if running else None
        job = await waiting(site, user="2001")
        assert job.user_id == 2001
        mark = decode_mark(job.extra)
        assert mark is not None
        twin = early or site.slurm.controller.jobs[await site.submit_as_another_user(0, {"cpus_per_task": 8})]
        twin.user_id, twin.name = job.user_id, job.name
        twin.extra = encode_mark(replace(mark, attempt=9)) if copied else ""
        if restart:
            die()
        await asyncio.sleep(10)
    async with site.running():
        await asyncio.sleep(130)
        assert not job.ended
        assert not twin.ended
        assert site.placeholder("waits").job_id == job.job_id
        site.kube.delete_pod("waits", grace_s=1)
        await site.until(lambda: job.ended, "its end")
        await asyncio.sleep(10)
        assert not twin.ended


@pytest.mark.usefixtures("unhurried", "policy_user")
async def test_a_twin_of_the_very_user_is_not_taken_while_the_submission_may_be_under_way(site: Site) -> None:
    """The answer is lost, and slurmctld creates the job only after the first search for it has found the twin."""
    async with site.running():
        twin = await foreign(site)
        site.slurm.restd.faults.add(SlurmFault.LATE, "POST", "/job/submit", times=1, seconds=45)
        site.kube.add_pod("web", annotations={MODE: "batch", USER: "2001"})
        twin.name = job_name("default/web", CLUSTER, "slurm", site.uid("web"))
        await site.bound("web", within=180)
        (job,) = [one for one in site.jobs_of("web") if one is not twin]
        assert site.placeholder("web").job_id == job.job_id
        await asyncio.sleep(70)
        assert not job.ended
        assert not twin.ended


@pytest.mark.usefixtures("unhurried", "policy_user")
async def test_a_job_of_a_policy_user_of_which_an_administrator_removed_the_marks_is_recovered(site: Site) -> None:
    async with site.dying() as die:
        job = await waiting(site, user="2001")
        job.extra = job.admin_comment = ""
        die()
    async with site.running():
        await asyncio.sleep(130)
        assert site.jobs_of("waits") == [job]
        assert site.placeholder("waits").job_id == job.job_id
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")


@pytest.mark.parametrize("workload", ["exists", "left"])
async def test_a_job_that_bears_a_copied_mark_is_reported_and_never_ended(site: Site, workload: str) -> None:
    async with site.dying():
        site.kube.add_pod("web", cpu="2")
        await site.bound("web")
    (job,) = site.jobs_of("web")
    forged = await foreign(site)
    forged.extra = job.extra if workload == "exists" else encode_mark(Mark(CLUSTER, "slurm", "nobody", 1))
    with capture_logs() as logs:
        async with site.running():
            await asyncio.sleep(20)
            assert not forged.ended
            assert site.node_of("web")
    (line,) = [one for one in logs if one["event"] == "mark_not_proven"]
    assert line["job_id"] == forged.job_id
    assert "admin_comment" in line["why"]


async def test_an_id_that_was_given_out_again_is_not_cancelled(site: Site) -> None:
    """slurmctld loses its state while a job is being ended, and its id is a stranger's when the cancel is repeated."""
    async with site.running():
        site.kube.add_pod("web", annotations={MODE: "batch"})
        await site.bound("web")
        (job,) = site.jobs_of("web")
        with capture_logs() as logs:
            site.slurm.restd.slurmctld_up = False
            site.kube.delete_pod("web", grace_s=1)
            await asyncio.sleep(5)
            site.slurm.controller.forget(job.job_id)
            site.slurm.restd.slurmctld_up = True
            stranger = await site.submit_as_another_user()
            assert stranger == job.job_id
            await asyncio.sleep(20)
        assert not site.slurm.controller.jobs[stranger].ended
        assert {line["job_id"] for line in logs if line["event"] == "cancel_skipped_job_not_owned"} == {stranger}
        assert not site.extender.engine.placeholders.jobs


@pytest.mark.parametrize("restart", [False, True])
async def test_a_copy_of_a_bound_pod_has_no_job_and_gets_an_event(site: Site, restart: bool) -> None:
    async with site.dying() as die:
        site.kube.add_pod("web", cpu="2")
        node = await site.bound("web")
        (job,) = site.jobs_of("web")
        if restart:
            die()
        site.kube.add_pod("copy", cpu="2", annotations=dict(site.pod("web")["metadata"]["annotations"]), node=node)
        await asyncio.sleep(10)
    async with site.running():
        await asyncio.sleep(20)
        assert site.live_jobs() == [job]
        assert "deletionTimestamp" not in site.pod("copy")["metadata"]
        assert {"StatusAnnotationsIgnored", "BoundWithoutSlurm"} <= set(site.events("copy"))
        assert any(site.uid("web") in text and str(job.job_id) in text for text in site.notes("copy"))
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await site.gone("web")
        await asyncio.sleep(10)
        assert "deletionTimestamp" not in site.pod("copy")["metadata"]
        assert not site.drained()


@pytest.mark.parametrize("key", [POD, PROOF, NODE])
async def test_a_pod_whose_record_was_taken_away_in_part_keeps_its_job(site: Site, key: str) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop(key))
    async with site.running():
        await asyncio.sleep(20)
        (job,) = site.live_jobs()
        assert site.placeholder("web").job_id == job.job_id
        assert "BoundWithoutSlurm" not in site.events("web")
        assert site.pod("web")["metadata"]["annotations"][PROOF]


async def test_a_pod_that_names_anothers_job_with_its_own_uid_takes_nothing_from_it(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", cpu="2")
        node = await site.bound("web")
        (job,) = site.jobs_of("web")
        site.kube.add_pod("thief", cpu="2", node=next(name for name in NAMES if name != node))
        said = {JOB_ID: str(job.job_id), NODE: site.node_of("thief"), POD: site.uid("thief")}
        site.edit_pod("thief", lambda pod: pod["metadata"].setdefault("annotations", {}).update(said))
    async with site.running():
        await site.until(lambda: "BoundWithoutSlurm" in site.events("thief"), "the word about it", within=120)
        await asyncio.sleep(10)
        assert site.live_jobs() == [job]
        assert "deletionTimestamp" not in site.pod("thief")["metadata"]
        assert site.placeholder("web").state == "BOUND"
        assert not site.drained()


@pytest.mark.parametrize("kind", ["afterok", "afterany", "afternotok", "singleton"])
async def test_a_dependency_on_the_job_of_another_user_changes_nothing_of_that_job(site: Site, kind: str) -> None:
    async with site.running():
        other = await foreign(site)
        before = replace(other)
        dependency = kind if kind == "singleton" else f"{kind}:{other.job_id}"
        site.kube.add_pod("web", annotations={"slurm-extender.io/dependency": dependency})
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        (job,) = site.jobs_of("web")
        assert job.dependency == dependency
        site.kube.delete_pod("web", grace_s=1)
        await site.gone("web")
        await asyncio.sleep(60)
        assert other.running
        assert replace(other) == before
