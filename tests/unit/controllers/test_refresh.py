"""Own jobs are read in turn at a fixed rate; those that Slurm warns, soon enough for the warning to be of use."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.controllers.refresh import (
    BUSY,
    NON_PLACEHOLDER_READ_INTERVAL_S,
    PreemptionWarnings,
    Refresh,
    RefreshOptions,
    warned,
)
from extender.domain.cluster import SlurmFeatures, SlurmPartition, SlurmSnapshot
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.placeholder import Placeholder, State
from extender.domain.states import PlaceholderJob
from tests.builders.placeholders import in_state

NODES = frozenset({"n1", "n2"})
BATCH = SlurmPartition("batch", NODES, default=True, grace_time_s=40, preempt_mode="CANCEL")
CALM = SlurmPartition("calm", frozenset({"n9"}), grace_time_s=40, preempt_mode="CANCEL")
URGENT = SlurmPartition("urgent", NODES, priority_tier=10)


def snapshot(*partitions: SlurmPartition) -> SlurmSnapshot:
    return SlurmSnapshot(partitions={one.name: one for one in partitions}, known=True)


def running(job_id: int, partition: str = "", state: State = State.BOUND, mode: Mode | None = None) -> Placeholder:
    request = JobRequest("t", 1, 1, partition=partition)
    return replace(in_state(state, f"u{job_id}", PlaceholderJob(job_id, mode)), submitted_request=request)


def test_jobs_that_may_be_warned_are_those_that_run_where_a_higher_tier_may_preempt_them_with_grace() -> None:
    units = [running(1), running(2, "calm"), running(3, "urgent"), running(4, state=State.WAITING), running(5, "batch")]
    assert warned(units, snapshot(BATCH, CALM, URGENT)) == PreemptionWarnings((1, 5), 3.0)


def test_a_job_whose_script_gets_the_signal_is_read_within_a_quarter_of_the_grace() -> None:
    signalled = replace(snapshot(BATCH, URGENT), features=SlurmFeatures(send_user_signal=True))
    script = running(1, mode=Mode.BATCH)
    assert warned([script], signalled) == PreemptionWarnings((1,), 10.0)
    assert warned([script, running(2, mode=Mode.EXTERNAL)], signalled).within == 3.0
    assert warned([script], snapshot(BATCH, URGENT)).within == 3.0


def test_the_shortest_grace_among_them_counts() -> None:
    short = replace(BATCH, name="short", default=False, grace_time_s=8)
    assert warned([running(1), running(2, "short")], snapshot(BATCH, short, URGENT)).within == 2.0


def test_without_grace_no_pod_is_warned() -> None:
    assert warned([running(1)], snapshot(replace(BATCH, grace_time_s=0), URGENT)) == PreemptionWarnings()


async def reads(
    jobs: set[int], of: PreemptionWarnings, seconds: float, *, busy: bool = False
) -> dict[int, list[float]]:
    loop = asyncio.get_running_loop()
    answers, room, found = asyncio.Event(), asyncio.Event(), dict[int, list[float]]()
    answers.set()
    room.set()
    began = loop.time()
    refresh = Refresh(
        lambda: jobs,
        lambda: of,
        lambda job_id: found.setdefault(job_id, []).append(loop.time() - began),
        answers,
        RefreshOptions(),
        room=room,
        busy=lambda: busy,
    )
    task = asyncio.create_task(refresh.run())
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()
    await asyncio.wait((task,))
    return found


@pytest.mark.looptime
async def test_those_that_may_be_warned_are_read_within_a_quarter_of_their_grace_among_many_others() -> None:
    found = await reads(set(range(400)), PreemptionWarnings(tuple(range(50)), 5.0), 60.0)
    for job_id in range(50):
        pauses = [after - before for before, after in zip(found[job_id], found[job_id][1:], strict=False)]
        assert max(pauses) <= 5.5
    assert sum(map(len, found.values())) <= 60 * (10 + 10) + 20


@pytest.mark.looptime
async def test_a_great_many_of_them_stay_within_a_rate_of_their_own() -> None:
    found = await reads(set(range(2000)), PreemptionWarnings(tuple(range(2000)), 1.0), 20.0)
    assert sum(map(len, found.values())) <= 20 * (10 + 40) + 50


@pytest.mark.looptime
async def test_few_jobs_are_read_once_a_second_and_no_more() -> None:
    found = await reads({1, 2}, PreemptionWarnings((1, 2), 10.0), 10.0)
    assert 8 <= len(found[1]) <= 11


@pytest.mark.looptime
async def test_while_much_is_to_be_done_fewer_are_read_in_turn_but_those_that_may_be_warned_as_ever() -> None:
    found = await reads(set(range(400)), PreemptionWarnings(tuple(range(200, 250)), 5.0), 60.0, busy=True)
    assert sum(len(at) for job_id, at in found.items() if job_id < 200) <= 60 * 10 / BUSY + 1
    assert min(len(found[job_id]) for job_id in range(200, 250)) >= 60 / 5.5


@pytest.mark.looptime
@pytest.mark.parametrize("shut", ["answers", "room"])
async def test_jobs_of_others_that_are_read_while_placeholders_are_not_take_nothing_from_those_afterwards(
    shut: str,
) -> None:
    loop = asyncio.get_running_loop()
    waits = {"answers": asyncio.Event(), "room": asyncio.Event()}
    for name in waits.keys() - {shut}:
        waits[name].set()
    found: list[float] = []
    refresh = Refresh(
        lambda: range(200),
        PreemptionWarnings,
        lambda _job_id: found.append(loop.time()),
        waits["answers"],
        RefreshOptions(),
        room=waits["room"],
    )
    task = asyncio.create_task(refresh.run())
    for _ in range(720):
        await asyncio.sleep(NON_PLACEHOLDER_READ_INTERVAL_S)
        refresh.give_way()
    assert not found
    waits[shut].set()
    await asyncio.wait((task,), timeout=10.0)
    task.cancel()
    await asyncio.wait((task,))
    assert len(found) >= 99


def test_jobs_of_others_take_a_quarter_of_the_rate_at_most_and_are_read_no_more_often_than_each_five_seconds() -> None:
    assert [RefreshOptions(rate).non_placeholder_read_interval_s for rate in (0.2, 0.8, 10.0, 1000.0)] == [
        20.0,
        5.0,
        5.0,
        5.0,
    ]
