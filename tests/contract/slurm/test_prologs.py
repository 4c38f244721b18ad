"""A job that PrologSlurmctld holds, on a simulated and on a real Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.job_outcomes.slurm_states import PolledState, Running, Starting, observe, polled_state
from extender.domain.jobs.job import JobView, Mode
from extender.slurm.jobs import SlurmrestdJobs
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.slurm_sites import EXTERNAL, NODES, LabSite, Site, until
from tests.builders.submitted_jobs import accepted, jobs_of, observed, read
from tests.contract.slurm.conftest import OpenSite


@asynccontextmanager
async def held(open_site: OpenSite) -> AsyncIterator[tuple[Site, SlurmrestdJobs]]:
    async with open_site() as site, site.client() as client:
        site.install_prolog()
        try:
            yield site, jobs_of(client)
        finally:
            if isinstance(site, LabSite):
                site.remove_prolog()


async def starting(jobs: SlurmrestdJobs, job_id: int) -> JobView:
    await observed(jobs, job_id, Starting)
    assert polled_state((await jobs.states())[job_id]) is PolledState.STARTING
    return await read(jobs, job_id)


@pytest.mark.parametrize("mode", [Mode.BATCH, Mode.ALLOCATION, Mode.EXTERNAL])
async def test_a_job_that_is_held_has_its_node_and_starts_there_when_it_is_let_go(
    open_site: OpenSite, mode: Mode
) -> None:
    async with held(open_site) as (site, jobs):
        if mode is Mode.EXTERNAL and site.release < (26, 5):
            pytest.skip("external jobs came with 25.05")
        order = an_allocation() if mode is Mode.ALLOCATION else an_order(mode=mode, excluded=NODES[1:])
        if mode is Mode.EXTERNAL:
            order = an_order(mode=mode, partition="outside", excluded=EXTERNAL[1:])
        job_id = await accepted(jobs, order)
        before = await starting(jobs, job_id)
        assert before.nodes
        site.open_prolog()
        await observed(jobs, job_id, Running)
        assert (await read(jobs, job_id)).nodes == before.nodes


async def test_a_job_that_is_cancelled_while_it_is_held_has_ended_at_once(open_site: OpenSite) -> None:
    async with held(open_site) as (site, jobs):
        job_id = await accepted(jobs, an_order(excluded=NODES[1:]))
        await starting(jobs, job_id)
        await jobs.cancel(job_id)
        ended = await until(lambda: read(jobs, job_id), lambda job: job.state == "CANCELLED", "its end")
        assert not isinstance(observe(ended), Starting)
        site.open_prolog()
