"""When Pods are told to end because of their job's time limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.cluster import SlurmPartition, SlurmSnapshot
from extender.domain.events import JobWaiting
from extender.domain.jobs.events import job_events
from extender.domain.jobs.job import JobRequest, JobView
from extender.domain.jobs.time_limit import due_in, whence, within_partition
from extender.domain.nodes.mapping import NodeMap
from tests.builders.placeholders import JOB, waiting

WALL = 1_000_000.0


@pytest.mark.parametrize(
    ("start", "end", "graces", "expected"),
    [
        (WALL, 0.0, [30], None),
        (WALL, WALL + 600, [30], 565.0),
        (WALL, WALL + 600, [30, 60], 535.0),
        (WALL, WALL + 60, [30], 30.0),  # no more than half of a short time
        (WALL - 590, WALL + 10, [30], -25.0),
        (WALL, WALL + 600, [], 595.0),
    ],
)
def test_the_grace_ends_before_the_time_limit(
    start: float, end: float, graces: list[int], expected: float | None
) -> None:
    assert due_in(JobView(7, "x", "RUNNING", as_of=WALL, start_time=start, end_time=end), graces) == expected


def test_without_slurms_clock_no_pod_is_ended_before_slurm_does() -> None:
    assert due_in(JobView(7, "x", "RUNNING", start_time=WALL, end_time=WALL + 1), [30]) is None


@pytest.mark.parametrize(
    ("partition", "limit"),
    [("free", 12), ("ten", 10), ("five", 9), ("five,ten", 10), ("five,free", 12), ("nowhere", 12), ("", 10)],
)
def test_room_that_no_partition_allows_is_not_requested(partition: str, limit: int) -> None:
    parts = {"free": None, "ten": 10, "five": 5}
    partitions = {n: SlurmPartition(n, max_time_minutes=top, default=n == "ten") for n, top in parts.items()}
    request = JobRequest("x", 1, 1, partition=partition, time_limit_minutes=12, time_limit_least=9)
    assert within_partition(request, SlurmSnapshot(partitions=partitions)).time_limit_minutes == limit


def test_a_limit_that_the_author_chose_is_never_lowered() -> None:
    snapshot = SlurmSnapshot(partitions={"ten": SlurmPartition("ten", max_time_minutes=10)})
    request = JobRequest("x", 1, 1, partition="ten", time_limit_minutes=12)
    assert within_partition(request, snapshot) is request


ROOMY = JobRequest("x", 1, 1, time_limit_minutes=12, time_limit_least=10)
ROOM = "Its time limit of 12 min leaves room for the Pod's activeDeadlineSeconds (10 min)"


@pytest.mark.parametrize("reason", ["QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"])
def test_an_unset_limit_is_explained_where_it_is_too_long(reason: str) -> None:
    life = waiting()
    p = replace(life.p, submitted_request=ROOMY)
    job = JobView(JOB, "x", "PENDING", reason=reason, time_limit_minutes=12)
    [event] = job_events(p, job, NodeMap())
    assert isinstance(event, JobWaiting)
    assert "Its time limit is longer than its" in event.reason
    assert ROOM in event.reason
    assert "slurm-extender.io/time-limit" in event.reason


def test_a_limit_that_is_a_deadline_says_so() -> None:
    request = JobRequest("x", 1, 1, time_limit_minutes=10, time_limit_least=10)
    assert whence(request, 10).startswith("Its time limit of 10 min is activeDeadlineSeconds;")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [(replace(ROOMY, time_limit_least=None), "QOSMaxWallDurationPerJobLimit"), (ROOMY, "QOSMaxJobsPerUserLimit")],
    ids=["set by its author", "another limit"],
)
def test_nothing_is_explained_that_is_not_so(request_: JobRequest, reason: str) -> None:
    job = JobView(JOB, "x", "PENDING", reason=reason, time_limit_minutes=12)
    [event] = job_events(replace(waiting().p, submitted_request=request_), job, NodeMap())
    assert "activeDeadlineSeconds" not in str(event)
