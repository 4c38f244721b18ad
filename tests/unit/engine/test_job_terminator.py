"""The end of a job tells the accounting how its Pods ended, where they ended by themselves."""

from __future__ import annotations

import pytest

from extender.domain.events import CancelAnswered
from extender.domain.job_outcomes.workload_end import WorkloadEnd
from extender.domain.jobs.job import JobView
from extender.engine.job_terminator import JobTerminator, ProvedJob
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import WorkloadEnded


class TerminatedJobs:
    """One job, and what was asked for it."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def read(self, job_id: int) -> JobView | None:
        return JobView(job_id, "pod-a", "RUNNING")

    async def cancel(self, job_id: int) -> CancelAnswered:
        self.calls.append("cancel")
        return CancelAnswered(job_id, job_ended=True)

    async def finish(self, job_id: int, exit_code: int) -> CancelAnswered:
        self.calls.append(f"finish {exit_code}")
        return CancelAnswered(job_id, job_ended=True)

    async def comment(self, job_id: int, text: str, *, within_s: float | None = None) -> bool:
        self.calls.append("comment")
        return True


@pytest.mark.parametrize(
    ("wait_status", "told"), [(3 << 8, [WorkloadEnd(7, "pod-a", 3 << 8, "Pod ns/a Failed: exit 3")]), (None, [])]
)
async def test_a_status_is_published_with_the_name_of_the_job_and_its_note(
    wait_status: int | None, told: list[WorkloadEnd]
) -> None:
    heard: list[WorkloadEnd] = []
    events, jobs = EventBus(), TerminatedJobs()
    events.subscribe(WorkloadEnded, lambda event: heard.append(event.end))
    terminator = JobTerminator(jobs, events)
    proved = await terminator.prove(7, lambda job: True)
    assert isinstance(proved, ProvedJob)
    answered = await terminator.end(proved, note="Pod ns/a Failed: exit 3", wait_status=wait_status)
    assert answered.job_ended
    assert heard == told
    assert jobs.calls == ["comment", "cancel"]
