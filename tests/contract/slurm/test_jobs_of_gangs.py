"""What Slurm does with a job of several nodes: one that fails, nodes that are returned, and blocks of nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.domain.events import EndKind, ShrinkAnswered, Unshrinkable
from extender.domain.job_outcomes.slurm_states import Ended, Running, Waiting
from extender.domain.jobs.job import JobOrder, Mode, OnNodeFailure
from extender.slurm.jobs import SlurmrestdJobs
from lab.slurm import Partition, Slurm, SlurmNode
from slurmclient import JobDescription, SlurmClient, SlurmError, StaticToken
from tests.builders.job_orders import an_order
from tests.builders.slurm_sites import NODES, LabSite, until
from tests.builders.submitted_jobs import accepted, jobs_of, observed, read, refused, seen
from tests.contract.slurm.conftest import OpenSite

NOT_SUPPORTED = 2036
"""ESLURM_NOT_SUPPORTED (slurm_errno.h)."""

NO_SUCH_TOPOLOGY = 2178
"""ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE."""

each_mode = pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.BATCH])


def spread(mode: Mode, on_node_failure: OnNodeFailure | None = None) -> JobOrder:
    """Order every node, each for a member of its own."""
    at_once = mode is Mode.ALLOCATION
    return an_order(mode=mode, immediate=at_once, members=len(NODES), cpus=8, on_node_failure=on_node_failure)


async def running(jobs: SlurmrestdJobs, order: JobOrder) -> tuple[int, tuple[str, ...]]:
    """Wait until the job of this order runs; return its number and its nodes."""
    job_id = await accepted(jobs, order)
    await observed(jobs, job_id, Running)
    return job_id, (await read(jobs, job_id)).nodes


@each_mode
async def test_a_job_of_several_nodes_ends_as_a_whole_with_one_that_is_down(open_site: OpenSite, mode: Mode) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id, nodes = await running(jobs, spread(mode))
        site.set_down(nodes[1])
        assert (await observed(jobs, job_id, Ended)).kind is EndKind.NODE_FAILURE


@each_mode
@pytest.mark.parametrize("lost", [0, 1], ids=["first node", "another node"])
async def test_a_job_that_may_lose_nodes_runs_on_without_one_that_is_down(
    open_site: OpenSite, mode: Mode, lost: int
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id, nodes = await running(jobs, spread(mode, OnNodeFailure.KEEP))
        assert len(nodes) == len(NODES)
        if mode is Mode.BATCH:
            await site.script_runs(job_id)
        site.set_down(nodes[lost])
        if mode is Mode.BATCH and lost == 0 and site.release < (26, 5):  # its script was there
            assert (await observed(jobs, job_id, Ended)).kind is EndKind.FAILED
            if isinstance(site, LabSite):
                assert (await read(jobs, job_id)).reason.startswith("RaisedSignal")
            return
        left = (*nodes[:lost], *nodes[lost + 1 :])
        await until(lambda: read(jobs, job_id), lambda one: one.nodes == left, "the node leaves the job")
        assert isinstance(await seen(jobs, job_id), Running)


@each_mode
async def test_a_site_that_forbids_shrinking_refuses_it_for_every_job_by_its_number(
    open_site: OpenSite, mode: Mode
) -> None:
    async with open_site() as site, site.client() as client:
        jobs = jobs_of(client)
        job_id, nodes = await running(jobs, spread(mode))
        async with site.without_shrinking():
            answer = await jobs.shrink(job_id, nodes[:2])
            assert (answer.done, answer.refused_for) == (False, Unshrinkable.SITE)
            with pytest.raises(SlurmError) as error:
                await client.update_job(job_id, JobDescription(required_nodes=nodes[:2]))
            assert error.value.slurm_errno == NOT_SUPPORTED
            assert (await read(jobs, job_id)).nodes == nodes
        assert await jobs.shrink(job_id, nodes[:2]) == ShrinkAnswered(job_id, True)
        assert (await read(jobs, job_id)).nodes == nodes[:2]


async def test_a_user_who_may_not_change_the_job_can_shrink_none(open_site: OpenSite) -> None:
    async with open_site() as site, site.client() as client, site.client("alice") as other:
        jobs = jobs_of(client)
        job_id, nodes = await running(jobs, spread(Mode.ALLOCATION))
        answer = await jobs_of(other).shrink(job_id, nodes[:2])
        assert (answer.done, answer.refused_for) == (False, Unshrinkable.SITE)
        assert (await read(jobs, job_id)).nodes == nodes


BLOCK_1, BLOCK_2 = (tuple(f"ext-{number}" for number in numbers) for numbers in (range(1, 5), range(5, 9)))
BLOCKS = "BlockName=b1 Nodes=ext-[1-4]\nBlockName=b2 Nodes=ext-[5-8]\nBlockSizes=4\n"


@pytest.fixture(scope="module", params=[pytest.param("26.05", id="lab-26.05", marks=pytest.mark.lab)])
def blocks(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """A Slurm with two blocks of four external nodes. The simulator knows no topology."""
    with Slurm(
        release=request.param,
        external_nodes=[SlurmNode(name, cpus=8, memory_mb=16_000) for name in (*BLOCK_1, *BLOCK_2)],
        partitions=[Partition("batch", default=True)],
        config={"TopologyPlugin": "topology/block"},
        files={"topology.conf": BLOCKS},
    ) as slurm:
        yield slurm


def segmented(workload: str, members: int, segment: int | None = None, excluded: tuple[str, ...] = ()) -> JobOrder:
    """Order whole external nodes for so many members."""
    return an_order(workload, mode=Mode.EXTERNAL, excluded=excluded, members=members, segment=segment, cpus=8)


async def test_the_nodes_of_each_segment_of_a_gang_are_in_one_block(blocks: Slurm) -> None:
    async with SlurmClient([blocks.rest_url], StaticToken(blocks.token("root"))) as client:
        jobs = jobs_of(client)
        made = [await running(jobs, segmented("thirds", 6, 3))]
        assert [len({*made[0][1]} & {*block}) for block in (BLOCK_1, BLOCK_2)] == [3, 3]
        await jobs.cancel(made.pop()[0])

        for block in (BLOCK_1, BLOCK_2):  # one node of each is occupied
            others = tuple(name for name in (*BLOCK_1, *BLOCK_2) if name != block[0])
            made.append(await running(jobs, segmented(f"in {block[0]}", 1, excluded=others)))
        halves, nodes = await running(jobs, segmented("halves", 4, 2))
        assert [len({*nodes} & {*block}) for block in (BLOCK_1, BLOCK_2)] == [2, 2]
        await jobs.cancel(halves)

        whole = await accepted(jobs, segmented("whole", 4, 4))
        await until(lambda: read(jobs, whole), lambda one: one.reason not in {"", "None"}, "Slurm has tried it")
        assert isinstance(await seen(jobs, whole), Waiting)
        await jobs.cancel(made[1][0])
        await observed(jobs, whole, Running)
        assert (await read(jobs, whole)).nodes == BLOCK_2
        for job_id in (made[0][0], whole):
            await jobs.cancel(job_id)


async def test_a_gang_that_is_no_multiple_of_its_segment_is_refused(blocks: Slurm) -> None:
    async with SlurmClient([blocks.rest_url], StaticToken(blocks.token("root"))) as client:
        assert (await refused(jobs_of(client), segmented("odd", 7, 4))).number == NO_SUCH_TOPOLOGY
