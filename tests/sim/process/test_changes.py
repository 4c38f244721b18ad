"""A Pod that changes its mind while it waits: the job follows, or a clear word says why not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.domain.jobs.identity import decode_mark, encode_mark
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimJob
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
OURS = "slurm-extender.io/"


async def a_waiting_pod(site: Site) -> SimJob:
    await site.fill()
    site.kube.add_pod("second", cpu="8")
    await site.until(lambda: len(site.live_jobs()) == 4, "the second's job")
    (job,) = [job for job in site.live_jobs() if job.state == "PENDING"]
    return job


def annotate(site: Site, **settings: str) -> None:
    given = {f"{OURS}{name.replace('_', '-')}": value for name, value in settings.items()}
    site.edit_pod("second", lambda pod: pod["metadata"].setdefault("annotations", {}).update(given))


async def test_a_waiting_job_follows_its_pod_in_place(site: Site) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        annotate(site, partition="urgent", time_limit="7", qos="high", comment="mine")
        await site.until(lambda: "SlurmJobUpdated" in site.events("second"), "an Event")
        assert (job.partition, job.time_limit_s, job.qos, job.comment) == ("urgent", 420.0, "high", "mine")
        assert len(site.live_jobs()) <= 4
        assert job in site.jobs_of("second")


@pytest.mark.parametrize("fault", [SlurmFault.LOSE_ANSWER, SlurmFault.FAIL_AFTER, SlurmFault.UNAVAILABLE])
async def test_a_change_whose_answer_is_lost_is_made_all_the_same(site: Site, fault: SlurmFault) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        site.slurm.restd.faults.add(fault, "POST", f"/job/{job.job_id}", times=1)
        annotate(site, time_limit="7")
        await site.until(lambda: "SlurmJobUpdated" in site.events("second"), "an Event")
        assert job.time_limit_s == 420.0
        assert [job] == site.jobs_of("second")


async def test_what_slurm_refuses_leaves_the_job_as_it_is_and_is_said(site: Site) -> None:
    async with site.running():
        job = await a_waiting_pod(site)
        annotate(site, constraints="nothing")
        await site.until(lambda: "SlurmJobUpdateRejected" in site.events("second"), "an Event")
        assert any("Invalid feature" in note for note in site.notes("second"))
        assert [job] == site.jobs_of("second")
        annotate(site, constraints="")
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("second")


def say(job: SimJob, **fields: object) -> None:
    """As an administrator's `scontrol update`."""
    for name, value in fields.items():
        setattr(job, name, value)


async def left_waiting(site: Site, **settings: str) -> SimJob:
    """The job of a Pod that waits, and that nobody looks after any more."""
    async with site.dying():
        await site.fill()
        given = {f"{OURS}{name.replace('_', '-')}": value for name, value in settings.items()}
        site.kube.add_pod("second", cpu="8", annotations=given)
        await site.until(lambda: len(site.live_jobs()) == 4, "the second's job")
        (job,) = site.jobs_of("second")
    return job


async def test_a_waiting_job_follows_what_changed_while_unwatched(site: Site) -> None:
    job = await left_waiting(site, time_limit="9", comment="old")
    annotate(site, partition="urgent", time_limit="7", comment="new")
    async with site.running():
        await site.until(lambda: "SlurmJobUpdated" in site.events("second"), "an Event", within=30)
        assert (job.partition, job.time_limit_s, job.comment) == ("urgent", 420.0, "new")
        assert [job] == site.jobs_of("second")


async def test_a_wish_added_while_unwatched_is_sent_to_the_waiting_job(site: Site) -> None:
    job = await left_waiting(site, time_limit="9", qos="low")
    annotate(site, time_limit="7", constraints="", comment="mine")
    async with site.running():
        await site.until(lambda: "SlurmJobUpdated" in site.events("second"), "an Event", within=30)
        assert (job.qos, job.time_limit_s, job.comment) == ("low", 420.0, "mine")
        assert [job] == site.jobs_of("second")


async def test_a_change_that_no_job_can_follow_makes_another_after_a_start(site: Site) -> None:
    job = await left_waiting(site)
    annotate(site, exclusive="true")
    async with site.running():
        await site.until(lambda: job not in site.live_jobs() and bool(site.jobs_of("second")), "another job")


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("before", ["start", "change"])
async def test_what_an_administrator_changed_is_not_undone_by_a_start(site: Site, before: str) -> None:
    job = await left_waiting(site, time_limit="9", comment="mine", qos="low")
    say(job, qos="high", partition="urgent")
    if before == "change":
        annotate(site, time_limit="7")
    async with site.running():
        await asyncio.sleep(60)
        assert (job.qos, job.partition) == ("high", "urgent")
        assert job.time_limit_s == (420.0 if before == "change" else 540.0)
        assert [job] == site.jobs_of("second")


async def test_a_followed_change_is_known_to_the_next_start(site: Site) -> None:
    job = await left_waiting(site, time_limit="9")
    annotate(site, time_limit="7")
    async with site.dying():
        await site.until(lambda: job.time_limit_s == 420.0, "the change", within=30)
    say(job, time_limit_s=1200.0)
    async with site.running():
        await asyncio.sleep(60)
        assert job.time_limit_s == 1200.0
        assert [job] == site.jobs_of("second")


async def test_a_mark_that_does_not_say_what_was_requested_changes_nothing(site: Site) -> None:
    job = await left_waiting(site, time_limit="9")
    for place in ("extra", "admin_comment"):
        mark = decode_mark(getattr(job, place))
        assert mark is not None
        setattr(job, place, encode_mark(replace(mark, request_digests=())))
    annotate(site, time_limit="7")
    async with site.running():
        await asyncio.sleep(60)
        assert job.time_limit_s == 540.0
        assert [job] == site.jobs_of("second")


async def test_a_running_pod_that_changed_while_unwatched_keeps_its_job_and_gets_an_event(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("second")
        await site.bound("second")
        (job,) = site.jobs_of("second")
    annotate(site, exclusive="true")
    async with site.running():
        await site.until(lambda: "SlurmSettingWithoutEffect" in site.events("second"), "an Event", within=30)
        await asyncio.sleep(30)
        assert [job] == site.jobs_of("second")


async def test_a_running_job_follows_its_pods_comment_and_a_shorter_time_limit(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("second", annotations={f"{OURS}time-limit": "60"}, grace_s=10)
        await site.bound("second")
        (job,) = site.jobs_of("second")
        await asyncio.sleep(5)
        annotate(site, time_limit="3", comment="mine")
        await site.until(lambda: "SlurmJobUpdated" in site.events("second"), "an Event", within=30)
        assert (job.time_limit_s, job.comment) == (180.0, "mine")
        await site.gone("second", within=200)
        assert site.kube.wall() < job.start_time + 180


async def test_a_running_pod_is_not_given_more_time_than_an_operator_gives_it(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("second", annotations={f"{OURS}time-limit": "5"})
        await site.bound("second")
        (job,) = site.jobs_of("second")
        annotate(site, time_limit="60")
        await site.until(lambda: "SlurmJobUpdateRejected" in site.events("second"), "an Event", within=30)
        assert any(f"scontrol update jobid={job.job_id} timelimit=60" in note for note in site.notes("second"))
        assert job.time_limit_s == 300.0


async def test_a_running_job_follows_what_changed_while_unwatched(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("second", annotations={f"{OURS}time-limit": "60"})
        await site.bound("second")
        (job,) = site.jobs_of("second")
    annotate(site, time_limit="30")
    async with site.running():
        await site.until(lambda: job.time_limit_s == 1800.0, "the change", within=30)
        assert [job] == site.jobs_of("second")
