"""What a waiting job can follow in place, and what makes another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.changes import can_follow, raises_limit
from extender.domain.jobs.job import GangLayout, JobView, Mode, OnNodeFailure
from extender.domain.placeholder import State
from tests.builders.placeholders import JOB, NODES, POD, REQUEST, SECOND, TIMING, Life

FULL = replace(REQUEST, partition="a", qos="q", constraints="h100", time_limit_minutes=5, nice=3)
MOVED = replace(REQUEST, partition="low", time_limit_minutes=9)
KEEP = {"on_node_failure": OnNodeFailure.KEEP}
AGAIN = replace(REQUEST, partition="low", time_limit_minutes=8)


@pytest.mark.parametrize(
    ("now", "follows"),
    [
        (replace(FULL, partition="b", qos="r", account="x", time_limit_minutes=9, nice=None), True),
        (replace(FULL, constraints="", licenses="l:1", dependency="afterany:3"), True),
        (replace(FULL, excluded_nodes=("n1",)), True),
        (replace(FULL, partition=""), False),
        (replace(FULL, qos=""), False),
        (replace(FULL, time_limit_minutes=None), False),
        (replace(FULL, cpus=8), False),
        (replace(FULL, mode=Mode.BATCH), False),
        (replace(FULL, title="x"), False),
    ],
)
def test_only_what_slurm_changes_in_place_is_followed(now: object, follows: bool) -> None:
    assert can_follow(FULL, now) is follows  # type: ignore[arg-type]  # a request


@pytest.mark.parametrize(
    ("was", "now", "follows"),
    [
        ({"members": 2}, {"members": 3}, True),
        ({"members": 3}, {"members": 1}, True),
        ({"members": 2, "layout": GangLayout.PACK}, {"members": 9, "layout": GangLayout.PACK}, True),
        ({"members": 1, "layout": GangLayout.PACK}, {"members": 2, "layout": GangLayout.PACK}, False),
        ({"members": 2}, {"members": 2, "layout": GangLayout.PACK}, False),
        ({"members": 2, **KEEP}, {"members": 3, **KEEP}, True),
        ({"members": 1, **KEEP}, {"members": 3, **KEEP}, False),
        ({"members": 2}, {"members": 3, "cpus": 8}, False),
    ],
)
def test_a_waiting_gang_is_resized_in_place_unless_its_job_would_be_of_another_kind(
    was: dict[str, Any], now: dict[str, Any], follows: bool
) -> None:
    assert can_follow(replace(FULL, **was), replace(FULL, **now)) is follows


def waiting() -> Life:
    life = Life().notify(e.PodWanted((POD,), REQUEST), e.CandidatesChanged(NODES))
    return life.notify(e.SubmitAccepted(1, JOB, (), Mode.BATCH), e.JobWaiting(JOB, "Resources"))


def wants(life: Life, request: object) -> Life:
    return life.notify(e.PodWanted((POD,), request))  # type: ignore[arg-type]  # a request


def updates(life: Life) -> list[c.UpdateJob]:
    return [one for one in life.commands if isinstance(one, c.UpdateJob)]


def reasons(life: Life) -> list[str]:
    return [one.reason for one in life.commands if isinstance(one, c.Announce)]


def test_a_waiting_job_is_changed_and_keeps_its_place() -> None:
    life = wants(waiting(), MOVED)
    assert [(one.was, one.request) for one in updates(life)] == [(REQUEST, MOVED)]
    life.notify(e.UpdateAnswered(JOB, MOVED, True, excluded=("s1",)))
    assert (life.state, life.p.job_id, life.p.submitted_request, life.job.excluded_sent) == (
        State.WAITING,
        JOB,
        MOVED,
        ("s1",),
    )
    assert reasons(life) == ["SlurmJobUpdated"]


def test_a_refused_change_is_said_once_and_the_job_stays() -> None:
    life = wants(waiting(), MOVED).notify(e.UpdateAnswered(JOB, MOVED, False, "Invalid partition"))
    assert (life.state, life.p.submitted_request, reasons(life)) == (State.WAITING, REQUEST, ["SlurmJobUpdateRejected"])
    assert not wants(life, MOVED).commands
    assert updates(wants(life, AGAIN))


def test_a_change_of_unknown_outcome_is_sent_again() -> None:
    life = wants(waiting(), MOVED).notify(e.UpdateAnswered(JOB, MOVED, None))
    assert not updates(life)
    assert [one.request for one in updates(life.later(3))] == [MOVED]


def test_changes_are_reported_one_after_the_other() -> None:
    life = wants(wants(waiting(), MOVED), AGAIN)
    assert not updates(life)
    life.notify(e.CandidatesChanged(frozenset({"n1"})))
    assert not life.commands
    life.notify(e.UpdateAnswered(JOB, MOVED, True))
    assert [(one.was, one.request) for one in updates(life)] == [(MOVED, AGAIN)]


PAIR = replace(REQUEST, members=2)


def waiting_alone() -> Life:
    """A gang of one whose job waits, and that gets a second member."""
    life = Life().notify(e.PodWanted((POD,), REQUEST, (0,)), e.CandidatesChanged(NODES))
    life.notify(e.SubmitAccepted(1, JOB, (), Mode.BATCH), e.JobWaiting(JOB, "Resources"))
    return life.notify(e.PodWanted((POD, SECOND), PAIR, (0, 1)))


def test_a_gang_of_another_size_keeps_its_waiting_job() -> None:
    life = waiting_alone()
    assert [(one.was, one.request) for one in updates(life)] == [(REQUEST, PAIR)]
    life.notify(e.UpdateAnswered(JOB, PAIR, True))
    assert (life.state, life.p.job_id, life.p.submitted_request) == (State.WAITING, JOB, PAIR)


def test_a_job_that_slurm_does_not_resize_is_released() -> None:
    life = waiting_alone().notify(e.UpdateAnswered(JOB, PAIR, False, "2 Nodes are suitable, 3 are needed."))
    assert life.state is State.RELEASING
    assert "2 Nodes are suitable, 3 are needed." in life.p.reason


def test_a_job_that_starts_before_it_is_resized_is_released_since_a_member_has_no_node() -> None:
    life = waiting_alone().notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)))
    life.later(TIMING.doubt + 1).notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)))
    assert life.state is State.RELEASING
    assert life.p.reason == "Slurm job 7 has nodes for 1 of 2 members; it is released, and another one is submitted."


def test_a_job_that_starts_while_it_is_resized_is_known_to_have_the_new_size() -> None:
    life = waiting_alone().notify(e.JobGranted(JOB, {POD.uid: "n1", SECOND.uid: "n2"}, ("s1", "s2")))
    life.notify(e.UpdateAnswered(JOB, PAIR, True))
    assert (life.state, life.p.submitted_request) == (State.GRANTED, PAIR)


SHORTER = replace(REQUEST, comment="mine", time_limit_minutes=3)


def running() -> Life:
    life = waiting().notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)), e.AllocationFits())
    return life.notify(e.BindStarted(POD.uid, "n1"), e.PodBound(POD.uid, "n1", JOB))


def read(life: Life) -> Life:
    return life.notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)))


def test_a_running_job_follows_its_comment_and_its_time_limit() -> None:
    life = wants(running(), SHORTER)
    assert [(one.was, one.request, one.candidates) for one in updates(life)] == [(REQUEST, SHORTER, None)]
    assert not updates(read(life))
    life.notify(e.UpdateAnswered(JOB, SHORTER, True))
    assert (life.state, life.p.submitted_request, reasons(life)) == (State.BOUND, SHORTER, ["SlurmJobUpdated"])
    assert not read(life).commands


def test_a_running_job_that_slurm_does_not_change_continues_and_that_is_reported_once() -> None:
    life = wants(running(), SHORTER).notify(e.UpdateAnswered(JOB, SHORTER, False, "no"))
    assert (life.state, reasons(life)) == (State.BOUND, ["SlurmJobUpdateRejected"])
    assert not read(wants(life, SHORTER)).commands


def test_a_change_of_a_running_job_of_unknown_outcome_is_sent_again_with_the_next_reading() -> None:
    life = wants(running(), SHORTER).notify(e.UpdateAnswered(JOB, SHORTER, None))
    assert not updates(life)
    assert [one.request for one in updates(read(life))] == [SHORTER]


def test_a_change_that_comes_before_the_pod_runs_is_followed_then() -> None:
    life = waiting().notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)), e.AllocationFits())
    assert not wants(life, SHORTER).commands
    life.notify(e.BindStarted(POD.uid, "n1"), e.PodBound(POD.uid, "n1", JOB))
    assert [one.request for one in updates(read(life))] == [SHORTER]


@pytest.mark.parametrize(
    ("state", "has", "limit", "told"),
    [
        ("RUNNING", 5, 6, "timelimit=6"),
        ("RUNNING", 5, 5, ""),
        ("RUNNING", 5, 4, ""),
        ("RUNNING", None, 4, ""),
        ("PENDING", 5, 6, ""),
    ],
)
def test_more_time_is_an_operators_to_give_to_a_job_that_runs(
    state: str, has: int | None, limit: int, told: str
) -> None:
    said = raises_limit(JobView(JOB, "x", state, time_limit_minutes=has), replace(REQUEST, time_limit_minutes=limit))
    assert told in said
    assert bool(said) is bool(told)


def test_what_cannot_be_followed_makes_another_job() -> None:
    assert wants(waiting(), replace(REQUEST, cpus=8)).state is State.RELEASING


def test_a_job_that_has_its_node_is_not_changed_and_that_is_said_once() -> None:
    life = waiting().notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("s1",)))
    assert reasons(wants(life, MOVED)) == ["SlurmSettingWithoutEffect"]
    assert not wants(life, MOVED).commands
    assert life.state is State.GRANTED
