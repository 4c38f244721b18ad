"""Which unit a job belongs to, where more than one has claimed it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain.jobs.job import JobRequest, Mode
from extender.domain.placeholder import Placeholder, State
from extender.engine.placeholder_index import PlaceholderIndex

JOB = 7
OWNER = Placeholder("owner", State.BOUND, job_id=JOB)
COPY = Placeholder("copy", State.UNSURE, job_id=JOB)
"""Made from the owner's manifest, with its annotations, and found at a start."""


def test_a_job_that_a_second_unit_claimed_in_error_is_its_owners_again() -> None:
    units = PlaceholderIndex()
    units.put(OWNER)
    units.put(COPY)
    units.put(Placeholder("copy", State.ABSENT))
    assert units.workload_of_job(JOB) == "owner"
    assert JOB in units.jobs


def test_a_job_whose_last_claimant_is_forgotten_is_the_others_again() -> None:
    units = PlaceholderIndex()
    units.put(OWNER)
    units.put(COPY)
    units.forget(COPY)
    assert units.workload_of_job(JOB) == "owner"


def test_an_id_that_was_given_out_again_is_the_later_units() -> None:
    units = PlaceholderIndex()
    units.put(OWNER)
    units.put(Placeholder("later", State.WAITING, job_id=JOB))
    assert units.workload_of_job(JOB) == "later"
    units.put(Placeholder("owner", State.ABSENT))
    assert units.workload_of_job(JOB) == "later"


def test_nothing_is_left_of_a_job_that_nobody_claims_any_more() -> None:
    units = PlaceholderIndex()
    units.put(Placeholder("owner", State.RELEASING, job_id=JOB, surplus=frozenset({8})))
    assert units.jobs == {JOB, 8}
    units.put(Placeholder("owner", State.ABSENT))
    assert not units.jobs
    assert units.workload_of_job(JOB) is None


def waits(key: str, mode: Mode | None, reason: str = "") -> Placeholder:
    return Placeholder(
        key, State.WAITING, job_id=JOB, asked=JobRequest("t", 1, 1, partition="batch"), mode=mode, reason=reason
    )


@pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.EXTERNAL])
def test_a_job_that_was_had_at_once_is_in_nobodys_way_before_it_was_read_unless_it_turns_out_to_wait(
    mode: Mode,
) -> None:
    units = PlaceholderIndex()
    units.put(waits("u", mode))
    assert units.queued["batch"] == 0
    units.put(waits("u", mode, "It waits (Resources)."))
    assert units.queued["batch"] == 1
    units.put(Placeholder("u", State.ABSENT))
    assert units.queued["batch"] == 0


@pytest.mark.parametrize("mode", [Mode.BATCH, None])
def test_a_job_that_was_queued_counts_from_its_submission(mode: Mode | None) -> None:
    units = PlaceholderIndex()
    units.put(waits("u", mode))
    assert units.queued["batch"] == 1


@pytest.mark.parametrize("mode", Mode)
def test_a_job_that_was_queued_behind_others_counts_before_it_is_read(mode: Mode) -> None:
    units = PlaceholderIndex()
    units.put(replace(waits("u", mode), unread=True))
    assert units.queued["batch"] == 1
