"""BOUND and LOST: the Pod runs, with its job or without it."""

from __future__ import annotations

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from extender.domain.verdict import ENDING_TEXT, Place, Wait
from tests.builders.placeholders import (
    JOB,
    OTHER_REQUEST,
    POD,
    SECOND,
    TIMING,
    Life,
    bound,
    grant,
    lost,
    waiting,
    wanted,
)


def both_bound() -> Life:
    """Two Pods of one workload run on n1 and n2."""
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits())
    return life.notify(e.PodBound(POD.uid, "n1", JOB), e.PodBound(SECOND.uid, "n2", JOB))


def test_a_bound_pod_requests_nothing_and_owes_nothing() -> None:
    life = bound()
    assert life.state is State.BOUND
    assert life.later(86400).commands == []
    assert life.verdict() == Place("n1")


@pytest.mark.parametrize(
    "news",
    [
        wanted(request=OTHER_REQUEST),
        e.PodRefused((POD,), ("wrong",)),
        e.CandidatesChanged(frozenset({"n9"})),
        e.NodeRefused("n1", "tainted"),
        e.AllocationMisfits("n1", "full"),
        e.PodBound(POD.uid, "n1", JOB),
        e.PodEnding(POD.uid),
        e.SlurmSnapshotChanged(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_nothing_but_its_end_or_its_jobs_end_moves_a_running_pod(news: e.Event) -> None:
    life = bound().notify(news)
    assert life.state is State.BOUND
    assert not [one for one in life.commands if not isinstance(one, c.Announce)]


def test_the_job_is_ended_only_when_the_pod_is_really_gone() -> None:
    life = bound().notify(e.PodEnding(POD.uid)).later(600)
    assert life.state is State.BOUND
    assert life.commands == []
    assert life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).one(c.CancelJob).job_id == JOB


@pytest.mark.parametrize("how", [e.PodEnd.SUCCEEDED, e.PodEnd.FAILED])
def test_a_pod_that_finishes_ends_its_job(how: e.PodEnd) -> None:
    life = bound().notify(e.PodGone(POD.uid, how))
    assert life.state is State.RELEASING
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.GONE


def test_the_job_of_two_pods_is_ended_with_the_last_of_them() -> None:
    life = both_bound().notify(e.PodGone(POD.uid, e.PodEnd.SUCCEEDED))
    assert life.state is State.BOUND
    assert life.notify(e.PodGone(SECOND.uid, e.PodEnd.SUCCEEDED)).one(c.CancelJob).job_id == JOB


@pytest.mark.parametrize(
    "taken",
    [
        e.JobEnded(JOB, e.EndKind.TIME_LIMIT),
        e.JobEnded(JOB, e.EndKind.SUSPENDED, alive=True),
        e.JobEnding(JOB, e.EndKind.PREEMPTED, 40.0),
        e.JobWaiting(JOB, "Priority"),
        grant("n2"),
    ],
    ids=["ended", "suspended", "warned", "requeued", "moved"],
)
def test_a_running_pod_whose_job_loses_the_node_is_ended_at_once(taken: e.Event) -> None:
    life = bound().notify(taken)
    assert life.state is State.LOST
    assert life.one(c.EndPod).voluntary is False
    assert life.reasons() == ["SlurmAllocationLost"]
    assert life.verdict() == Wait(ENDING_TEXT)


def test_a_running_pod_is_not_ended_because_a_name_cannot_be_found() -> None:
    life = bound().notify(e.JobGranted(JOB, {}, ("slurm-n1",), unmapped=("slurm-n1",)))
    assert life.state is State.BOUND
    assert life.commands == []


def test_a_running_pod_is_not_ended_because_its_node_is_called_otherwise_now() -> None:
    life = bound().notify(e.JobGranted(JOB, {POD.uid: "n2"}, ("slurm-n1",)))
    assert life.state is State.BOUND


def test_one_of_two_pods_that_has_ended_does_not_move_the_other() -> None:
    life = both_bound().notify(e.PodGone(POD.uid, e.PodEnd.SUCCEEDED))
    life.notify(e.JobGranted(JOB, {SECOND.uid: "n2"}, ("slurm-n1", "slurm-n2")))
    assert life.state is State.BOUND
    assert life.commands == []


def test_the_end_is_requested_again_until_the_pod_is_gone_and_less_often_once_it_is_ending() -> None:
    life = lost().notify(e.EvictAnswered(POD.uid, accepted=False, text="time-out"))
    assert life.later(TIMING.end_retry).one(c.EndPod).member == POD
    life.notify(e.PodEnding(POD.uid))
    assert len(life.later(100).commands_of(c.EndPod)) == 4
    assert len(life.later(10 * TIMING.end_retry_most).commands_of(c.EndPod)) == 10
    assert life.state is State.LOST


def test_a_pod_that_is_ending_already_is_requested_to_end_for_its_lost_job() -> None:
    life = bound().notify(e.PodEnding(POD.uid), e.JobEnded(JOB, e.EndKind.PREEMPTED))
    assert life.one(c.EndPod).member == POD


def test_a_cancel_by_a_user_respects_disruption_budgets_for_a_while() -> None:
    life = lost(e.EndKind.CANCELLED)
    assert life.one(c.EndPod).voluntary is True
    ends = life.later(TIMING.eviction_deadline).commands_of(c.EndPod)
    assert [end.voluntary for end in ends] == [True] * 5 + [False]


def test_a_lost_pod_that_has_ended_takes_the_workload_with_it() -> None:
    life = lost().notify(e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.GONE
    assert not life.commands_of(c.CancelJob)


def test_a_job_that_still_lives_is_ended_after_its_pod_and_not_before() -> None:
    life = bound().notify(e.JobEnding(JOB, e.EndKind.PREEMPTED, 40.0))
    assert not life.later(20).commands_of(c.CancelJob)
    life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.RELEASING
    assert life.one(c.CancelJob).job_id == JOB


def test_a_warned_job_that_ends_by_itself_needs_no_cancel() -> None:
    life = bound().notify(e.JobEnding(JOB, e.EndKind.PREEMPTED), e.JobEnded(JOB, e.EndKind.PREEMPTED))
    assert life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).state is State.GONE


def test_two_lost_pods_are_both_ended_and_the_job_waits_for_both() -> None:
    life = both_bound().notify(e.JobEnded(JOB, e.EndKind.REQUEUED, alive=True))
    assert [end.member for end in life.commands_of(c.EndPod)] == [POD, SECOND]
    assert not life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).commands_of(c.CancelJob)
    assert life.notify(e.PodGone(SECOND.uid, e.PodEnd.REMOVED)).one(c.CancelJob).job_id == JOB


@pytest.mark.parametrize(
    "late", [grant("n1"), e.JobWaiting(JOB), wanted(), e.AllocationFits(), e.CandidatesChanged(frozenset({"n1"}))]
)
def test_a_lost_pod_is_not_taken_back(late: e.Event) -> None:
    life = lost().notify(late)
    assert life.state is State.LOST
    assert life.commands == []
