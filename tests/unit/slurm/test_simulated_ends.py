"""How the simulated Slurm ends jobs and holds nodes; the numbers were seen on 24.11 and 26.05."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from looptime import LoopTimeProxy

from simulator.slurm.job_lifecycle import ControllerScript, NodeScript, Scripts, SimConfig
from simulator.slurm.records import SimJob, SimNode, SimPartition
from simulator.slurm.release import SimRelease
from simulator.slurm.slurmctld import Slurmctld
from tests.builders.slurm_sites import until

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def a_controller(
    nodes: int = 1,
    grace_s: int = 0,
    config: SimConfig | None = None,
    epilog: NodeScript | None = None,
    prolog: NodeScript | None = None,
    prolog_slurmctld: ControllerScript | None = None,
    post_hook: Callable[[str, str], Awaitable[int]] | None = None,
    preempt_mode: str = "CANCEL",
) -> AsyncIterator[Slurmctld]:
    machines = [SimNode(f"node-{number}", cpus=8) for number in range(1, nodes + 1)]
    partitions = [
        SimPartition("low", default=True, grace_time_s=grace_s, preempt_mode=preempt_mode),
        SimPartition("high", priority_tier=10),
    ]
    scripts = Scripts(prolog, epilog, prolog_slurmctld)
    controller = Slurmctld(
        SimRelease("26.05.5"), machines, partitions, config=config, scripts=scripts, post_hook=post_hook
    )
    try:
        yield controller
    finally:
        await controller.aclose()


def a_job(partition: str = "low", script: str | None = None, limit_s: float | None = None) -> SimJob:
    """A job that fills a node."""
    return SimJob(
        job_id=0,
        name="job",
        user_id=0,
        group_id=0,
        user_name="root",
        partition=partition,
        submit_time=0.0,
        cpus_per_node=8,
        node_count=1,
        memory_mb=100,
        gres={},
        time_limit_s=limit_s,
        script=script,
        environment={"SLURM_EXTENDER_HOOKS": "http://hooks", "SLURM_EXTENDER_WAIT": "20"} if script else {},
        warns_script=script is not None,
    )


def allocated(controller: Slurmctld, **wishes: str | float) -> SimJob:
    job = a_job(**wishes)  # type: ignore[arg-type]  # fields by name
    controller.allocate(job)
    assert job.running
    return job


def queued(controller: Slurmctld, **wishes: str | float) -> SimJob:
    job = a_job(**wishes)  # type: ignore[arg-type]  # fields by name
    controller.submit(job)
    return job


async def started(job: SimJob) -> None:
    async def check() -> bool:
        return job.running

    await until(check, lambda running: running, "it runs", tries=10_000)


async def test_an_epilog_holds_its_node(looptime: LoopTimeProxy) -> None:
    async def epilog(job: SimJob, node: str) -> int:
        await asyncio.sleep(7.0)
        return 0

    async with a_controller(epilog=epilog) as controller:
        controller.cancel(allocated(controller).job_id)
        await started(queued(controller))
        assert 7.0 < looptime < 7.5


async def a_minute(*_: object) -> int:
    await asyncio.sleep(60.0)
    return 0


async def test_a_prolog_keeps_its_job_from_starting_and_the_job_says_so(looptime: LoopTimeProxy) -> None:
    calls: list[str] = []

    async def note(url: str, token: str) -> int:
        calls.append(url)
        return 200

    async with a_controller(prolog=a_minute, post_hook=note) as controller:
        job = queued(controller, script="#!/bin/bash")
        await asyncio.sleep(50.0)
        assert (job.words, job.reason, calls) == (["RUNNING"], "Prolog", [])
        await asyncio.sleep(11.0)
        assert (job.words, job.reason, len(calls)) == (["RUNNING"], "None", 1)


async def test_a_prolog_of_slurmctld_keeps_jobs_configuring_and_external_ones_too() -> None:
    async with a_controller(prolog_slurmctld=a_minute) as controller:
        job = queued(controller)
        job.external = True
        await asyncio.sleep(50.0)
        assert job.words == ["RUNNING", "CONFIGURING"]
        await asyncio.sleep(11.0)
        assert (job.words, job.reason) == (["RUNNING"], "None")


async def test_a_job_that_is_cancelled_in_its_prolog_keeps_the_node_until_that_has_ended(
    looptime: LoopTimeProxy,
) -> None:
    async with a_controller(prolog=a_minute) as controller:
        controller.cancel(allocated(controller).job_id)
        await started(queued(controller))
        assert 60.0 < looptime < 61.0


async def test_a_failed_prolog_drains_its_node_and_holds_a_batch_job() -> None:
    async def fail(job: SimJob, node: str) -> int:
        return 1

    async with a_controller(prolog=fail) as controller:
        job = queued(controller, script="#!/bin/bash")
        await asyncio.sleep(5.0)
        assert (controller.nodes["node-1"].reason, job.state, job.reason) == (
            "Prolog error",
            "PENDING",
            "launch failed requeued held",
        )


async def test_a_failed_prolog_of_slurmctld_cancels_what_has_no_script() -> None:
    async def fail(job: SimJob) -> int:
        return 1

    async with a_controller(prolog_slurmctld=fail) as controller:
        job = queued(controller)
        await asyncio.sleep(5.0)
        assert job.state == "CANCELLED"


async def test_a_failed_epilog_drains_its_node() -> None:
    async def epilog(job: SimJob, node: str) -> int:
        return 1

    async with a_controller(epilog=epilog) as controller:
        controller.cancel(allocated(controller).job_id)
        await asyncio.sleep(1.0)
        assert (controller.nodes["node-1"].drained, controller.nodes["node-1"].reason) == (True, "Epilog error")


async def test_a_lost_node_runs_no_epilog_and_its_job_has_ended_at_once() -> None:
    messaged: list[str] = []

    async def epilog(job: SimJob, node: str) -> int:
        messaged.append(node)
        return 0

    async with a_controller(epilog=epilog) as controller:
        job = allocated(controller)
        controller.set_down("node-1")
        assert (job.state, job.flags) == ("NODE_FAIL", set())
        await asyncio.sleep(60.0)
        assert messaged == []


async def test_a_slow_end_costs_a_further_victim_every_quarter_of_a_minute() -> None:
    async def stuck(job: SimJob, node: str) -> int:
        await asyncio.sleep(3600.0)
        return 0

    async with a_controller(nodes=4, epilog=stuck) as controller:
        low = [allocated(controller) for _ in range(4)]
        queued(controller, partition="high")

        def preempted() -> int:
            return sum(job.state == "PREEMPTED" for job in low)

        await asyncio.sleep(1.0)
        assert preempted() == 1
        await asyncio.sleep(16.0)
        assert preempted() == 2


async def test_grace_warns_one_victim_and_kills_it_late() -> None:
    async with a_controller(nodes=2, grace_s=15) as controller:
        low = [allocated(controller) for _ in range(2)]
        high = queued(controller, partition="high")
        await asyncio.sleep(1.0)
        (victim,) = [job for job in low if job.preempt_time]
        assert victim.running
        assert victim.end_time == victim.preempt_time + 15
        await started(high)
        assert victim.state == "PREEMPTED"
        assert victim.end_time - victim.preempt_time >= 15
        assert [job.state for job in low if job is not victim] == ["RUNNING"]


async def test_a_victim_that_leaves_early_lets_the_preemptor_in_at_once() -> None:
    async with a_controller(grace_s=40) as controller:
        victim = allocated(controller)
        high = queued(controller, partition="high")
        await asyncio.sleep(12.0)
        controller.cancel(victim.job_id)
        await asyncio.sleep(0.3)
        assert high.running


async def test_preemption_by_requeue_keeps_the_id_of_a_batch_job() -> None:
    async def silent(url: str, token: str) -> int:
        return 200

    async with a_controller(preempt_mode="REQUEUE", post_hook=silent) as controller:
        batch = queued(controller, script="#!/bin/bash")
        await started(batch)
        await started(queued(controller, partition="high"))
        assert (batch.state, batch.restart_count, batch.reason) == ("PENDING", 1, "BeginTime")


async def test_a_time_limit_is_enforced_late() -> None:
    async with a_controller() as controller:
        job = allocated(controller, limit_s=60.0)
        await asyncio.sleep(60.5)
        assert job.running
        await asyncio.sleep(30.0)
        assert job.state == "TIMEOUT"


async def test_a_script_that_waits_is_killed_after_kill_wait() -> None:
    calls: list[str] = []

    async def never(url: str, token: str) -> int:
        calls.append(url.rpartition("/")[2].partition("=")[0])
        return 202

    async with a_controller(config=SimConfig(kill_wait_s=5.0), post_hook=never) as controller:
        job = queued(controller, script="#!/bin/bash")
        await started(job)
        controller.cancel(job.job_id)
        await asyncio.sleep(4.5)
        assert "COMPLETING" in job.flags
        await asyncio.sleep(1.0)
        assert job.flags == set()
        assert calls[0] == "started"
        assert set(calls[1:]) == {"teardown?wait"}


async def test_a_script_is_warned_of_a_preemption_where_slurm_sends_its_signal() -> None:
    calls: list[str] = []

    async def note(url: str, token: str) -> int:
        calls.append(url.rpartition("/")[2])
        return 200

    async with a_controller(grace_s=20, config=SimConfig(send_user_signal=True), post_hook=note) as controller:
        job = queued(controller, script="#!/bin/bash")
        await started(job)
        queued(controller, partition="high")
        await asyncio.sleep(1.0)
        assert calls == ["started", "teardown?wait=0"]
        assert job.running


async def test_a_forgotten_job_ends_nothing_of_the_job_that_has_its_number_now() -> None:
    calls: list[str] = []
    told: list[str] = []

    async def hook(url: str, _token: str) -> int:
        calls.append(url)
        return 200

    async with a_controller(post_hook=hook, grace_s=20) as controller:
        forgotten = queued(controller, script="sleep", limit_s=60.0)
        await started(forgotten)
        queued(controller, partition="high")
        await asyncio.sleep(2)
        assert forgotten.preempt_time
        controller.forget(*list(controller.jobs))
        controller.listeners.append(lambda what, _job: told.append(what))
        other = queued(controller, script="sleep")
        assert other.job_id == forgotten.job_id
        await started(other)
        await asyncio.sleep(300)
        assert other.running
        assert set(told) == {"submitted", "started", "launched"}
        assert not [url for url in calls if "teardown" in url]


async def test_the_time_limit_of_a_job_that_an_older_state_brings_back_still_holds() -> None:
    async with a_controller() as controller:
        job = queued(controller, limit_s=120.0)
        await started(job)
        saved = controller.save()
        controller.cancel(job.job_id)
        await asyncio.sleep(30)
        controller.restore(saved)
        (back,) = controller.jobs.values()
        assert back.running
        await asyncio.sleep(80)
        assert back.running
        await asyncio.sleep(60)
        assert back.state == "TIMEOUT"
