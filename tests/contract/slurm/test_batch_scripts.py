"""The script of a batch placeholder holds its node, and ends as its Pod does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.events import EndKind
from extender.domain.job_outcomes.slurm_states import (
    Ended,
    Ending,
    Running,
    observe,
)
from extender.domain.jobs.identity import hook_token
from extender.domain.jobs.job import JobView
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.placeholder_script import HookSettings
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.slurm_sites import NODES, until
from tests.builders.submitted_jobs import KEY, accepted, jobs_of, observed, read, refused
from tests.contract.slurm.conftest import OpenSite


@asynccontextmanager
async def with_script(
    open_site: OpenSite,
) -> AsyncIterator[tuple[SlurmrestdJobs, asyncio.Queue[tuple[str, str]], list[int]]]:
    """Yield a site whose scripts' calls arrive in a queue; the last entry of a list answers each."""
    calls: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    answers = [202]

    async def post(url: str, token: str) -> int:
        calls.put_nowait((url.removeprefix("http://hooks"), token))
        return 200 if "/started" in url else answers[-1]

    async with open_site(post) as site, site.client() as client:
        hooks = HookSettings(url=site.hooks(), wait_s=8, token=lambda mark: hook_token(KEY, mark))
        yield jobs_of(client, hooks), calls, answers


async def test_the_batch_script_holds_the_node_until_the_pod_is_gone(open_site: OpenSite) -> None:
    async with with_script(open_site) as (jobs, calls, answers):
        order = an_order(cpus=8, excluded=NODES[1:])
        job_id = await accepted(jobs, order)
        token = hook_token(KEY, order.mark)
        assert await calls.get() == (f"/hooks/jobs/{job_id}/started", token)
        await observed(jobs, job_id, Running)
        await jobs.cancel(job_id)
        path, shown = await calls.get()
        assert (path.partition("=")[0], shown) == (f"/hooks/jobs/{job_id}/teardown?wait", token)
        ended = await read(jobs, job_id)
        assert "COMPLETING" in ended.flags
        assert isinstance(observe(ended), Ended)
        # The node is still the old job's: the next one waits, whether at once or queued.
        assert (await refused(jobs, an_allocation("next", cpus=8, excluded=NODES[1:]))).queue
        await calls.get()
        assert "COMPLETING" in (await read(jobs, job_id)).flags
        answers.append(200)
        await until(lambda: read(jobs, job_id), lambda job: not job.flags, "the script let go")
        await accepted(jobs, an_allocation("next", cpus=8, excluded=NODES[1:]))


@pytest.mark.parametrize(("exit_code", "state"), [(0, "COMPLETED"), (1, "FAILED")])
async def test_a_batch_placeholder_ends_as_its_pod_did(open_site: OpenSite, exit_code: int, state: str) -> None:
    async with with_script(open_site) as (jobs, calls, _):
        job_id = await accepted(jobs, an_order())
        assert (await calls.get())[0] == f"/hooks/jobs/{job_id}/started"  # its traps are set
        assert await jobs.comment(job_id, "mine; Pod team/workload-1 is over")
        assert not (await jobs.finish(job_id, exit_code)).job_ended
        await observed(jobs, job_id, Ended)
        job = await until(lambda: read(jobs, job_id), lambda job: not job.flags, "the node is free")
        assert (job.state, job.exit_code, job.comment) == (state, exit_code, "mine; Pod team/workload-1 is over")
        assert calls.empty()
        assert (await jobs.finish(job_id, exit_code)).job_ended


async def test_a_comment_is_taken_until_the_job_ends(open_site: OpenSite) -> None:
    async with with_script(open_site) as (jobs, calls, _):
        job_id = await accepted(jobs, an_order())
        await calls.get()
        longest = "\u00e9" * 512
        assert await jobs.comment(job_id, longest)
        assert not await jobs.comment(job_id, longest + "x")
        await jobs.cancel(job_id)
        assert "COMPLETING" in (await observed_completing(jobs, job_id)).flags
        assert not await jobs.comment(job_id, "too late")
        assert (await read(jobs, job_id)).comment == longest


async def observed_completing(jobs: SlurmrestdJobs, job_id: int) -> JobView:
    return await until(lambda: read(jobs, job_id), lambda job: "COMPLETING" in job.flags, "COMPLETING")


async def test_the_batch_script_reports_an_announced_preemption_and_continues(open_site: OpenSite) -> None:
    async with with_script(open_site) as (jobs, calls, answers):
        answers.append(200)
        low = await accepted(jobs, an_order("low", cpus=8, partition="low", excluded=NODES[1:]))
        assert (await calls.get())[0] == f"/hooks/jobs/{low}/started"
        await observed(jobs, low, Running)
        high = await accepted(jobs, an_order("high", cpus=8, partition="high", excluded=NODES[1:]))
        assert (await calls.get())[0] == f"/hooks/jobs/{low}/teardown?wait=0"
        ending = await observed(jobs, low, Ending)
        assert ending.kind is EndKind.PREEMPTED
        await jobs.cancel(low)
        assert (await calls.get())[0].startswith(f"/hooks/jobs/{low}/teardown?wait=")
        await observed(jobs, high, Running)
