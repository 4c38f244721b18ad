"""Slurm is away once no poll has been answered for half a minute, and not before."""

from __future__ import annotations

import pytest

from extender.engine.slurm_health import AWAY_AFTER, SlurmHealth
from tests.builders.services import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def test_slurm_that_never_answered_is_away_from_before_the_start(clock: StillClock) -> None:
    health = SlurmHealth(clock)
    assert health.away_since() is None
    clock.time += AWAY_AFTER - 0.1
    assert health.away_since() is None
    clock.time += 0.1
    assert health.away_since() == 0.0


def test_slurm_that_does_not_answer_any_more_is_away_since_its_last_answer(clock: StillClock) -> None:
    health = SlurmHealth(clock)
    clock.time += 100.0
    assert not health.answered()
    answered = clock.wall()
    clock.time += AWAY_AFTER
    assert health.failed("no route")
    assert not health.failed("no route")
    assert health.away_since() == pytest.approx(answered)
    clock.time += 5.0
    assert health.away_since() == pytest.approx(answered)
    assert health.answered()
    assert health.away_since() is None


def test_slurm_is_not_away_while_its_last_poll_was_answered(clock: StillClock) -> None:
    health = SlurmHealth(clock)
    health.answered()
    clock.time += 10 * AWAY_AFTER
    assert health.away_since() is None
    health.failed("no route")
    assert health.away_since() is not None


def test_a_single_poll_without_an_answer_does_not_make_slurm_away(clock: StillClock) -> None:
    health = SlurmHealth(clock)
    health.answered()
    clock.time += AWAY_AFTER - 0.1
    health.failed("no route")
    assert health.away_since() is None
