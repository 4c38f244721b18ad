"""Whatever becomes of a Pod, its placeholder does what the printed table says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from docs.generate.pod_ends import POD_TRANSITIONS, PodEvent, Stage, redrawn
from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from tests.builders.placeholders import JOB, POD, Life, binding, bound, cleared, lost, waiting

START: dict[Stage, Callable[[], Life]] = {
    Stage.WAITING: waiting,
    Stage.GRANTED: cleared,
    Stage.BINDING: binding,
    Stage.BOUND: bound,
    Stage.ENDED: lost,
}
EVENTS: dict[PodEvent, e.Event] = {
    PodEvent.DELETED: e.PodEnding(POD.uid),
    PodEvent.SUCCEEDED: e.PodGone(POD.uid, e.PodEnd.SUCCEEDED),
    PodEvent.FAILED: e.PodGone(POD.uid, e.PodEnd.FAILED),
    PodEvent.REMOVED: e.PodGone(POD.uid, e.PodEnd.REMOVED),
}


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("what", list(PodEvent))
def test_the_machine_does_what_the_table_says(what: PodEvent, stage: Stage) -> None:
    life = START[stage]().notify(EVENTS[what])
    assert life.state is POD_TRANSITIONS[what][stage].state
    assert bool(life.commands_of(c.CancelJob)) is (life.state is State.RELEASING)
    assert all(job.job_id == JOB for job in life.commands_of(c.CancelJob))


def test_the_page_is_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "states.md").read_text(encoding="utf-8")
    assert redrawn(page) == page, "docs/reference/states.md is stale: python -m docs.generate.pod_ends"
