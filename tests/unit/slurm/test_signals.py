"""Signals that are asked for while others are under way go out together, and each job gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from extender.slurm.signals import APART, FRESH_S, MOST, UNDER_WAY, Signals
from slurmclient import CancelStatus, ConnectError, OutcomeUnknownError, SlurmError, TransportError

pytestmark = pytest.mark.looptime


class Slurm:
    """Answers after a second; even jobs are over already."""

    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.now = self.most = 0
        self.seconds = 1.0
        self.fails: SlurmError | None = None

    async def __call__(self, jobs: Sequence[int]) -> Sequence[CancelStatus]:
        self.requests.append(list(jobs))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        if self.fails is not None:
            raise self.fails
        return [CancelStatus(job_id=job, code=0 if job % 2 else 2021, message="") for job in jobs]


async def code(signals: Signals, job_id: int) -> int:
    (found,) = [status.code for status in await signals.signal(job_id) if status.job_id == job_id]
    return found


async def test_one_job_is_signalled_at_once_and_alone() -> None:
    slurm = Slurm()
    assert await code(Signals(slurm), 4) == 2021
    assert slurm.requests == [[4]]


async def test_those_that_come_meanwhile_go_out_together_and_each_gets_its_own_answer() -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    codes = await asyncio.gather(*(code(signals, job) for job in range(1, 21)))
    assert codes == [0, 2021] * 10
    assert [len(jobs) for jobs in slurm.requests] == [1, 19]
    assert sorted(job for jobs in slurm.requests for job in jobs) == list(range(1, 21))
    assert await code(signals, 30) == 2021, "nothing is left behind"


async def test_what_comes_one_after_the_other_goes_out_a_few_times_a_second() -> None:
    slurm = Slurm()
    slurm.seconds = 0.005
    signals = Signals(slurm)
    signalled = []
    for job in range(1, 101):
        signalled.append(asyncio.create_task(code(signals, job)))
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*signalled) == [0, 2021] * 50
    assert 1.0 / APART <= len(slurm.requests) <= 1.0 / APART + 2
    assert sorted(job for jobs in slurm.requests for job in jobs) == list(range(1, 101))


async def test_no_more_than_two_requests_are_under_way_and_who_comes_then_waits_for_one_of_them() -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    signalled = []
    for job in range(1, 21):
        signalled.append(asyncio.create_task(code(signals, job)))
        await asyncio.sleep(0.1)
    await asyncio.gather(*signalled)
    assert slurm.most == UNDER_WAY
    assert len(slurm.requests) <= 8


async def test_who_gathers_others_and_is_cancelled_leaves_the_turn_to_the_next() -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    tasks = [asyncio.create_task(signals.signal(job)) for job in range(1, 5)]
    await asyncio.sleep(APART / 2)
    assert slurm.requests == [[1]]
    tasks[1].cancel()
    await asyncio.gather(tasks[0], *tasks[2:])
    assert slurm.requests == [[1], [3, 4]]
    assert await code(signals, 7) == 0


async def test_one_request_has_a_bounded_number_of_jobs() -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    await asyncio.gather(*(code(signals, job) for job in range(1, 301)))
    assert sorted(job for jobs in slurm.requests for job in jobs) == list(range(1, 301))
    assert max(map(len, slurm.requests)) == MOST


async def test_a_request_that_fails_fails_for_all_of_its_jobs_and_the_next_continues() -> None:
    slurm = Slurm()
    slurm.fails = TransportError("cut", endpoint="DELETE /jobs")
    signals = Signals(slurm)
    failed = await asyncio.gather(*(signals.signal(job) for job in range(1, 6)), return_exceptions=True)
    assert [type(error) for error in failed] == [TransportError] * 5
    slurm.fails = None
    assert await code(signals, 1) == 0


async def test_who_sends_for_others_and_is_cancelled_leaves_them_without_an_answer_and_the_place_free() -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    tasks = [asyncio.create_task(signals.signal(job)) for job in range(1, 7)]
    await asyncio.sleep(0.5)
    assert slurm.requests[1] == [2, 3, 4, 5, 6]
    tasks[1].cancel()
    found = await asyncio.gather(*tasks[2:], return_exceptions=True)
    assert [type(error) for error in found] == [OutcomeUnknownError] * 4
    assert await code(signals, 7) == 0


@pytest.mark.parametrize("after", [0.5, 1.0])
async def test_a_cancelled_waiter_keeps_no_other_waiting(after: float) -> None:
    slurm = Slurm()
    signals = Signals(slurm)
    tasks = [asyncio.create_task(signals.signal(job)) for job in (1, 2)]
    await asyncio.sleep(0.1)
    tasks += [asyncio.create_task(signals.signal(job)) for job in (3, 4, 5)]
    await asyncio.sleep(after - 0.1)
    assert slurm.requests == [[1], [2]]
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert {4, 5} <= {job for jobs in slurm.requests for job in jobs}
    assert await code(signals, 9) == 0


async def test_what_waited_for_too_long_is_not_sent_since_its_id_may_be_another_jobs_by_now() -> None:
    slurm = Slurm()
    slurm.seconds = 2 * FRESH_S
    signals = Signals(slurm)
    first = [asyncio.create_task(signals.signal(1))]
    await asyncio.sleep(1.0)
    first.append(asyncio.create_task(signals.signal(2)))
    await asyncio.sleep(1.0)
    stale = asyncio.create_task(signals.signal(3))
    await asyncio.sleep(FRESH_S)
    fresh = asyncio.create_task(signals.signal(4))
    with pytest.raises(ConnectError, match="not sent"):
        await stale
    await asyncio.gather(*first, fresh)
    assert slurm.requests == [[1], [2], [4]]
    assert await code(signals, 5) == 0, "no place is lost"
