"""A start: only the Pods are known, and what Slurm answers.

That a job id which Slurm has given out again is not taken for the Pod's job is decided where the job's mark can be
read: the engine tells the machine about jobs that carry the workload's mark only.
"""

from __future__ import annotations

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.cancelled import Cancelled, digest
from extender.domain.placeholder import State
from tests.builders.placeholders import (
    JOB,
    NODES,
    OTHER_REQUEST,
    POD,
    REQUEST,
    TIMING,
    grant,
    started,
    wanted,
)

RUNNING = e.JobFound(JOB, 3, running=True)
PENDING = e.JobFound(JOB, 3, running=False, excluded=("slurm-n9",))


def test_slurm_is_queried_at_once_and_nothing_is_submitted_before_it_answers() -> None:
    life = started().notify(wanted(), e.CandidatesChanged(NODES))
    assert life.state is State.UNSURE
    assert life.timer().commands == [c.ProbeJob("team/train", None)]
    assert life.now == 1000.0


def test_an_unbound_pod_without_a_job_is_submitted_after_a_short_time() -> None:
    life = started().notify(wanted(), e.CandidatesChanged(NODES)).timer().notify(e.ProbeAnswered(()))
    assert life.state is State.UNSURE
    life.later(TIMING.settle_at_start).notify(e.ProbeAnswered(()))
    assert life.one(c.SubmitJob).attempt == 1


def test_what_the_process_before_sent_may_still_be_executed_and_is_searched_for_once_more() -> None:
    life = started().notify(wanted(), e.CandidatesChanged(NODES)).later(TIMING.settle_at_start)
    life.notify(e.ProbeAnswered(()), e.ProbeAnswered(()), e.SubmitAccepted(1, 50))
    assert c.ProbeJob("team/train", 50) in life.later(TIMING.settle).commands
    assert life.notify(e.ProbeAnswered((e.JobFound(50, 1, False), e.JobFound(49, 1, True)))).p.duplicate_jobs == {49}


def test_a_waiting_pod_finds_its_job_and_counts_its_attempts_on() -> None:
    life = started().notify(wanted(), e.ProbeAnswered((PENDING,)))
    assert life.state is State.WAITING
    assert life.p.attempt == 3
    assert life.job.excluded_sent == ("slurm-n9",)
    life.notify(e.JobEnded(JOB, e.EndKind.NODE_FAILURE), e.CandidatesChanged(NODES)).timer()
    assert life.one(c.SubmitJob).attempt == 4


def test_a_second_search_is_made_even_when_a_job_was_found_at_once() -> None:
    life = started().notify(wanted(), e.ProbeAnswered((PENDING,)), e.JobWaiting(JOB))
    assert life.later(TIMING.settle).commands == [c.ProbeJob("team/train", JOB)]


def test_a_found_job_follows_the_first_list_of_nodes() -> None:
    life = started().notify(wanted(), e.ProbeAnswered((PENDING,)), e.CandidatesChanged(NODES))
    assert life.one(c.FollowCandidates).excluded_sent == ("slurm-n9",)


def test_a_found_job_is_taken_to_request_what_the_pod_requests_and_replaced_when_that_changes() -> None:
    life = started().notify(wanted(), e.ProbeAnswered((PENDING,)), wanted())
    assert life.state is State.WAITING
    assert life.notify(wanted(request=OTHER_REQUEST)).one(c.CancelJob).job_id == JOB


def test_a_found_job_of_a_pod_not_yet_translated_is_kept() -> None:
    life = started().notify(e.ProbeAnswered((PENDING,)))
    assert life.state is State.WAITING
    assert life.notify(wanted()).state is State.WAITING
    assert life.notify(wanted(request=OTHER_REQUEST)).state is State.RELEASING


def test_a_manual_cancel_of_a_found_job_is_obeyed_although_the_pod_is_translated_again() -> None:
    life = started().notify(wanted(), e.CandidatesChanged(NODES), e.ProbeAnswered((PENDING,)))
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED, "It was cancelled."), wanted())
    assert life.state is State.REFUSED


def test_a_found_job_of_a_pod_that_cannot_be_translated_any_more_is_ended() -> None:
    life = started().notify(e.PodRefused((POD,), ("wrong",)), e.ProbeAnswered((PENDING,)))
    assert life.one(c.CancelJob).job_id == JOB


@pytest.mark.parametrize("found", [RUNNING, PENDING])
def test_a_pod_that_is_ending_unbound_has_its_job_ended(found: e.JobFound) -> None:
    life = started(ending=True).notify(e.ProbeAnswered((found,)))
    assert life.one(c.CancelJob).job_id == JOB
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED), e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.GONE


def test_a_bound_pod_finds_its_running_job() -> None:
    life = started("n1", JOB).notify(wanted(), e.ProbeAnswered((RUNNING,)))
    assert life.commands == [c.ReadJob(JOB)]
    assert life.notify(grant("n1")).state is State.BOUND


def test_a_bound_pod_whose_job_cannot_be_read_at_once_has_it_read_again() -> None:
    life = started("n1", JOB).notify(e.ProbeAnswered((RUNNING,)))
    assert life.later(TIMING.cancel_retry).commands == [c.ReadJob(JOB)]


def test_a_bound_pod_is_kept_although_its_node_has_no_name_in_kubernetes_just_now() -> None:
    life = started("n1", JOB).notify(e.ProbeAnswered((RUNNING,)))
    life.notify(e.JobGranted(JOB, {}, ("slurm-n1",), unmapped=("slurm-n1",)))
    assert life.state is State.BOUND
    assert life.p.node_of(POD.uid) == "n1"


