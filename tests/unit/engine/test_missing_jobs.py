"""Who keeps nodes for units whose job is missing is told when it is not missing any more."""

from __future__ import annotations

from extender.domain.ports import Announcement
from extender.domain.rules import MassDeletionGuard
from extender.engine.missing_jobs import GATHER, MissingJobTracker
from tests.builders.services import StillClock


class Nobody:
    """An announcer to whom nobody listens."""

    def announce(self, announcement: Announcement) -> None:
        pass


def test_a_job_that_is_there_again_after_a_person_let_its_unit_go_is_told_of() -> None:
    clock, told = StillClock(), list[tuple[str, bool]]()
    missing_jobs = MissingJobTracker(clock, Nobody(), MassDeletionGuard(least=0), lambda: 1)
    missing_jobs.listeners.append(lambda key, missing: told.append((key, missing)))
    assert not missing_jobs.may_end("unit", 7, ())
    clock.time += GATHER
    assert not missing_jobs.may_end("unit", 7, ())
    assert missing_jobs.held == {"unit"}
    missing_jobs.release()
    missing_jobs.seen("unit")
    assert told == [("unit", True), ("unit", False)]
