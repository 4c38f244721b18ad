"""Which unit a job belongs to, where more than one has claimed it."""

from __future__ import annotations

import pytest

from extender.domain.job import JobRequest, Mode
from extender.domain.placeholder import Placeholder, State
from extender.engine.registry import Registry

JOB = 7
OWNER = Placeholder("owner", State.BOUND, job_id=JOB)
COPY = Placeholder("copy", State.UNSURE, job_id=JOB)
"""Made from the owner's manifest, with its annotations, and found at a start."""


def test_a_job_that_a_second_unit_claimed_in_error_is_its_owners_again() -> None:
    registry = Registry()
    registry.put(OWNER)
    registry.put(COPY)
    registry.put(Placeholder("copy", State.ABSENT))
    assert registry.unit_of_job(JOB) == "owner"
    assert JOB in registry.jobs


def test_a_job_whose_last_claimant_is_forgotten_is_the_others_again() -> None:
    registry = Registry()
    registry.put(OWNER)
    registry.put(COPY)
    registry.forget(COPY)
    assert registry.unit_of_job(JOB) == "owner"


def test_an_id_that_was_given_out_again_is_the_later_units() -> None:
    registry = Registry()
    registry.put(OWNER)
    registry.put(Placeholder("later", State.WAITING, job_id=JOB))
    assert registry.unit_of_job(JOB) == "later"
    registry.put(Placeholder("owner", State.ABSENT))
    assert registry.unit_of_job(JOB) == "later"


def test_nothing_is_left_of_a_job_that_nobody_claims_any_more() -> None:
    registry = Registry()
    registry.put(Placeholder("owner", State.RELEASING, job_id=JOB, surplus=frozenset({8})))
    assert registry.jobs == {JOB, 8}
    registry.put(Placeholder("owner", State.ABSENT))
    assert not registry.jobs
    assert registry.unit_of_job(JOB) is None


def waits(key: str, mode: Mode | None, reason: str = "") -> Placeholder:
    return Placeholder(
        key, State.WAITING, job_id=JOB, asked=JobRequest("t", 1, 1, partition="batch"), mode=mode, reason=reason
    )


@pytest.mark.parametrize("mode", [Mode.ALLOCATION, Mode.EXTERNAL])
def test_a_job_that_was_had_at_once_is_in_nobodys_way_before_it_was_read_unless_it_turns_out_to_wait(
    mode: Mode,
) -> None:
    registry = Registry()
    registry.put(waits("u", mode))
    assert registry.queued["batch"] == 0
    registry.put(waits("u", mode, "It waits (Resources)."))
    assert registry.queued["batch"] == 1
    registry.put(Placeholder("u", State.ABSENT))
    assert registry.queued["batch"] == 0


@pytest.mark.parametrize("mode", [Mode.BATCH, None])
def test_a_job_that_was_queued_counts_from_its_submission(mode: Mode | None) -> None:
    registry = Registry()
    registry.put(waits("u", mode))
    assert registry.queued["batch"] == 1
