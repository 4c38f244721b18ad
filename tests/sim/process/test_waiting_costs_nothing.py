"""No request to Slurm or to the API server happens because a Pod waits: what there is, is the poll and the refresh."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GATE
from simulator.kube.objects import Json
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import CONFIG, Site

pytestmark = pytest.mark.looptime

POLLS, REFRESH, NODES, CONF = "GET /jobs/state", "GET /job/", "GET /nodes", "GET /conf"
PARTITIONS = "GET /partitions"
BUDGET = {POLLS: 5.0, REFRESH: 2.0, NODES: 0.2, PARTITIONS: 0.2, CONF: 1 / 60}
"""Requests a second, whatever waits: `polling.minInterval`, `refreshRate` and `nodesInterval` of these sites."""

WATCHED = 60
"""Seconds."""

BATCH = {"slurm-extender.io/mode": "batch"}
MUTE = CONFIG.replace('url: "http://extender:8000", ', "")
"""No script and no hook tells of a start."""

LONGEST_BACKOFF = 10
"""`podMaxBackoffSeconds`."""

HOW_TO_WAIT = pytest.mark.parametrize("gates", [(GATE,), ()], ids=["gated", "ungated"])


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """What happened in a minute. `writes` are those of the extender to the API server, `filters` kube-scheduler's."""

    slurm: Counter[str]
    kube: list[str]
    filters: int


async def crowd(site: Site, count: int, gates: Sequence[str]) -> None:
    """So many Pods whose jobs wait in Slurm, and nothing left to say about them."""
    await site.fill()
    for number in range(count):
        site.kube.add_pod(f"waits-{number}", cpu="8", gates=gates)
    await site.until(lambda: len(site.live_jobs()) == count + 3, "a job of each")
    await asyncio.sleep(30 + count / BUDGET[REFRESH])


async def requests_while_waiting(site: Site, count: int, gates: Sequence[str]) -> RequestCounts:
    """So many wait, and the status of one bound Pod changes every second, which wakes every Pod in kube-scheduler."""
    async with site.running():
        await crowd(site, count, gates)
        filters = site.scheduler.status.filters
        site.slurm.restd.requests.clear()
        site.kube.requests.clear()
        for second in range(WATCHED):
            site.edit_pod("first-0", partial(_beat, second))
            await asyncio.sleep(1)
        assert len(site.live_jobs()) == count + 3
        slurm = Counter(f"{method} {path}".rstrip("0123456789") for method, path in site.slurm.restd.requests)
        # The watch of Nodes ends when nothing came for long, and is taken up again.
        kube = [f"{one.method} {one.path}" for one in site.kube.requests if not one.watch]
        return RequestCounts(slurm, kube, site.scheduler.status.filters - filters)


def _beat(second: int, pod: Json) -> None:
    pod["status"]["beat"] = second


@HOW_TO_WAIT
@pytest.mark.parametrize("count", [5, 40])
async def test_slurm_is_queried_within_the_budget_and_the_api_server_nothing_however_many_wait(
    site: Site, count: int, gates: Sequence[str]
) -> None:
    counts = await requests_while_waiting(site, count, gates)
    assert counts.kube == []
    assert set(counts.slurm) <= set(BUDGET)
    for question, rate in BUDGET.items():
        assert counts.slurm[question] <= WATCHED * rate + 1, question
    assert counts.filters <= (0 if gates else count * (WATCHED / LONGEST_BACKOFF + 1))


async def test_jobs_of_others_are_checked_within_the_same_budget(site: Site) -> None:
    """Any of them may be one of ours that came back: they are read in turn, too."""
    async with site.running():
        await crowd(site, 5, (GATE,))
        others = {await site.submit_as_another_user(number) for number in range(3)}
        await asyncio.sleep(30)
        site.slurm.restd.requests.clear()
        await asyncio.sleep(WATCHED)
        reads = Counter(path for _, path in site.slurm.restd.requests if path.startswith("/job/"))
        assert min(reads[f"/job/{job_id}"] for job_id in others) >= 3
        assert sum(reads.values()) <= WATCHED * BUDGET[REFRESH] + 1


@HOW_TO_WAIT
async def test_a_pod_that_waits_learns_of_its_start_within_a_poll_without_a_call(
    site: Site, gates: Sequence[str]
) -> None:
    site.config = MUTE
    async with site.running():
        await crowd(site, 1, gates)
        site.kube.delete_pod("first-1", grace_s=1)
        await site.until(lambda: len(site.live_jobs()) == 3, "the end of the first")
        (job,) = site.jobs_of("waits-0")
        await site.until(lambda: job.state == "RUNNING", "its start", every=0.01)
        await site.until(lambda: site.placeholder("waits-0").state is not State.WAITING, "known", within=0.3)


async def test_the_first_jobs_after_a_quiet_time_are_polled_for_as_any_other(site: Site) -> None:
    """A poll that takes long is made seldom while nothing of ours is there; first jobs do not wait for that."""
    site.config = MUTE
    site.slurm.restd.faults.add(SlurmFault.DELAY, "GET", "/jobs/state", seconds=0.45)
    async with site.running():
        for pause in (20.7, 21.9, 23.1):
            await asyncio.sleep(pause)
            for number in range(12):
                site.kube.add_pod(f"web-{number}", cpu="2", gates=(GATE,), annotations=BATCH, grace_s=1)
            await site.until(lambda: [job.state for job in site.live_jobs()] == ["RUNNING"] * 12, "all run")
            known = 1.0 + 2 * 0.45 + 0.1  # the poll under way, the longest pause, and the one after
            await site.until(lambda: not site.extender.engine.placeholders.in_state(State.WAITING), "known", known)
            for number in range(12):
                site.kube.delete_pod(f"web-{number}", grace_s=1)
            await site.until(lambda: not site.live_jobs(), "their end")


async def test_reads_in_turn_leave_the_connections_to_others_where_slurm_is_slow(site: Site) -> None:
    site.config = CONFIG.replace("refreshRate: 2", "refreshRate: 10")
    async with site.running():
        for number in range(20):
            site.kube.add_pod(f"web-{number}", cpu="1", gates=(GATE,))
        await site.until(lambda: len(site.bound_pods()) == 20, "all are bound")
        site.slurm.restd.faults.add(SlurmFault.DELAY, seconds=1.0)
        await asyncio.sleep(5)
        site.slurm.restd.requests.clear()
        await asyncio.sleep(30)
        reads = sum(path.startswith("/job/") for _, path in site.slurm.restd.requests)
        assert 30 <= reads <= 2 * 30 + 2
