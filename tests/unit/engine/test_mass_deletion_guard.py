"""Few missing objects end soon; many, or one that a restore may have taken back, wait long or for a confirmation."""

from __future__ import annotations

import pytest

from extender.domain.jobs.checkpoint import PodAbsence
from extender.engine.mass_deletion_guard import MassDeletionGuard
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import MassDeletionConfirmed
from tests.builders.services import StillClock

FEW, MANY, TOTAL = 5, 6, 10


@pytest.fixture
def guard() -> MassDeletionGuard:
    return MassDeletionGuard(StillClock(), EventBus())


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
    guard: MassDeletionGuard, missing: int, why: PodAbsence, seconds: float
) -> None:
    assert guard.grace(missing, TOTAL, why) == seconds


def test_the_guard_stays_engaged_until_it_is_disengaged(guard: MassDeletionGuard) -> None:
    assert guard.allows_eviction(FEW, TOTAL)
    assert not guard.engaged
    assert not guard.allows_eviction(MANY, TOTAL)
    assert guard.engaged
    assert not guard.allows_eviction(1, TOTAL)
    guard.disengage()
    assert not guard.engaged
    assert guard.allows_eviction(1, TOTAL)


def test_a_confirmation_is_published(guard: MassDeletionGuard) -> None:
    events = EventBus()
    confirmed: list[MassDeletionConfirmed] = []
    events.subscribe(MassDeletionConfirmed, confirmed.append)
    MassDeletionGuard(StillClock(), events).confirm()
    assert len(confirmed) == 1
