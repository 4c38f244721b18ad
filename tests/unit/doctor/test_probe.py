"""The probe's job: what becomes of it is told, and it is never left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.assembly.io_context import LoopClock
from extender.config.load import parse
from extender.doctor.gather.probe import submit_probe
from extender.doctor.tools import ONCE, Tools
from extender.slurm.probe_script import NAME
from simulator.network.memory import Network
from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimNode, SimPartition
from simulator.slurm.service import SimSlurm, simulated_slurm
from slurmclient import SlurmClient, StaticToken
from slurmclient.auth import TokenSource

pytestmark = pytest.mark.looptime
CONFIG = parse(
    "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: t}\n"
    "hooks: {bind: ':8000', url: 'http://h:8000'}\n",
    "test",
)


@asynccontextmanager
async def a_slurm() -> AsyncIterator[tuple[SimSlurm, Tools]]:
    """One node; its jobs run the placeholder's script, which does not end by itself."""
    network = Network()

    def client(address: str, token: TokenSource) -> SlurmClient:
        return SlurmClient([address], token, dial=network.dial, retry=ONCE)

    async with simulated_slurm(
        network, nodes=[SimNode("n1", cpus=8, memory_mb=1000)], partitions=[SimPartition("batch", default=True)]
    ) as slurm:
        yield slurm, Tools(StaticToken("t"), client, LoopClock())


async def test_a_probe_that_does_not_end_is_cancelled() -> None:
    async with a_slurm() as (slurm, tools):
        found = await submit_probe(CONFIG, tools, "http://slurm:6820", "", 5.0)
        [job] = slurm.controller.known_jobs()
        assert (job.name.startswith(f"{NAME}-"), job.state) == (True, "CANCELLED")
        assert (found.job_id, found.code, found.state) == (job.job_id, None, "RUNNING")


async def test_a_probe_that_waits_is_cancelled_with_the_reason_reported() -> None:
    async with a_slurm() as (slurm, tools):
        slurm.controller.drain("n1", "away")
        found = await submit_probe(CONFIG, tools, "http://slurm:6820", "", 5.0)
        assert (found.state, found.code) == ("PENDING", None)
        assert found.reason
        assert slurm.controller.known_jobs()[0].state == "CANCELLED"


async def test_a_probe_that_has_ended_shows_its_exit_code_and_node() -> None:
    async with a_slurm() as (slurm, tools):
        probing = asyncio.create_task(submit_probe(CONFIG, tools, "http://slurm:6820", "batch", 60.0))
        await asyncio.sleep(5.0)
        [job] = slurm.controller.known_jobs()
        slurm.controller.end(job.job_id, "COMPLETED")
        found = await probing
        assert (found.state, found.node, found.code) == ("COMPLETED", "n1", 0)


async def test_a_partition_that_is_not_there_is_said_in_slurm_s_words() -> None:
    async with a_slurm() as (slurm, tools):
        found = await submit_probe(CONFIG, tools, "http://slurm:6820", "nowhere", 5.0)
        assert "Invalid partition" in found.error
        assert not slurm.controller.known_jobs()


async def test_a_probe_whose_answer_is_lost_is_cancelled_by_its_name() -> None:
    async with a_slurm() as (slurm, tools):
        slurm.restd.faults.add(SlurmFault.LOSE_ANSWER, "POST", "/job/submit", times=1)
        found = await submit_probe(CONFIG, tools, "http://slurm:6820", "", 5.0)
        assert "it is cancelled, if it was made" in found.error
        assert [job.state for job in slurm.controller.known_jobs()] == ["CANCELLED"]


@pytest.mark.parametrize("after", [0.0, 0.001, 0.01, 0.1, 3.0])
async def test_a_caller_may_be_stopped_at_any_moment(after: float) -> None:
    async with a_slurm() as (slurm, tools):
        probing = asyncio.create_task(submit_probe(CONFIG, tools, "http://slurm:6820", "", 60.0))
        await asyncio.sleep(after)
        probing.cancel()
        await asyncio.wait([probing])
        await asyncio.sleep(5.0)
        assert {job.state for job in slurm.controller.known_jobs()} <= {"CANCELLED"}


async def test_slurm_ends_a_probe_without_a_waiter() -> None:
    async with a_slurm() as (slurm, tools):
        await submit_probe(CONFIG, tools, "http://slurm:6820", "", 5.0, ahead_s=1000.0)
        [job] = slurm.controller.known_jobs()
        left = job.deadline - tools.clock.wall()
        assert 1000 + 5 + 120 <= left <= 1000 + 5 + 120 + 120
