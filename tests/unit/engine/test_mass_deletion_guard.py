"""Few missing objects end soon; many, or one that a restore may have taken back, wait long or for a confirmation."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.domain.jobs.checkpoint import PodAbsence
from extender.engine.mass_deletion_guard import (
    RUNBOOK_FOR_MISSING_JOBS,
    RUNBOOK_FOR_MISSING_PODS,
    AbsenceVerdict,
    MassDeletionGuard,
    MassDeletionLimits,
)
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import MassDeletionConfirmed
from tests.builders.services import StillClock

FEW, MANY, TOTAL = 5, 6, 10


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def mass_deletion_guard(clock: StillClock) -> MassDeletionGuard:
    return MassDeletionGuard(clock, EventBus())


@pytest.mark.parametrize(
    ("missing", "why", "seconds"),
    [
        (FEW, PodAbsence.UNMARKED, 5.0),
        (MANY, PodAbsence.UNMARKED, 600.0),
        (1, PodAbsence.RESTORED, 600.0),
        (1, PodAbsence.UNREADABLE, 600.0),
        (1, PodAbsence.DELETED, 0.0),
        (MANY, PodAbsence.DELETED, 0.0),
    ],
)
def test_how_long_something_must_be_missing(
    mass_deletion_guard: MassDeletionGuard, clock: StillClock, missing: int, why: PodAbsence, seconds: float
) -> None:
    since = clock.now()
    clock.time += seconds
    assert mass_deletion_guard.judge(since, missing, TOTAL, why) == AbsenceVerdict(True, seconds, seconds == 600.0)
    assert not mass_deletion_guard.judge(since + 0.1, missing, TOTAL, why).lasted


@pytest.mark.parametrize("why", [PodAbsence.UNMARKED, PodAbsence.RESTORED, PodAbsence.UNREADABLE])
def test_an_object_whose_end_a_watch_reported_waits_as_one_of_few(
    mass_deletion_guard: MassDeletionGuard, why: PodAbsence
) -> None:
    assert mass_deletion_guard.judge(0.0, MANY, TOTAL, why, reported=True).wait_s == 5.0
    assert mass_deletion_guard.judge(0.0, MANY, TOTAL, PodAbsence.DELETED, reported=True).wait_s == 0.0


def test_another_grace_counts_where_few_are_missing(mass_deletion_guard: MassDeletionGuard) -> None:
    assert mass_deletion_guard.judge(0.0, FEW, TOTAL, grace_s=30.0).wait_s == 30.0
    assert mass_deletion_guard.judge(0.0, MANY, TOTAL, grace_s=30.0).wait_s == 600.0


def test_the_mass_deletion_guard_stays_engaged_until_it_is_disengaged(mass_deletion_guard: MassDeletionGuard) -> None:
    assert mass_deletion_guard.allows_eviction(FEW, TOTAL)
    assert not mass_deletion_guard.engaged
    assert not mass_deletion_guard.allows_eviction(MANY, TOTAL)
    assert mass_deletion_guard.engaged
    assert not mass_deletion_guard.allows_eviction(1, TOTAL)
    mass_deletion_guard.disengage()
    assert not mass_deletion_guard.engaged
    assert mass_deletion_guard.allows_eviction(1, TOTAL)


def test_a_confirmation_is_published(mass_deletion_guard: MassDeletionGuard) -> None:
    events = EventBus()
    confirmed: list[MassDeletionConfirmed] = []
    events.subscribe(MassDeletionConfirmed, confirmed.append)
    MassDeletionGuard(StillClock(), events).confirm()
    assert len(confirmed) == 1


def ends(limits: MassDeletionLimits, count: int, total: int, at: float = 0.0) -> tuple[MassDeletionLimits, list[bool]]:
    allowed = []
    for _ in range(count):
        limits, may = limits.count_end(at, total)
        allowed.append(may)
    return limits, allowed


def test_a_few_vanished_jobs_may_end_their_pods() -> None:
    assert ends(MassDeletionLimits(), 6, total=10)[1] == [True] * 5 + [False]


def test_of_many_workloads_a_tenth_may() -> None:
    assert ends(MassDeletionLimits(), 21, total=200)[1] == [True] * 20 + [False]


def test_of_more_that_are_missing_than_may_end_none_may() -> None:
    assert MassDeletionLimits().count_end(0.0, 10, missing=6)[1] is False
    assert MassDeletionLimits().count_end(0.0, 10, missing=5)[1] is True


def test_the_limits_stay_on_until_an_administrator_confirms() -> None:
    limits, _ = ends(MassDeletionLimits(), 6, total=10)
    assert limits.count_end(10_000.0, 10)[1] is False
    assert limits.release().count_end(10_000.0, 10)[1] is True


def test_ends_that_are_spread_in_time_do_not_add_up() -> None:
    limits = MassDeletionLimits()
    for minute in range(20):
        limits, allowed = ends(limits, 5, total=10, at=minute * 60.0)
        assert all(allowed)


def test_what_the_limits_was_configured_to_survives_its_release() -> None:
    limits, allowed = ends(MassDeletionLimits(least=1, share=0.5, window=5.0), 2, total=2)
    assert allowed == [True, False]
    assert limits.release() == MassDeletionLimits(least=1, share=0.5, window=5.0)


@pytest.mark.parametrize("runbook", [RUNBOOK_FOR_MISSING_JOBS, RUNBOOK_FOR_MISSING_PODS])
def test_the_runbook_that_messages_name_exists_and_says_how_to_confirm(runbook: str) -> None:
    page = Path(__file__).parents[3] / "docs/runbooks" / f"{runbook.removeprefix('runbook ')}.md"
    assert "SIGUSR1" in page.read_text(encoding="utf-8")
