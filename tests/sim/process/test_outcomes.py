"""What is left of a Pod in Slurm: how its job ended, and the job's comment."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR
from simulator.slurm.faults import SlurmFault
from slurmclient.transport import MOST_CONNECTIONS
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
COMMENT = "slurm-extender.io/comment"


@pytest.mark.parametrize(
    ("mode", "after", "state", "exit_code", "words"),
    [
        ("batch", RUN_FOR, "COMPLETED", 0, "Pod default/work Succeeded"),
        ("batch", FAIL_AFTER, "FAILED", 1, "Pod default/work Failed: exit 1"),
        ("allocation", RUN_FOR, "CANCELLED", 0, "Pod default/work Succeeded"),
        ("allocation", FAIL_AFTER, "CANCELLED", 0, "Pod default/work Failed: exit 1"),
    ],
)
async def test_a_job_ends_as_its_pod_did_where_slurm_lets_it_and_keeps_the_outcome(
    site: Site, mode: str, after: str, state: str, exit_code: int, words: str
) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: mode, COMMENT: "mine", after: "5"})
        await site.bound("work")
        (job,) = site.live_jobs()
        await site.until(lambda: not site.live_jobs(), "the job's end")
        assert (job.state, job.exit_code, job.comment) == (state, exit_code, f"mine; {words}")
        await site.until(lambda: not job.flags, "the node is free")


async def test_the_job_of_a_deleted_pod_is_cancelled_and_says_so(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: "batch"}, grace_s=3)
        await site.bound("work")
        (job,) = site.live_jobs()
        site.kube.delete_pod("work")
        await site.until(lambda: not site.live_jobs(), "the job's end")
        assert job.state == "CANCELLED"
        assert job.comment == "Kubernetes Pod default/work; Pod default/work deleted: exit 143"


async def test_a_script_that_receives_no_signal_has_its_job_cancelled(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: "batch", RUN_FOR: "5"})
        await site.bound("work")
        (job,) = site.live_jobs()
        site.slurm.controller.deafen(job.job_id)
        await site.until(lambda: not site.live_jobs(), "the job's end", 30)
        assert job.state == "CANCELLED"
        assert job.comment.count("Succeeded") == 1


async def test_a_comment_without_room_stays_as_it_is(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: "batch", COMMENT: "x" * 1023, RUN_FOR: "5"})
        await site.bound("work")
        (job,) = site.live_jobs()
        await site.until(lambda: not site.live_jobs(), "the job's end", 30)
        assert (job.state, job.comment) == ("COMPLETED", "x" * 1023)


@pytest.mark.parametrize(
    "fault", [SlurmFault.REFUSE, SlurmFault.LOSE_REQUEST, SlurmFault.FAIL_AFTER, SlurmFault.LOSE_ANSWER]
)
async def test_a_comment_that_slurm_does_not_take_holds_no_end_up(site: Site, fault: SlurmFault) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: "batch", RUN_FOR: "5"})
        await site.bound("work")
        (job,) = site.live_jobs()
        site.slurm.restd.faults.add(fault, "POST", f"/job/{job.job_id}")
        await site.until(lambda: not site.live_jobs(), "the job's end", 15)
        assert job.state == "COMPLETED"
        assert job.comment.count("Succeeded") == (fault in {SlurmFault.FAIL_AFTER, SlurmFault.LOSE_ANSWER})


async def test_comments_without_a_waiter_keep_nothing_else_from_slurm(site: Site) -> None:
    """As many as there are connections to slurmrestd, and some more."""
    names = [f"work-{number}" for number in range(MOST_CONNECTIONS + 2)]
    async with site.running():
        for name in names:
            site.kube.add_pod(name, annotations={MODE: "batch"}, grace_s=1)
        for name in names:
            await site.bound(name)
        for job in site.live_jobs():
            site.slurm.restd.faults.add(SlurmFault.LOSE_REQUEST, "POST", f"/job/{job.job_id}")
        for name in names:
            site.kube.delete_pod(name)
        await site.until(lambda: not site.live_jobs(), "the ends of their jobs", within=20)


@pytest.mark.parametrize("fault", [SlurmFault.REFUSE, SlurmFault.FAIL_AFTER, SlurmFault.LOSE_ANSWER])
async def test_an_outcome_is_noted_once_whatever_is_repeated(site: Site, fault: SlurmFault) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={MODE: "batch", RUN_FOR: "5"})
        await site.bound("work")
        (job,) = site.live_jobs()
        site.slurm.restd.faults.add(fault, "POST", f"/job/{job.job_id}", times=1)
        site.slurm.restd.faults.add(SlurmFault.REFUSE, "DELETE", "/jobs", times=1)
        await site.until(lambda: not site.live_jobs(), "the job's end", 40)
        assert job.state == (
            "CANCELLED" if fault is SlurmFault.LOSE_ANSWER else "COMPLETED"
        )  # a lost answer takes its time
        assert job.comment.count("Succeeded") == 1


@pytest.mark.parametrize(("mode", "state"), [("batch", "COMPLETED"), ("allocation", "CANCELLED")])
async def test_a_pod_that_succeeded_while_unwatched_ends_its_job_with_the_outcome(
    site: Site, mode: str, state: str
) -> None:
    async with site.dying():
        site.kube.add_pod("work", annotations={MODE: mode, RUN_FOR: "10"})
        await site.bound("work")
        (job,) = site.live_jobs()
    await site.until(lambda: site.pod("work")["status"]["phase"] == "Succeeded", "the Pod's end")
    async with site.running():
        await site.until(lambda: not site.live_jobs(), "the job's end", within=60)
        assert job.state == state
        assert job.comment.endswith("Pod default/work Succeeded")
        await asyncio.sleep(10)
        assert not site.drained()
