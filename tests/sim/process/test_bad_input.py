"""What people do to jobs and Pods of ours by hand: each has a named outcome, and somebody is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from structlog.testing import capture_logs

from extender.domain.placeholder import Placeholder
from simulator.kube.faults import KubeFault
from simulator.slurm.records import SimJob
from tests.builders.bombs import BOMBS
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
JOB_ID = "status.slurm-extender.io/job-id"
NODE = "status.slurm-extender.io/node"
POD = "status.slurm-extender.io/pod-uid"
NOTE = "status.slurm-extender.io/cancelled"
COMMENT = "slurm-extender.io/comment"
SETTINGS = {MODE: "batch", "slurm-extender.io/partition": "batch", "slurm-extender.io/time-limit": "60"}


async def running(site: Site, name: str = "web") -> SimJob:
    site.kube.add_pod(name, annotations=SETTINGS, cpu="2", grace_s=2)
    await site.bound(name)
    (job,) = site.jobs_of(name)
    return job


async def waiting(site: Site, name: str = "waits") -> SimJob:
    await site.fill()
    site.kube.add_pod(name, annotations=SETTINGS, cpu="8", grace_s=2)
    await site.until(lambda: bool(site.jobs_of(name)), "its job")
    (job,) = site.jobs_of(name)
    await asyncio.sleep(2)
    return job


def lives(site: Site, name: str) -> bool:
    return "deletionTimestamp" not in site.pod(name)["metadata"]


def rename(job: SimJob) -> None:
    job.name = "renamed"


def empty_extra(job: SimJob) -> None:
    job.extra = ""


def empty_marks(job: SimJob) -> None:
    job.extra = job.admin_comment = ""


def move(job: SimJob) -> None:
    job.partition = "urgent"


def cut_time(job: SimJob) -> None:
    job.time_limit_s = 1800.0


CHANGES = [
    (rename, "renamed to 'renamed'"),
    (empty_extra, "lost its mark in extra"),
    (empty_marks, "lost its mark in admin_comment and extra"),
    (move, "is in partition urgent"),
    (cut_time, "may run 30 min"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
async def test_a_change_of_a_running_job_that_ends_nothing_is_reported_once(
    site: Site, change: Callable[[SimJob], None], said: str
) -> None:
    async with site.running():
        job = await running(site)
        change(job)
        await site.until(lambda: "SlurmJobChangedManually" in site.events("web"), "an Event", within=20)
        await asyncio.sleep(15)
        assert [said in text for text in site.notes("web")].count(True) == 1
        assert lives(site, "web")
        assert site.live_jobs() == [job]
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: job.ended, "its end")


@pytest.mark.parametrize(("change", "said"), CHANGES)
async def test_a_change_of_a_waiting_job_is_reported_to_slurm_and_the_pod_gets_the_node(
    site: Site, change: Callable[[SimJob], None], said: str
) -> None:
    async with site.running():
        job = await waiting(site)
        change(job)
        await site.until(lambda: any(said in text for text in site.notes("waits")), "an Event", within=20)
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")
        assert site.jobs_of("waits") == [job] or change is rename
        assert not job.ended


async def test_a_job_that_was_given_more_nodes_than_requested_runs_and_is_reported(site: Site) -> None:
    async with site.running():
        job = await waiting(site)
        job.node_count = 2
        for number in range(2):
            site.kube.delete_pod(f"first-{number}", grace_s=1)
        node = await site.bound("waits")
        await site.until(lambda: "SlurmJobChangedManually" in site.events("waits"), "an Event", within=20)
        assert node in job.nodes
        assert any("leaves the others idle" in text for text in site.notes("waits"))
        await asyncio.sleep(10)
        assert lives(site, "waits")


async def test_a_held_job_waits_says_so_and_continues_when_released(site: Site) -> None:
    async with site.running():
        job = await waiting(site)
        site.slurm.controller.hold(job.job_id)
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: any("holds it" in text for text in site.notes("waits")), "an Event", within=30)
        await asyncio.sleep(20)
        assert not site.node_of("waits")
        site.slurm.controller.unhold(job.job_id)
        await site.bound("waits")
        assert site.jobs_of("waits") == [job]


@pytest.mark.parametrize(("what", "said"), [("requeue", "queue"), ("suspend", "suspended"), ("move", "other nodes")])
async def test_a_running_job_that_loses_its_node_ends_its_pod_with_the_cause(site: Site, what: str, said: str) -> None:
    async with site.running():
        job = await running(site)
        if what == "move":
            await asyncio.sleep(3)
            job.nodes = tuple(name for name in NAMES if name not in job.nodes)[:1]
        else:
            getattr(site.slurm.controller, what)(job.job_id)
        await site.until(lambda: "SlurmAllocationLost" in site.events("web"), "an Event", within=20)
        assert any(said in text for text in site.notes("web"))
        await site.gone("web")
        await site.until(lambda: job.ended and not site.drained(), "no job and no drain")


async def test_a_running_job_that_nothing_shows_to_be_the_extenders_is_left_alone_and_its_pod_is_ended(
    site: Site,
) -> None:
    async with site.running():
        site.kube.add_pod("stays")
        await site.bound("stays")
        job = await running(site)
        with capture_logs() as logs:
            empty_marks(job)
            rename(job)
            await site.until(lambda: "SlurmAllocationLost" in site.events("web"), "an Event", within=40)
            await site.gone("web")
            await asyncio.sleep(30)
        assert not job.ended
        assert lives(site, "stays")
        assert {line["job_id"] for line in logs if line["event"] == "job_owned_by_another"} == {job.job_id}
        assert "pod_without_job_ended" in {line["event"] for line in logs}
        assert not site.drained()


@pytest.mark.parametrize("at", ["waiting", "granted"])
async def test_a_pod_bound_by_hand_to_another_node_stays_there_outside_of_slurm(site: Site, at: str) -> None:
    async with site.running():
        if at == "waiting":
            job = await waiting(site)
            name, other = "waits", "n3"
        else:
            site.kube.add_pod("web", annotations=SETTINGS, cpu="2")
            await site.until(lambda: any(one.running for one in site.jobs_of("web")), "its job runs")
            name, (job,) = "web", site.jobs_of("web")
            other = next(node for node in NAMES if node not in job.nodes)
        site.edit_pod(name, lambda pod: pod["spec"].update(nodeName=other))
        await site.until(lambda: "BoundWithoutSlurm" in site.events(name), "an Event", within=30)
        await site.until(lambda: job.ended, "the job's end", within=30)
        await asyncio.sleep(10)
        assert lives(site, name)
        assert not site.jobs_of(name)


@pytest.mark.parametrize("key", [JOB_ID, NODE, POD])
@pytest.mark.parametrize("value", [None, "n9", "4711"])
async def test_what_the_extender_wrote_on_a_running_pod_is_written_again(
    site: Site, key: str, value: str | None
) -> None:
    def edit(pod: dict[str, dict[str, dict[str, str]]]) -> None:
        if value is None:
            pod["metadata"]["annotations"].pop(key)
        else:
            pod["metadata"]["annotations"][key] = value

    async with site.running():
        await running(site)
        was = dict(site.pod("web")["metadata"]["annotations"])
        await asyncio.sleep(2)
        site.edit_pod("web", edit)
        await site.until(lambda: site.pod("web")["metadata"]["annotations"] == was, "the annotations", within=45)
        assert lives(site, "web")
        if (key, value) != (POD, None):  # as an earlier release bound it
            await site.until(lambda: any(key in text for text in site.notes("web")), "an Event", within=10)


async def test_a_long_text_in_place_of_what_the_extender_wrote_is_short_in_the_log(site: Site) -> None:
    async with site.running():
        await running(site)
        was = dict(site.pod("web")["metadata"]["annotations"])
        with capture_logs() as lines:
            site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({NODE: "x" * 250_000}))
            await site.until(lambda: site.pod("web")["metadata"]["annotations"] == was, "the annotations", within=45)
    (line,) = [line for line in lines if line["event"] == "status_annotations_repaired"]
    assert line["was"] == {NODE: "x" * 100}
    assert max(len(str(line)) for line in lines) < 2000


async def test_a_cancel_that_was_taken_back_does_not_come_back_with_a_restart(site: Site) -> None:
    """A is cancelled, the Pod asks B, then A again: the cancel was an answer to the first question alone."""
    async with site.dying():
        job = await waiting(site)
        site.slurm.controller.cancel(job.job_id)
        await site.until(lambda: NOTE in site.pod("waits")["metadata"]["annotations"], "a note")
        for text in ("again", None):
            site.edit_pod("waits", partial(set_comment, comment=text))
            await asyncio.sleep(10)
            assert len(site.jobs_of("waits")) == 1
        assert not site.pod("waits")["metadata"]["annotations"][NOTE]
    site.slurm.controller.forget(site.jobs_of("waits")[0].job_id)
    site.kube.delete_pod("first-0", grace_s=1)
    async with site.running():
        await site.bound("waits", within=120)


async def test_a_renamed_waiting_job_is_found_by_its_mark_after_a_restart_and_not_kept_twice(site: Site) -> None:
    async with site.dying():
        job = await waiting(site)
        job.name = "renamed"
    async with site.running():
        await site.until(lambda: job.ended and len(site.jobs_of("waits")) == 1, "one job", within=120)
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("waits")
        assert len(site.live_jobs()) == 3


async def test_a_pod_that_another_client_binds_while_a_binding_is_under_way_keeps_that_node(site: Site) -> None:
    slow = site.kube.faults.add(KubeFault(method="POST", path="/pods/web/binding$", code=503, times=None))
    async with site.running():
        site.kube.add_pod("web", annotations=SETTINGS, cpu="2")
        await site.until(lambda: any(m.binding for p in placed(site) for m in p.members), "our Binding", within=30)
        (job,) = site.jobs_of("web")
        other = next(node for node in NAMES if node not in job.nodes)
        site.edit_pod("web", lambda pod: pod["spec"].update(nodeName=other))
        site.kube.faults.rules.remove(slow)
        await site.until(lambda: job.ended, "the job's end", within=60)
        await asyncio.sleep(10)
        assert lives(site, "web")
        assert site.node_of("web") == other
        assert "BoundWithoutSlurm" in site.events("web")
        assert not site.live_jobs()


def placed(site: Site) -> list[Placeholder]:
    return list(site.extender.engine.placeholders.all.values())


async def test_hook_calls_out_of_order_or_repeated_change_nothing(site: Site) -> None:
    async with site.running():
        job = await running(site)
        token, hook = job.environment["SLURM_EXTENDER_TOKEN"], f"/hooks/jobs/{job.job_id}"
        early = await site.post(f"{hook}/teardown?wait=0", token)
        assert (early.status_code, early.json()["gone"]) == (202, False)
        for _ in range(5):
            assert (await site.post(f"{hook}/started", token)).json()["proven"]
        await asyncio.sleep(5)
        assert lives(site, "web")
        assert site.live_jobs() == [job]
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: job.ended, "its end")
        await asyncio.sleep(70)
        for _ in range(2):
            assert not (await site.post(f"{hook}/started", token)).json()["proven"]
            late = await site.post(f"{hook}/teardown?wait=60", token)
            assert (late.status_code, late.json()["gone"]) == (404, True)
        assert not site.live_jobs()
        assert not site.drained()


async def test_a_hook_call_with_anothers_token_is_refused_and_logged_now_and_then(site: Site) -> None:
    async with site.running():
        mine, other = await running(site, "mine"), await running(site, "other")
        with capture_logs() as logs:
            for _ in range(20):
                token = mine.environment["SLURM_EXTENDER_TOKEN"]
                assert (await site.post(f"/hooks/jobs/{other.job_id}/teardown", token)).status_code == 403
            await asyncio.sleep(15)
            await site.post(f"/hooks/jobs/{other.job_id}/teardown", "")
        said = [(line["status"], line["more"]) for line in logs if line["event"] == "hook_rejected"]
        assert said == [(403, 0), (401, 19)]
        assert lives(site, "other")


def set_comment(pod: dict[str, dict[str, dict[str, str]]], comment: str | None) -> None:
    if comment is None:
        pod["metadata"]["annotations"].pop(COMMENT, None)
    else:
        pod["metadata"]["annotations"][COMMENT] = comment


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("begin", ["now+999999999weeks", "9999-12-31T23:59:59Z", "now+5200weeks"])
async def test_a_start_in_thousands_of_years_harms_no_job(site: Site, begin: str) -> None:
    async with site.running():
        site.kube.add_pod("late", annotations={"slurm-extender.io/begin": begin})
        await asyncio.sleep(120)
        assert not site.node_of("late")
        site.kube.add_pod("web")
        await site.bound("web")


@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_pod_that_is_made_to_cost_time_keeps_no_start_from_placing_others(site: Site, bomb: str) -> None:
    site.kube.add_pod("bomb", annotations=BOMBS[bomb])
    for name in ("first", "second"):
        async with site.dying():
            await site.until(lambda: site.extender.ready, "readiness", within=30)
            site.kube.add_pod(name, cpu="1")
            await site.bound(name, within=10)
    assert site.jobs_of("bomb") == []
