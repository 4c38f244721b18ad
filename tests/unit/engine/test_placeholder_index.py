"""Which workload a job belongs to, where more than one names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.events import MemberRef
from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.states import PlaceholderJob, UnsureState, WaitingState
from extender.engine.placeholder_index import PlaceholderIndex
from tests.builders.placeholders import in_state

JOB = 7
OWNER = in_state(State.BOUND, "owner", PlaceholderJob(JOB))
COPY = in_state(State.UNSURE, "copy", PlaceholderJob(JOB))
"""Made from the owner's manifest, with its annotations, and found at a start."""


def test_a_job_that_a_second_workload_named_in_error_is_its_owners_again() -> None:
    workloads = PlaceholderIndex()
    workloads.put(OWNER)
    workloads.put(COPY)
    workloads.put(in_state(State.ABSENT, "copy"))
    assert workloads.workload_of_job(JOB) == "owner"
    assert JOB in workloads.jobs


def test_a_job_whose_last_workload_is_forgotten_is_the_others_again() -> None:
    workloads = PlaceholderIndex()
    workloads.put(OWNER)
    workloads.put(COPY)
    workloads.forget(COPY)
    assert workloads.workload_of_job(JOB) == "owner"


@pytest.mark.parametrize("nodes", [(), ("n1",)])
def test_an_id_that_was_given_out_again_is_the_later_workloads(nodes: tuple[str, ...]) -> None:
    workloads = PlaceholderIndex()
    workloads.put(in_state(State.BOUND, "owner", PlaceholderJob(JOB, slurm_nodes=nodes)))
    workloads.put(in_state(State.WAITING, "later", PlaceholderJob(JOB)))
    assert workloads.workload_of_job(JOB) == "later"
    workloads.put(in_state(State.ABSENT, "owner"))
    assert workloads.workload_of_job(JOB) == "later"


def test_nothing_is_left_of_a_job_that_no_workload_names() -> None:
    workloads = PlaceholderIndex()
    workloads.put(replace(in_state(State.RELEASING, "owner", PlaceholderJob(JOB)), duplicate_jobs=frozenset({8})))
    assert workloads.jobs == {JOB, 8}
    workloads.put(in_state(State.ABSENT, "owner"))
    assert not workloads.jobs
    assert workloads.workload_of_job(JOB) is None


def test_pods_whose_job_is_not_known_are_known_by_their_workloads_alone() -> None:
    workloads = PlaceholderIndex()
    placed = (Member(MemberRef("u", "ns", "p"), node="n1"),)
    for known, members in ((None, placed), (PlaceholderJob(JOB), placed), (None, ()), (None, placed)):
        p = Placeholder("u", UnsureState(known), members=members)
        workloads.put(p)
        assert set(workloads.placed_without_job) == ({"u"} if known is None and members else set())
    workloads.forget(p)
    assert not workloads.placed_without_job


def waits(key: str, mode: Mode | None, reason: str = "") -> Placeholder:
    waiting = in_state(State.WAITING, key, PlaceholderJob(JOB, mode))
    return replace(waiting, submitted_request=JobRequest("t", 1, 1, partition="batch"), reason=reason)


@pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.EXTERNAL])
def test_an_immediate_allocation_counts_as_queued_only_if_it_turns_out_to_wait(
    mode: Mode,
) -> None:
    workloads = PlaceholderIndex()
    workloads.put(waits("u", mode))
    assert workloads.queued["batch"] == 0
    workloads.put(waits("u", mode, "It waits (Resources)."))
    assert workloads.queued["batch"] == 1
    workloads.put(in_state(State.ABSENT))
    assert workloads.queued["batch"] == 0


@pytest.mark.parametrize("mode", [Mode.BATCH, None])
def test_a_job_that_was_queued_counts_from_its_submission(mode: Mode | None) -> None:
    workloads = PlaceholderIndex()
    workloads.put(waits("u", mode))
    assert workloads.queued["batch"] == 1


@pytest.mark.parametrize("mode", Mode)
def test_a_job_that_was_queued_behind_others_counts_before_it_is_read(mode: Mode) -> None:
    workloads = PlaceholderIndex()
    workloads.put(replace(waits("u", mode), payload=WaitingState(PlaceholderJob(JOB, mode), unread=True)))
    assert workloads.queued["batch"] == 1
