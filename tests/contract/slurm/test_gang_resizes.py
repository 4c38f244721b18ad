"""What becomes of a waiting gang that gets another number of members, on a simulated and on a real Slurm."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from extender.domain.job_outcomes.slurm_states import Running
from extender.domain.jobs.job import GangLayout
from extender.slurm.jobs import SlurmrestdJobs
from tests.builders.job_orders import an_allocation, an_order
from tests.builders.slurm_sites import NODES
from tests.builders.submitted_jobs import accepted, jobs_of, observed, read
from tests.contract.slurm.conftest import OpenSite

GPU = "gpu:h100"


async def fill(jobs: SlurmrestdJobs) -> list[int]:
    return [await accepted(jobs, an_allocation(f"full-{node}", cpus=8)) for node in NODES]


async def run_after(jobs: SlurmrestdJobs, job_id: int, full: Sequence[int]) -> None:
    for other in full:
        await jobs.cancel(other)
    await observed(jobs, job_id, Running)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 3)])
async def test_edge_case_34_a_waiting_gang_gets_another_number_of_nodes_and_keeps_its_age(
    open_site: OpenSite, before: int, after: int
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        full = await fill(jobs)
        job_id = await accepted(jobs, an_order("gang", members=before, cpus=4, gres={GPU: 2}))
        submitted = (await client.job(job_id)).submit_time
        request = an_order("gang", members=after, cpus=4, gres={GPU: 2}).request
        assert (await jobs.update(job_id, request, {"members"}, None)).done is True
        await run_after(jobs, job_id, full)
        job = await read(jobs, job_id)
        assert (len(job.nodes), job.cpus, job.gres) == (after, 4 * after, {GPU: 2 * after})
        assert (await client.job(job_id)).submit_time == submitted


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2)])
async def test_a_waiting_packed_gang_gets_another_number_of_tasks(open_site: OpenSite, before: int, after: int) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        full = await fill(jobs)
        pack = GangLayout.PACK
        job_id = await accepted(jobs, an_order("gang", members=before, cpus=4, gres={GPU: 1}, layout=pack))
        request = an_order("gang", members=after, cpus=4, gres={GPU: 1}, layout=pack).request
        assert (await jobs.update(job_id, request, {"members"}, None)).done is True
        await run_after(jobs, job_id, full)
        job = await read(jobs, job_id)
        assert (len(job.nodes), job.cpus, job.gres) == (-(-after // 2), 4 * after, {GPU: after})


@pytest.mark.parametrize("after", [1, 3])
async def test_a_gang_that_has_its_nodes_is_not_resized(open_site: OpenSite, after: int) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id = await accepted(jobs, an_order("gang", members=2, cpus=4))
        await observed(jobs, job_id, Running)
        request = an_order("gang", members=after, cpus=4).request
        assert (await jobs.update(job_id, request, {"members"}, None)).done is False
        job = await read(jobs, job_id)
        assert (len(job.nodes), job.cpus) == (2, 8)
