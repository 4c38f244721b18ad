"""Who keeps nodes for workloads whose job is missing is told when it is not missing any more."""

from __future__ import annotations

from extender.domain.ports import Announcement
from extender.engine.mass_deletion_guard import MassDeletionGuard, MassDeletionGuardOptions, MassDeletionLimits
from extender.engine.missing_jobs import GATHER, MissingJobTracker
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import JobMissing
from tests.builders.services import StillClock


class NoListener:
    """An announcer whose announcements are dropped."""

    def announce(self, announcement: Announcement) -> None:
        pass


def test_a_job_that_is_there_again_after_an_administrator_confirmed_is_reported() -> None:
    clock, events, told = StillClock(), EventBus(), list[tuple[str, bool]]()
    events.subscribe(JobMissing, lambda event: told.append((event.key, event.missing)))
    mass_deletion_guard = MassDeletionGuard(clock, events, MassDeletionGuardOptions(MassDeletionLimits(least=0)))
    missing_jobs = MissingJobTracker(clock, NoListener(), mass_deletion_guard, events, lambda: 1)
    assert not missing_jobs.may_end("workload", 7, ())
    clock.time += GATHER
    assert not missing_jobs.may_end("workload", 7, ())
    assert missing_jobs.held == {"workload"}
    mass_deletion_guard.confirm()
    missing_jobs.seen("workload")
    assert told == [("workload", True), ("workload", False)]