def test_a_bound_pod_that_requests_more_than_its_job_holds_is_kept() -> None:
    life = started("n1", JOB).notify(wanted(request=OTHER_REQUEST), e.ProbeAnswered((RUNNING,)))
    life.notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("slurm-n1",), lacking="Slurm job 7 holds 4 CPUs, 8 are needed."))
    assert life.state is State.BOUND


def test_the_job_that_a_pod_runs_on_is_kept_and_a_newer_one_cancelled() -> None:
    life = started("n1", JOB).notify(e.ProbeAnswered((e.JobFound(9, 4, running=True), RUNNING)))
    assert life.p.job_id == JOB
    assert life.one(c.CancelJob).job_id == 9


@pytest.mark.parametrize(
    "read", [grant("n2"), e.JobWaiting(JOB), e.JobEnded(JOB, e.EndKind.PREEMPTED)], ids=["moved", "requeued", "ended"]
)
def test_a_bound_pod_whose_job_lost_the_node_meanwhile_is_ended(read: e.Event) -> None:
    life = started("n1", JOB).notify(e.ProbeAnswered((RUNNING,)), read)
    assert life.state is State.LOST
    assert life.one(c.EndPod).member == POD


def test_a_bound_pod_whose_job_ended_meanwhile_is_ended_for_that_reason() -> None:
    life = started("n1", JOB).notify(e.JobEnded(JOB, e.EndKind.TIME_LIMIT, "It reached its time limit."))
    assert life.one(c.EndPod).kind is e.EndKind.TIME_LIMIT


def test_a_bound_pod_is_ended_as_vanished_only_after_two_empty_answers_and_the_time_to_settle() -> None:
    life = started("n1", JOB).notify(e.ProbeAnswered(()), e.ProbeAnswered(()))
    assert life.state is State.UNSURE
    life.later(TIMING.settle_at_start).notify(e.ProbeFailed("down"), e.ProbeAnswered(()))
    assert life.state is State.UNSURE
    assert life.notify(e.ProbeAnswered(())).state is State.LOST
    assert life.one(c.EndPod).kind is e.EndKind.VANISHED


def test_a_pod_is_not_ended_while_slurm_does_not_answer() -> None:
    life = started("n1", JOB)
    for _ in range(100):
        life.timer().notify(e.ProbeFailed("connection refused"))
        assert life.state is State.UNSURE
        assert not life.commands_of(c.EndPod)


def test_a_pod_that_another_client_bound_is_left_alone() -> None:
    life = started("n1", None).notify(e.ProbeAnswered(())).later(TIMING.settle_at_start).notify(e.ProbeAnswered(()))
    assert life.state is State.REFUSED
    assert not life.later(3600).commands_of(c.EndPod)


def test_a_job_found_for_a_pod_that_another_client_bound_is_ended() -> None:
    life = started("n1", None).notify(e.ProbeAnswered((PENDING,)))
    assert life.one(c.CancelJob).job_id == JOB
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.REFUSED


def test_a_binding_of_the_process_before_that_arrives_during_the_start_is_recognised() -> None:
    life = started().notify(e.PodBound(POD.uid, "n1", JOB), e.ProbeAnswered((RUNNING,)), grant("n1"))
    assert life.state is State.BOUND


def test_a_binding_of_the_process_before_whose_job_is_nowhere_is_taken_back() -> None:
    life = started().notify(e.PodBound(POD.uid, "n1", JOB)).later(TIMING.settle_at_start)
    life.notify(e.ProbeAnswered(()), e.ProbeAnswered(()))
    assert life.one(c.EndPod).text == "Slurm has no job 7."


def test_a_granted_job_found_for_an_unbound_pod_is_offered_after_a_check() -> None:
    life = started("", JOB).notify(wanted(), e.ProbeAnswered((RUNNING,)), grant("n1"), e.AllocationFits())
    assert life.one(c.WakePod).job_id == JOB


def test_a_pod_that_is_gone_before_its_job_is_found_has_it_ended() -> None:
    life = started("n1", JOB).notify(e.PodGone(POD.uid, e.PodEnd.SUCCEEDED), e.ProbeAnswered((RUNNING,)))
    assert life.one(c.CancelJob).job_id == JOB


def test_what_a_user_cancelled_is_not_submitted_again_but_a_changed_request_is() -> None:
    said_no = Cancelled(JOB, digest(REQUEST))
    life = started(cancelled=said_no).notify(wanted(), e.CandidatesChanged(NODES)).later(TIMING.settle_at_start)
    life.notify(e.ProbeAnswered(()), e.ProbeAnswered(()))
    assert life.state is State.REFUSED
    assert life.reasons() == ["SlurmJobCancelled"]
    assert not life.commands_of(c.NoteCancelled)
    life.notify(wanted(request=OTHER_REQUEST))
    assert life.one(c.SubmitJob).request == OTHER_REQUEST


def test_what_a_user_cancelled_is_refused_also_where_it_is_translated_late() -> None:
    """Its owner's annotations could not be read before Slurm had answered."""
    life = started(cancelled=Cancelled(JOB, digest(REQUEST))).later(TIMING.settle_at_start)
    life.notify(e.ProbeAnswered(()), e.ProbeAnswered(()))
    assert str(life.state) == "ABSENT"
    life.notify(wanted(), e.CandidatesChanged(NODES))
    assert str(life.state) == "REFUSED"
    assert not life.commands_of(c.SubmitJob)


def test_a_job_that_lives_is_younger_than_a_cancel_that_is_written_on_its_pod() -> None:
    life = started(cancelled=Cancelled(JOB - 1, digest(REQUEST))).notify(wanted(), e.ProbeAnswered((PENDING,)))
    assert life.state is State.WAITING
    life.notify(e.JobEnded(JOB, e.EndKind.NODE_FAILURE), e.CandidatesChanged(NODES)).timer()
    assert life.commands_of(c.SubmitJob)
