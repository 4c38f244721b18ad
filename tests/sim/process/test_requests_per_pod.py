"""What a Pod costs Slurm and the API server over its life, beside the poll and the refresh, which are nobody's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from extender.domain.wellknown import GATE
from simulator.kube.faults import KubeFault
from simulator.slurm.faults import SlurmFault
from simulator.slurm.job_lifecycle import Scripts
from simulator.slurm.records import SimJob, SimNode
from tests.builders.process_site import CONFIG, Site, a_site

pytestmark = pytest.mark.looptime

HOW_TO_WAIT = pytest.mark.parametrize("gates", [(GATE,), ()], ids=["gated", "ungated"])
CHECKPOINT = "PATCH slurm-extender-checkpoints"
"""Before each submission; those that wait at the same time share one."""

SHARED = {"GET /jobs/state", "GET /nodes", "GET /partitions", "GET /conf"}
WITHOUT_REFRESH = CONFIG.replace("refreshRate: 2", "refreshRate: 0.001")
"""Its budget is the same whatever lives, and would hide here what one Pod costs."""


def forget(site: Site) -> None:
    site.slurm.restd.requests.clear()
    site.kube.requests.clear()


def slurm_requests(site: Site) -> dict[str, int]:
    counted = Counter(f"{method} {path}".rstrip("0123456789") for method, path in site.slurm.restd.requests)
    return {question: count for question, count in counted.items() if question not in SHARED}


def kube_writes(site: Site) -> list[str]:
    """Those that are not Events, in order."""
    return [
        f"{one.method} {one.path.rpartition('/')[2]}"
        for one in site.kube.requests
        if one.method != "GET" and "/events" not in one.path
    ]


@asynccontextmanager
async def quiet(site: Site) -> AsyncIterator[None]:
    """An extender that has read its first job in turn, and will not again within these tests."""
    site.config = WITHOUT_REFRESH
    async with site.running():
        site.kube.add_pod("before", cpu="1", grace_s=1)
        await site.bound("before")
        await asyncio.sleep(5)
        site.kube.delete_pod("before")
        await site.until(lambda: not site.live_jobs(), "its end")
        await asyncio.sleep(2)
        forget(site)
        yield


@HOW_TO_WAIT
async def test_a_pod_that_is_placed_at_once_costs_two_requests_and_three_writes(
    site: Site, gates: Sequence[str]
) -> None:
    async with quiet(site):
        site.kube.add_pod("web", gates=gates)
        await site.bound("web")
        await asyncio.sleep(5)
        assert slurm_requests(site) == {"POST /job/allocate": 1, "GET /job/": 1}
        assert kube_writes(site) == [CHECKPOINT, "PATCH web", "POST binding"]


async def test_a_pod_that_no_node_can_hold_costs_no_checkpoint(site: Site) -> None:
    async with quiet(site):
        site.kube.add_pod("web", cpu="999")
        await asyncio.sleep(10)
        assert slurm_requests(site) == {}
        assert CHECKPOINT not in kube_writes(site)


async def test_a_pod_that_goes_while_its_checkpoint_is_written_gets_no_job(site: Site) -> None:
    async with quiet(site):
        site.kube.faults.add(KubeFault("PATCH", "checkpoints", code=None, delay_s=1.0))
        site.kube.add_pod("web")
        await asyncio.sleep(0.5)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(10)
        assert slurm_requests(site) == {}


@HOW_TO_WAIT
async def test_a_pod_that_waits_gets_the_cause_once_and_its_wait_costs_slurm_three_requests(
    site: Site, gates: Sequence[str]
) -> None:
    async with quiet(site):
        await site.fill()
        await asyncio.sleep(2)
        forget(site)
        site.kube.add_pod("web", gates=gates, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await asyncio.sleep(60)
        assert slurm_requests(site) == {"POST /job/allocate": 1, "POST /job/submit": 1, "GET /job/": 1}
        assert kube_writes(site) == [CHECKPOINT, "PATCH status"]
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: len(site.live_jobs()) == 3, "the end of the job before")
        forget(site)
        await site.bound("web")
        await asyncio.sleep(5)
        # The start, seen in the poll and told by the script, and perhaps the end of the job before.
        assert slurm_requests(site).keys() == {"GET /job/"}
        assert slurm_requests(site)["GET /job/"] <= 3
        # What it was told of its wait is taken back; one that has not waited is written to twice.
        assert kube_writes(site) == ["PATCH web", "POST binding", "PATCH status"]


@HOW_TO_WAIT
async def test_a_pod_that_waits_for_a_moment_costs_slurm_no_read_before_its_job_starts(
    site: Site, gates: Sequence[str]
) -> None:
    async with quiet(site):
        # Jobs that leave their node at once: a Pod would take a part of the two seconds for its own end.
        theirs = [await site.submit_as_another_user(number, {"cpus_per_task": 8}) for number in range(3)]
        await site.until(lambda: all(site.slurm.controller.jobs[job_id].running for job_id in theirs), "their start")
        await asyncio.sleep(2)
        forget(site)
        site.kube.add_pod("web", gates=gates, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await asyncio.sleep(1)
        assert slurm_requests(site) == {"POST /job/allocate": 1, "POST /job/submit": 1}
        site.slurm.controller.cancel(theirs[0])
        await site.bound("web")
        assert "SlurmJobPending" not in site.events("web")


@HOW_TO_WAIT
async def test_the_end_of_a_pod_costs_no_write_and_the_end_of_its_job_one_change_beside_the_outcome(
    site: Site, gates: Sequence[str]
) -> None:
    async with quiet(site):
        site.kube.add_pod("web", gates=gates, grace_s=1)
        await site.bound("web")
        await asyncio.sleep(5)
        forget(site)
        site.kube.delete_pod("web")
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        await asyncio.sleep(5)
        assert slurm_requests(site) == {"GET /job/": 1, "POST /job/": 1, "DELETE /jobs": 1}
        assert kube_writes(site) == []


async def test_a_cancelled_job_is_read_once_and_its_pod_is_evicted_with_the_reason_without_being_read(
    site: Site,
) -> None:
    async with quiet(site):
        site.kube.add_pod("web", gates=(GATE,))
        await site.bound("web")
        await asyncio.sleep(5)
        forget(site)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.gone("web")
        await asyncio.sleep(5)
        assert {question: n for question, n in slurm_requests(site).items() if "/job" in question} == {"GET /job/": 1}
        counted = [f"{one.method} {one.path.rpartition('/')[2]}" for one in site.kube.requests if "/pods/" in one.path]
        assert counted == ["POST eviction", "PATCH status"]


async def test_a_job_that_is_long_in_completing_is_not_read_again_at_its_end(site: Site) -> None:
    async def epilog(_job: SimJob, _node: str) -> int:
        await asyncio.sleep(3)
        return 0

    site.slurm.controller.reconfigure(Scripts(epilog=epilog))
    async with quiet(site):
        site.kube.add_pod("web", gates=(GATE,), grace_s=30)
        await site.bound("web")
        site.kubelets.stop_s = 10.0
        await asyncio.sleep(5)
        forget(site)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.gone("web")
        assert slurm_requests(site)["GET /job/"] == 1


async def test_a_job_that_slurm_forgets_while_its_pod_is_ending_is_not_read_again(site: Site) -> None:
    async with quiet(site):
        site.kube.add_pod("web", gates=(GATE,), grace_s=500)
        await site.bound("web")
        site.kubelets.stop_s = 400.0
        await asyncio.sleep(5)
        forget(site)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await asyncio.sleep(380)  # MinJobAge is 300 s
        assert slurm_requests(site)["GET /job/"] == 1


async def test_a_script_that_says_that_it_runs_causes_no_second_read(site: Site) -> None:
    async with quiet(site):
        site.kube.add_pod("web", gates=(GATE,), annotations={"slurm-extender.io/mode": "batch"})
        await site.bound("web")
        forget(site)
        (job,) = site.live_jobs()
        answer = await site.post(f"/hooks/jobs/{job.job_id}/started", "")
        assert answer.status_code == 202
        await asyncio.sleep(2)
        assert "GET /job/" not in slurm_requests(site)


async def test_each_of_many_jobs_that_are_cancelled_at_once_is_read_once(site: Site) -> None:
    async with quiet(site):
        names = [f"web-{number}" for number in range(20)]
        for name in names:
            site.kube.add_pod(name, gates=(GATE,))
        for name in names:
            await site.bound(name)
        await asyncio.sleep(5)
        forget(site)
        for job in site.live_jobs():
            site.slurm.controller.cancel(job.job_id)
        for name in names:
            await site.gone(name)
        await asyncio.sleep(5)
        assert {question: n for question, n in slurm_requests(site).items() if "/job" in question} == {"GET /job/": 20}


def slow(site: Site, checkpoint_s: float) -> None:
    """Let each request take its time, so that submissions, grants and Bindings of many Pods overlap."""
    for method, path, seconds in (("PATCH", "checkpoints", checkpoint_s), ("PATCH", "/pods/", 0.005)):
        site.kube.faults.add(KubeFault(method, path, code=None, delay_s=seconds, times=None))
    for method, path, seconds in (("POST", "/job/allocate", 0.15), ("GET", "/job/", 0.003), ("GET", "/jobs", 0.004)):
        site.slurm.restd.faults.add(SlurmFault.DELAY, method, path, seconds=seconds)


async def states_of_some(site: Site) -> int:
    """Return how often the states of jobs beside a granted one were asked for."""
    lines = (await site.get(8082, "/metrics")).text.splitlines()
    counts = [line for line in lines if "slurm_request_duration_seconds_count" in line and '"states_of_some"' in line]
    return sum(int(float(line.split()[-1])) for line in counts)


@pytest.mark.parametrize("checkpoint_s", [0.005, 0.1])
async def test_pods_of_a_burst_on_one_node_share_checkpoints_and_questions_about_each_other(
    checkpoint_s: float,
) -> None:
    async with a_site(nodes=[SimNode("n1", cpus=400, memory_mb=640_000)]) as site, quiet(site):
        site.gives("n1", {"cpu": "400", "pods": "1000"})
        slow(site, checkpoint_s)
        before = await states_of_some(site)
        forget(site)
        for number in range(100):
            site.kube.add_pod(f"web-{number}", cpu="1", gates=(GATE,))
        for number in range(100):
            await site.bound(f"web-{number}", within=5.0)
        assert kube_writes(site).count(CHECKPOINT) <= 2
        assert await states_of_some(site) - before <= 20


async def test_a_pod_beside_others_costs_one_question_about_them(site: Site) -> None:
    async with quiet(site):
        slow(site, 0.005)
        before = await states_of_some(site)
        forget(site)
        for number in range(8):
            site.kube.add_pod(f"web-{number}", cpu="1", gates=(GATE,))
            await site.bound(f"web-{number}", within=1.0)
        assert kube_writes(site).count(CHECKPOINT) == 8
        assert await states_of_some(site) - before == 7
