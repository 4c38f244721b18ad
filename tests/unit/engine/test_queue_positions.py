"""The place of a waiting job among its like, from readings that happen anyway."""

from __future__ import annotations

from dataclasses import replace

from extender.domain.jobs.job import JobView
from extender.domain.placeholder import Placeholder, State
from extender.domain.states import PlaceholderJob
from extender.engine.wait_context import QueuePositions
from tests.builders.placeholders import in_state


def workload(number: int) -> Placeholder:
    return in_state(State.WAITING, f"uid-{number}", PlaceholderJob(number))


def pending(number: int, priority: int, partition: str = "batch") -> JobView:
    return JobView(number, f"job-{number}", "PENDING", reason="Priority", partition=partition, priority=priority)


def before(queue: QueuePositions, number: int) -> int:
    place = queue.place(workload(number))
    assert place is not None
    return place.before


def test_a_higher_priority_and_then_an_older_job_is_first() -> None:
    queue = QueuePositions()
    for number, priority in ((1, 10), (2, 30), (3, 10), (4, 20)):
        queue.check(workload(number), pending(number, priority))
    assert [before(queue, number) for number in (2, 4, 1, 3)] == [0, 1, 2, 3]


def test_partitions_do_not_count_for_each_other() -> None:
    queue = QueuePositions()
    queue.check(workload(1), pending(1, 10))
    queue.check(workload(2), pending(2, 5, "urgent"))
    assert before(queue, 2) == 0


def test_a_later_reading_counts_and_a_job_that_starts_leaves() -> None:
    queue = QueuePositions()
    queue.check(workload(1), pending(1, 10))
    queue.check(workload(2), pending(2, 5))
    queue.check(workload(2), pending(2, 50))
    assert before(queue, 1) == 1
    queue.stepped(workload(2), in_state(State.GRANTED, "uid-2", PlaceholderJob(2)))
    assert before(queue, 1) == 0
    assert len(queue) == 1


def test_what_does_not_wait_has_no_place() -> None:
    queue = QueuePositions()
    queue.check(workload(1), replace(pending(1, 10), state="RUNNING"))
    queue.check(workload(2), pending(3, 10))
    assert queue.place(workload(1)) is None
    assert len(queue) == 0
