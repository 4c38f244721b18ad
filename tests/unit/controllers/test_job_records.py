"""Ends of jobs reach the accounting of Slurm where it is there, and cost nothing where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.controllers.job_records import AGAIN_AFTER, DROP_AFTER_S, FIRST_AFTER, MOST, JobRecordController
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.ports import PortError, Recorded
from extender.runtime.topics import WorkloadEnded
from tests.builders.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


class Records:
    """Answers in turn, the last one from then on."""

    def __init__(self, *answers: Recorded | PortError) -> None:
        self.ends_read: list[int] = []
        self._answers = list(answers)

    async def record(self, end: WorkloadEnd) -> Recorded:
        self.ends_read.append(end.job_id)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, PortError):
            raise answer
        return answer


@asynccontextmanager
async def running(records: Records) -> AsyncIterator[JobRecordController]:
    controller = JobRecordController(records, LoopClock())
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    try:
        yield controller
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def ended(job_id: int) -> WorkloadEnded:
    return WorkloadEnded(WorkloadEnd(job_id, f"pod-{job_id}", 0, "Pod ns/a Succeeded"))


async def test_an_end_is_written_a_while_after_the_job_was_ended_and_once() -> None:
    records = Records(Recorded.DONE)
    async with running(records) as controller:
        controller.job_ended(ended(7))
        controller.job_ended(ended(7))
        await asyncio.sleep(FIRST_AFTER / 2)
        assert records.ends_read == []
        await asyncio.sleep(FIRST_AFTER)
    assert records.ends_read == [7]


async def test_an_end_that_slurmdbd_does_not_know_yet_is_checked_again() -> None:
    records = Records(Recorded.NOT_YET, PortError("away"), Recorded.DONE)
    async with running(records) as controller:
        controller.job_ended(ended(7))
        await asyncio.sleep(FIRST_AFTER + 3 * AGAIN_AFTER)
        assert len(controller) == 0
    assert records.ends_read == [7, 7, 7]


@pytest.mark.parametrize("answer", [Recorded.NOT_YET, PortError("away")])
async def test_an_end_that_cannot_be_written_is_dropped(answer: Recorded | PortError) -> None:
    records = Records(answer)
    async with running(records) as controller:
        controller.job_ended(ended(7))
        await asyncio.sleep(DROP_AFTER_S + 10 * AGAIN_AFTER)
        before = len(records.ends_read)
        assert len(controller) == 0
        await asyncio.sleep(DROP_AFTER_S)
    assert len(records.ends_read) == before


@pytest.mark.parametrize("answer", [Recorded.NOT_SERVED, Recorded.REFUSED])
async def test_a_slurm_without_records_is_queried_about_one_job_alone(answer: Recorded) -> None:
    records = Records(answer)
    async with running(records) as controller:
        controller.job_ended(ended(7))
        await asyncio.sleep(2 * FIRST_AFTER)
        controller.job_ended(ended(8))
        await asyncio.sleep(2 * FIRST_AFTER)
        assert len(controller) == 0
    assert records.ends_read == [7]


async def test_many_ends_are_bounded() -> None:
    async with running(Records(Recorded.DONE)) as controller:
        for job_id in range(1, MOST + 10):
            controller.job_ended(ended(job_id))
        assert len(controller) == MOST


async def test_a_replica_that_does_not_lead_keeps_no_end() -> None:
    controller = JobRecordController(Records(Recorded.DONE), LoopClock())
    controller.job_ended(ended(7))
    assert len(controller) == 0
