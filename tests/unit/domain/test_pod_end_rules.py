"""How much of its grace a Pod is given when its job ends."""

from __future__ import annotations

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.job_outcomes.pod_ends import ENDS, Grace, grace_of_new_end, grace_of_running_end
from extender.domain.placeholder import State
from tests.builders.placeholders import JOB, POD, TIMING, bound, lost

WHY = "Slurm gives its node away"


def test_every_kind_of_end_has_its_rule() -> None:
    assert set(ENDS) == set(e.EndKind)


@pytest.mark.parametrize(("own", "most"), [(30, None), (30, 30.0), (30, 600.0), (30, 28.5), (1, -5.0)])
def test_a_grace_for_which_there_is_time_is_the_pods_own(own: int, most: float | None) -> None:
    assert grace_of_new_end(own, most, WHY) == Grace()


@pytest.mark.parametrize(
    ("own", "most", "requested"), [(60, 25.9, 25), (3600, 600.0, 600), (30, 0.4, 1), (30, -9.0, 1)]
)
def test_a_grace_is_cut_to_the_time_that_there_is(own: int, most: float, requested: int) -> None:
    text = f"Its grace period is shortened from {own} s to {requested} s: {WHY}."
    assert grace_of_new_end(own, most, WHY) == Grace(requested, text)


@pytest.mark.parametrize("most", [None, 10.0, -1.0])
def test_a_pod_that_requests_no_grace_is_not_deleted_by_force(most: float | None) -> None:
    assert grace_of_new_end(0, most, WHY) == Grace(1)


def test_a_running_grace_is_cut_counted_from_its_beginning() -> None:
    """100 of 600 s have passed, and 20 s are left: 120 s from its beginning."""
    grace = grace_of_running_end(600, 500.0, 20.0, WHY)
    assert (grace.requested, "from 600 s to 120 s" in grace.why) == (120, True)


@pytest.mark.parametrize(("had", "left", "most"), [(30, 10.0, 20.0), (30, 10.0, 9.0), (30, 10.0, None), (0, 0.0, -9.0)])
def test_a_running_grace_is_never_lengthened_nor_forced(had: int, left: float, most: float | None) -> None:
    assert grace_of_running_end(had, left, most, WHY) == Grace()


def test_a_running_grace_keeps_a_second() -> None:
    assert grace_of_running_end(30, 29.9, -100.0, WHY).requested == 1


def test_an_announced_end_is_the_pods_deadline() -> None:
    life = bound().notify(e.JobEnding(JOB, e.EndKind.PREEMPTED, 40.0))
    assert life.one(c.EndPod).by == life.now + 40


@pytest.mark.parametrize("kind", list(e.EndKind))
def test_slurms_kill_wait_is_the_deadline_where_another_job_gets_the_node(kind: e.EndKind) -> None:
    life = lost(kind)
    end = life.one(c.EndPod)
    assert end.by == (life.now + TIMING.kill_wait if ENDS[kind].hurried else 0.0)
    assert end.voluntary is ENDS[kind].voluntary
    begun = life.now
    assert [one.by for one in life.later(20).commands_of(c.EndPod)] in ([begun + TIMING.kill_wait] * 4, [0.0] * 4)


def test_an_eviction_is_retried_when_the_api_server_says_and_at_the_deadline_no_more() -> None:
    life = lost(e.EndKind.CANCELLED)
    begun, held = life.now, e.EvictAnswered(POD.uid, False, "429", budget=True, retry_after_s=12.0)
    assert life.notify(held).reasons() == ["EvictionBlockedByPDB"]
    assert life.p.timer_at == begun + 12
    assert life.timer().one(c.EndPod).voluntary
    assert life.notify(held).reasons() == []
    assert life.timer().one(c.EndPod).voluntary
    life.notify(held)
    assert life.p.timer_at == begun + TIMING.eviction_deadline
    assert not life.timer().one(c.EndPod).voluntary


def test_a_shortened_grace_is_reported() -> None:
    life = lost().notify(e.EvictAnswered(POD.uid, True, shortened="Its grace period is shortened."))
    assert life.state is State.LOST
    assert [said.text for said in life.commands_of(c.Announce)] == ["Its grace period is shortened."]
