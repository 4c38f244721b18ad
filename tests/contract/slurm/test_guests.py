"""Jobs of Pods that Slurm did not place, on a simulated and on a real Slurm: external jobs on a node with slurmd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.amount import Amount, lacking
from extender.domain.guests.guest import Guest, GuestOptions, GuestOrder
from extender.domain.guests.mark import GuestMark, encode_guest_mark, guest_mark_of, guest_name
from extender.domain.jobs.job import JobView
from extender.domain.ports import Held
from extender.domain.translation.forms import UINT32_LARGEST
from extender.slurm.guests import Guests
from extender.slurm.jobs import Jobs
from extender.slurm.nodes import Nodes
from tests.builders.job_orders import an_order
from tests.builders.loop_clock import LoopClock
from tests.builders.slurm_sites import Site, until
from tests.contract.slurm.conftest import OpenSite
from tests.contract.slurm.test_placeholders import accepted

FIRST = GuestOptions(partition="batch", priority=UINT32_LARGEST)


@asynccontextmanager
async def opened(open_site: OpenSite) -> AsyncIterator[tuple[Site, Guests, Jobs, Nodes]]:
    async with open_site() as site:
        if site.release < (25, 5):
            pytest.skip("no external jobs before 25.05")
        async with site.client() as client:
            await client.negotiate()
            clock = LoopClock()
            jobs = Jobs(client, clock)
            yield site, Guests(client, jobs, clock), jobs, Nodes(client, clock)


def an_order_for(
    uid: str = "uid-1", *, cpus: int = 6, node: str = "node-1", immediate: bool = True, options: GuestOptions = FIRST
) -> GuestOrder:
    guest = Guest(uid, f"team/{uid}", node, Amount(cpus, 512, {"gpu": 1}))
    mark = encode_guest_mark(GuestMark("cluster", "slurm", uid, node, guest.size, guest.pod))
    return GuestOrder(guest, guest_name(guest.pod, "cluster", "slurm", uid), mark, options, immediate)


async def made(guests: Guests, order: GuestOrder) -> int:
    answer = await guests.hold(order)
    assert answer.result is Held.MADE, answer
    return answer.job_id


async def read(guests: Guests, job_id: int) -> JobView:
    job = await guests.read(job_id)
    assert job is not None
    return job


async def test_a_guest_holds_its_part_of_its_node_without_a_limit_and_without_a_process(open_site: OpenSite) -> None:
    async with opened(open_site) as (_, guests, _, nodes):
        order = an_order_for()
        job_id = await made(guests, order)
        job = await read(guests, job_id)
        assert (job.state, job.nodes, job.cpus, job.memory_mb, job.gres) == (
            "RUNNING",
            ("node-1",),
            6,
            512,
            {"gpu:h100": 1},
        )
        assert job.time_limit_minutes is None
        mark = guest_mark_of(job)
        assert mark is not None
        assert (mark.uid, mark.node, mark.pod) == ("uid-1", "node-1", "team/uid-1")
        # Only in the answer about all nodes; slurmctld counts it once a second.
        picture = await until(nodes.picture, lambda one: one.nodes["node-1"].used.cpus > 0, "its CPUs are counted")
        node = picture.nodes["node-1"]
        assert node.size is not None
        assert (node.size, node.used.cpus, node.used.memory_mb) == (Amount(8, 16_000, {"gpu:h100": 4}), 6, 512)
        assert lacking(Amount(2, 15_488, {"gpu": 3}), node.size, node.used).nothing
        assert lacking(Amount(3, 0, {"gpu": 4}), node.size, node.used) == Amount(1, 0, {"gpu": 1})
        assert (await guests.hold(an_order_for("uid-2"))).result is Held.NO_ROOM
        assert [found.job_id for found in await guests.find(order.name, ())] == [job_id]
        await guests.cancel(job_id)
        await until(lambda: guests.find(order.name, ()), lambda found: not found, "no live job of that name")
        assert (await read(guests, job_id)).state == "CANCELLED"


async def test_with_its_priority_it_passes_who_waits_and_without_it_does_not(open_site: OpenSite) -> None:
    async with opened(open_site) as (_, guests, jobs, _):
        await made(guests, an_order_for("full", cpus=8, node="node-2"))
        await accepted(jobs, an_order(cpus=8, required_nodes=("node-2",)))
        refused = await guests.hold(an_order_for(options=GuestOptions(partition="batch")))
        assert (refused.result, "2013" in refused.text) == (Held.NO_ROOM, True)
        assert (await read(guests, await made(guests, an_order_for()))).state == "RUNNING"


async def test_queued_while_its_node_is_drained_it_is_the_first_when_that_is_lifted(open_site: OpenSite) -> None:
    async with opened(open_site) as (site, guests, jobs, _):
        site.drain("node-1", "slurm-extender: no room")
        other = await accepted(jobs, an_order(cpus=8, required_nodes=("node-1",)))
        assert (await guests.hold(an_order_for())).result is Held.NO_ROOM
        job_id = await made(guests, an_order_for(immediate=False))
        await asyncio.sleep(1)
        assert (await read(guests, job_id)).state == "PENDING"
        site.resume("node-1")
        job = await until(lambda: read(guests, job_id), lambda one: one.state == "RUNNING", "the guest runs")
        assert job.nodes == ("node-1",)
        waits = await jobs.read(other)
        assert waits is not None
        assert waits.state == "PENDING"


async def test_a_node_that_does_not_exist_is_refused(open_site: OpenSite) -> None:
    async with opened(open_site) as (_, guests, _, _):
        answer = await guests.hold(an_order_for(node="node-9"))
        assert answer.result is Held.REFUSED, answer
