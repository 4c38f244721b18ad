"""Who keeps nodes for units whose job is missing is told when it is not missing any more."""

from __future__ import annotations

from extender.domain.rules import Brake
from extender.engine.vanishing import GATHER, Vanishing
from extender.ports import Announcement
from tests.builders.services import StillClock


class Nobody:
    """An announcer to whom nobody listens."""

    def announce(self, announcement: Announcement) -> None:
        pass


def test_a_job_that_is_there_again_after_a_person_let_its_unit_go_is_told_of() -> None:
    clock, told = StillClock(), list[tuple[str, bool]]()
    vanishing = Vanishing(clock, Nobody(), Brake(least=0), lambda: 1)
    vanishing.listeners.append(lambda key, missing: told.append((key, missing)))
    assert not vanishing.may_end("unit", 7, ())
    clock.time += GATHER
    assert not vanishing.may_end("unit", 7, ())
    assert vanishing.held == {"unit"}
    vanishing.release()
    vanishing.seen("unit")
    assert told == [("unit", True), ("unit", False)]
