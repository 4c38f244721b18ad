"""Jobs of Pods that Slurm did not place, on a simulated and on a real Slurm: external jobs on a node with slurmd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.amount import Amount, lacking
from extender.domain.foreign_pods.foreign_pod import ForeignPod, ForeignPodOptions, ForeignPodOrder
from extender.domain.foreign_pods.mark import (
    ForeignPodMark,
    encode_foreign_pod_mark,
    foreign_pod_mark_of,
    foreign_pod_name,
)
from extender.domain.jobs.job import JobView
from extender.domain.ports import ForeignPodJobResult
from extender.domain.translation.forms import UINT32_LARGEST
from extender.slurm.foreign_pods import SlurmrestdForeignPods
from extender.slurm.jobs import SlurmrestdJobs
from extender.slurm.nodes import SlurmrestdNodes
from tests.builders.job_orders import an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import Site, until
from tests.builders.submitted_jobs import accepted
from tests.contract.slurm.conftest import OpenSite

FIRST = ForeignPodOptions(partition="batch", priority=UINT32_LARGEST)


@asynccontextmanager
async def opened(
    open_site: OpenSite,
) -> AsyncIterator[tuple[Site, SlurmrestdForeignPods, SlurmrestdJobs, SlurmrestdNodes]]:
    async with open_site() as site:
        if site.release < (25, 5):
            pytest.skip("no external jobs before 25.05")
        async with site.client() as client:
            await client.negotiate()
            clock = LoopClock()
            jobs = SlurmrestdJobs(client, clock)
            yield site, SlurmrestdForeignPods(client, jobs, clock), jobs, SlurmrestdNodes(client, clock)


def an_order_for(
    uid: str = "uid-1",
    *,
    cpus: int = 6,
    node: str = "node-1",
    immediate: bool = True,
    options: ForeignPodOptions = FIRST,
) -> ForeignPodOrder:
    foreign_pod = ForeignPod(uid, f"team/{uid}", node, Amount(cpus, 512, {"gpu": 1}))
    mark = encode_foreign_pod_mark(ForeignPodMark("cluster", "slurm", uid, node, foreign_pod.size, foreign_pod.pod))
    return ForeignPodOrder(
        foreign_pod, foreign_pod_name(foreign_pod.pod, "cluster", "slurm", uid), mark, options, immediate
    )


async def made(foreign_pods: SlurmrestdForeignPods, order: ForeignPodOrder) -> int:
    answer = await foreign_pods.hold(order)
    assert answer.result is ForeignPodJobResult.MADE, answer
    return answer.job_id


async def read(jobs: SlurmrestdJobs, job_id: int) -> JobView:
    job = await jobs.read(job_id)
    assert job is not None
    return job


async def test_a_foreign_pod_holds_its_part_of_its_node_without_a_limit_and_without_a_process(
    open_site: OpenSite,
) -> None:
    async with opened(open_site) as (_, foreign_pods, jobs, nodes):
        order = an_order_for()
        job_id = await made(foreign_pods, order)
        job = await read(jobs, job_id)
        assert (job.state, job.nodes, job.cpus, job.memory_mb, job.gres) == (
            "RUNNING",
            ("node-1",),
            6,
            512,
            {"gpu:h100": 1},
        )
        assert job.time_limit_minutes is None
        mark = foreign_pod_mark_of(job)
        assert mark is not None
        assert (mark.uid, mark.node, mark.pod) == ("uid-1", "node-1", "team/uid-1")
        # Only in the answer about all nodes; slurmctld counts it once a second.
        snapshot = await until(nodes.snapshot, lambda one: one.nodes["node-1"].used.cpus > 0, "its CPUs are counted")
        node = snapshot.nodes["node-1"]
        assert node.size is not None
        assert (node.size, node.used.cpus, node.used.memory_mb) == (Amount(8, 16_000, {"gpu:h100": 4}), 6, 512)
        assert lacking(Amount(2, 15_488, {"gpu": 3}), node.size, node.used).nothing
        assert lacking(Amount(3, 0, {"gpu": 4}), node.size, node.used) == Amount(1, 0, {"gpu": 1})
        assert (await foreign_pods.hold(an_order_for("uid-2"))).result is ForeignPodJobResult.NO_ROOM
        assert [found.job_id for found in await foreign_pods.find(order.name, ())] == [job_id]
        await jobs.cancel(job_id)
        await until(lambda: foreign_pods.find(order.name, ()), lambda found: not found, "no live job of that name")
        assert (await read(jobs, job_id)).state == "CANCELLED"


async def test_with_its_priority_it_passes_who_waits_and_without_it_does_not(open_site: OpenSite) -> None:
    async with opened(open_site) as (_, foreign_pods, jobs, _):
        await made(foreign_pods, an_order_for("full", cpus=8, node="node-2"))
        await accepted(jobs, an_order(cpus=8, required_nodes=("node-2",)))
        refused = await foreign_pods.hold(an_order_for(options=ForeignPodOptions(partition="batch")))
        assert (refused.result, "2013" in refused.text) == (ForeignPodJobResult.NO_ROOM, True)
        assert (await read(jobs, await made(foreign_pods, an_order_for()))).state == "RUNNING"


async def test_queued_while_its_node_is_drained_it_is_the_first_when_that_is_lifted(open_site: OpenSite) -> None:
    async with opened(open_site) as (site, foreign_pods, jobs, _):
        site.drain("node-1", "slurm-extender: no room")
        other = await accepted(jobs, an_order(cpus=8, required_nodes=("node-1",)))
        assert (await foreign_pods.hold(an_order_for())).result is ForeignPodJobResult.NO_ROOM
        job_id = await made(foreign_pods, an_order_for(immediate=False))
        await asyncio.sleep(1)
        assert (await read(jobs, job_id)).state == "PENDING"
        site.resume("node-1")
        job = await until(lambda: read(jobs, job_id), lambda one: one.state == "RUNNING", "the foreign Pod runs")
        assert job.nodes == ("node-1",)
        waits = await jobs.read(other)
        assert waits is not None
        assert waits.state == "PENDING"


async def test_a_node_that_does_not_exist_is_refused(open_site: OpenSite) -> None:
    async with opened(open_site) as (_, foreign_pods, _, _):
        answer = await foreign_pods.hold(an_order_for(node="node-9"))
        assert answer.result is ForeignPodJobResult.REFUSED, answer
