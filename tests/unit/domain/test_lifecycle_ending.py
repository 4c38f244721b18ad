"""RELEASING and GONE: the job's end has to be seen. And duplicate jobs, in every state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from tests.builders.placeholders import (
    JOB,
    NODES,
    OTHER_REQUEST,
    POD,
    TIMING,
    Life,
    absent,
    binding,
    bound,
    cleared,
    gone,
    grant,
    lost,
    refused,
    releasing,
    submitting,
    unsure,
    waiting,
    wanted,
)


def test_an_accepted_cancel_is_no_end_yet() -> None:
    assert releasing().notify(e.CancelAnswered(JOB, job_ended=False)).state is State.RELEASING


@pytest.mark.parametrize("seen", [e.CancelAnswered(JOB, job_ended=True), e.JobEnded(JOB, e.EndKind.CANCELLED)])
def test_the_end_of_the_job_of_a_pod_that_has_ended_ends_the_workload(seen: e.Event) -> None:
    assert releasing().notify(seen).state is State.GONE


def test_a_cancel_is_repeated_and_checked_at_growing_distances_until_the_end_is_seen() -> None:
    life, waits = releasing(), list[float]()
    for _ in range(6):
        before = life.now
        assert life.timer().commands[-1] == c.ReadJob(JOB)
        assert life.one(c.CancelJob).job_id == JOB
        waits.append(life.now - before)
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_job_that_is_only_requeued_by_its_cancel_is_cancelled_further() -> None:
    life = releasing().notify(e.JobEnded(JOB, e.EndKind.REQUEUED, alive=True), e.JobWaiting(JOB), grant("n1"))
    assert life.state is State.RELEASING
    assert life.timer().one(c.CancelJob).job_id == JOB


def test_a_wish_during_the_release_is_followed_when_the_job_has_ended() -> None:
    life = waiting().notify(wanted(request=OTHER_REQUEST), e.CandidatesChanged(frozenset({"n2"})))
    assert life.state is State.RELEASING
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.one(c.SubmitJob) == c.SubmitJob(2, OTHER_REQUEST, frozenset({"n2"}))


def test_a_pod_that_leaves_during_a_release_is_not_submitted_again() -> None:
    life = cleared().notify(e.NodeRefused("n1", "tainted"), e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.GONE


def test_what_has_ended_stays_ended_until_it_is_forgotten() -> None:
    life = gone()
    assert life.p.timer_at == life.now + TIMING.forget
    life.notify(wanted(), e.CandidatesChanged(NODES), e.PodBound(POD.uid, "n1", JOB), e.PodEnding(POD.uid))
    assert life.state is State.GONE
    assert life.commands == []


def test_a_workload_that_has_ended_is_forgotten_after_its_second_search() -> None:
    life = unsure().notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).later(TIMING.settle)
    life.notify(e.ProbeAnswered(()), e.ProbeAnswered(()))
    assert life.state is State.GONE
    assert life.timer().one(c.ProbeJob).title == "team/train"
    assert life.p.timer_at == life.now + TIMING.forget


# Duplicate jobs.

STATES: dict[State, Callable[[], Life]] = {
    State.ABSENT: absent,
    State.WAITING: waiting,
    State.GRANTED: cleared,
    State.BOUND: bound,
    State.LOST: lost,
    State.RELEASING: releasing,
    State.REFUSED: refused,
    State.GONE: gone,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "seen",
    [grant("n2", job_id=99), e.JobWaiting(99), e.SubmitAccepted(1, 99), e.ProbeAnswered((e.JobFound(99, 1, True),))],
    ids=lambda event: type(event).__name__,
)
def test_a_second_job_is_cancelled_in_every_state_until_its_end_is_seen(state: State, seen: e.Event) -> None:
    life = STATES[state]().notify(seen)
    assert life.state is state
    assert [cancel.job_id for cancel in life.commands_of(c.CancelJob)] == [99]
    again = [cancel for cancel in life.later(2 * TIMING.cancel_retry).commands_of(c.CancelJob) if cancel.job_id == 99]
    assert state is State.GONE or again
    life.notify(e.CancelAnswered(99, job_ended=False))
    assert life.p.duplicate_jobs == {99}
    assert life.notify(e.JobEnded(99, e.EndKind.CANCELLED)).p.duplicate_jobs == frozenset()


def test_a_second_job_of_a_workload_that_has_ended_is_cancelled_before_the_workload_is_forgotten() -> None:
    life = gone().notify(grant("n1", job_id=99))
    assert life.timer().one(c.CancelJob).job_id == 99
    life.notify(e.CancelAnswered(99, job_ended=True))
    assert life.p.timer_at is not None


@pytest.mark.parametrize("life", [submitting, unsure])
def test_an_unknown_job_is_left_alone_while_it_may_be_the_one_requested(life: Callable[[], Life]) -> None:
    found = life().notify(grant("n1", job_id=99))
    assert found.commands == []
    assert found.p.duplicate_jobs == frozenset()


def test_an_unknown_job_that_was_left_alone_is_searched_for_later() -> None:
    life = submitting().notify(grant("n1", job_id=99), e.SubmitAccepted(1, JOB))
    assert c.ProbeJob("team/train", JOB) in life.later(TIMING.settle).commands


def test_a_probe_during_a_submission_spares_the_attempt_under_way_alone() -> None:
    older, mine = e.JobFound(98, 0, running=True), e.JobFound(99, 1, running=True)
    life = submitting().notify(e.ProbeAnswered((older, mine)))
    assert life.one(c.CancelJob).job_id == 98
    assert life.notify(e.SubmitAccepted(1, JOB)).p.duplicate_jobs == {98}
    assert c.ProbeJob("team/train", JOB) in life.later(TIMING.settle).commands


def test_an_id_that_slurm_gives_out_again_is_no_duplicate_any_more() -> None:
    life = submitting().notify(e.SubmitAccepted(0, JOB), e.SubmitAccepted(1, JOB))
    assert life.p.job_id == JOB
    assert not [cancel for cancel in life.later(60).commands_of(c.CancelJob) if cancel.job_id == JOB]


def test_a_cancelled_job_that_comes_to_life_again_is_cancelled_again() -> None:
    life = waiting().notify(wanted(request=OTHER_REQUEST), e.JobEnded(JOB, e.EndKind.CANCELLED), e.SubmitAccepted(2, 8))
    assert life.notify(grant("n1", job_id=JOB)).one(c.CancelJob).job_id == JOB
    assert life.state is State.WAITING


def test_the_end_of_an_earlier_job_is_not_noted_on_a_later_one() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.PREEMPTED, "It was preempted."), e.BindFailed(POD.uid, "409"))
    life.later(TIMING.retry_first)
    life.notify(e.SubmitAccepted(2, 8), grant("n1", job_id=8), e.AllocationFits(), e.PodBound(POD.uid, "n1", 8))
    life.notify(e.PodGone(POD.uid, e.PodEnd.SUCCEEDED, "succeeded"))
    assert life.one(c.CancelJob).note == "Pod team/train succeeded"


def test_a_pod_whose_job_was_lost_is_noted_with_the_cause_on_that_job() -> None:
    life = bound().notify(e.JobEnded(JOB, e.EndKind.SUSPENDED, "It was suspended.", alive=True))
    life.notify(e.PodGone(POD.uid, e.PodEnd.FAILED, "failed"))
    assert life.one(c.CancelJob).note == "Pod team/train failed (suspended)"
