"""WAITING: the job queues in Slurm."""

from __future__ import annotations

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.job import Mode
from extender.domain.placeholder import State
from extender.domain.verdict import WAITING_TEXT, Wait
from tests.builders.placeholders import (
    JOB,
    NODES,
    OTHER_REQUEST,
    POD,
    REQUEST,
    SECOND,
    TIMING,
    grant,
    refused,
    submitting,
    waiting,
    wanted,
)


def test_a_waiting_pod_gets_slurms_reason_once() -> None:
    life = waiting()
    assert life.reasons() == ["SlurmJobSubmitted", "SlurmJobPending"]
    assert life.notify(e.JobWaiting(JOB, "Resources")).commands == []
    assert life.notify(e.JobWaiting(JOB, "Priority")).reasons() == ["SlurmJobPending"]
    assert life.verdict() == Wait(WAITING_TEXT)


def test_the_same_list_of_nodes_again_costs_nothing() -> None:
    assert waiting().notify(e.CandidatesChanged(NODES)).commands == []


def test_other_candidates_are_sent_to_the_same_job() -> None:
    life = waiting().notify(e.CandidatesChanged(frozenset({"n2"})))
    assert life.commands == [c.FollowCandidates(JOB, REQUEST, frozenset({"n2"}), ())]
    life.notify(e.FollowAnswered(JOB, ("slurm-n1", "slurm-n3")))
    assert life.job.excluded_sent == ("slurm-n1", "slurm-n3")
    assert life.later(3600).commands == []


def test_a_waiting_job_keeps_the_mode_in_which_it_was_made() -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, mode=Mode.EXTERNAL), e.SlurmSnapshotChanged())
    assert life.one(c.FollowCandidates).mode is Mode.EXTERNAL


def test_a_mode_is_not_used_for_a_job_of_which_it_is_not_known() -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, mode=Mode.EXTERNAL), e.JobEnded(JOB, e.EndKind.NODE_FAILURE))
    life.timer().notify(e.SubmitUnknown(2, "reset"), e.ProbeAnswered((e.JobFound(8, 2, running=False),)))
    assert life.notify(e.SlurmSnapshotChanged()).one(c.FollowCandidates).mode is None


def test_a_change_of_slurms_nodes_has_the_exclusions_worked_out_again() -> None:
    assert waiting().notify(e.SlurmSnapshotChanged()).one(c.FollowCandidates).candidates == NODES


def test_exclusions_are_sent_one_at_a_time_so_that_the_newest_wins() -> None:
    life = waiting().notify(e.CandidatesChanged(frozenset({"n2"})))
    assert life.notify(e.CandidatesChanged(frozenset({"n3"}))).commands == []
    assert life.notify(e.FollowAnswered(JOB, ("a",))).one(c.FollowCandidates).candidates == {"n3"}
    assert life.notify(e.FollowAnswered(JOB, ("b",))).commands == []


def test_exclusions_that_could_not_be_sent_are_sent_again() -> None:
    life = waiting().notify(e.CandidatesChanged(frozenset({"n2"})), e.FollowAnswered(JOB, None))
    assert life.later(TIMING.cancel_retry).one(c.FollowCandidates).candidates == {"n2"}


def test_other_settings_replace_the_waiting_job() -> None:
    life = waiting().notify(wanted(request=OTHER_REQUEST))
    assert life.state is State.RELEASING
    assert life.one(c.CancelJob).job_id == JOB
    life.notify(e.CancelAnswered(JOB, job_ended=False))
    assert life.state is State.RELEASING
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.one(c.SubmitJob) == c.SubmitJob(2, OTHER_REQUEST, NODES)


def test_settings_that_became_unusable_end_the_waiting_job_and_are_refused() -> None:
    life = waiting().notify(e.PodRefused((POD,), ("account: unknown",)))
    assert life.one(c.CancelJob).job_id == JOB
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.REFUSED


@pytest.mark.parametrize("left", [e.PodEnding(POD.uid), e.PodGone(POD.uid, e.PodEnd.FAILED)], ids=["ending", "gone"])
def test_a_pod_that_leaves_takes_its_waiting_job_with_it(left: e.Event) -> None:
    life = waiting().notify(left)
    assert life.state is State.RELEASING
    assert life.one(c.CancelJob).job_id == JOB


def test_one_of_two_pods_that_leaves_keeps_the_job_for_the_other() -> None:
    life = waiting(POD, SECOND).notify(e.PodGone(POD.uid, e.PodEnd.FAILED))
    assert life.state is State.WAITING
    assert life.notify(e.PodGone(SECOND.uid, e.PodEnd.FAILED)).one(c.CancelJob).job_id == JOB


def test_a_user_who_cancels_the_waiting_job_is_obeyed() -> None:
    life = refused()
    assert life.state is State.REFUSED
    assert life.reasons() == ["SlurmJobCancelled"]
    assert life.later(3600).commands == []


def test_after_a_manual_cancel_only_a_changed_request_submits_again() -> None:
    life = refused()
    assert life.notify(wanted(), e.CandidatesChanged(frozenset({"n2"})), e.SlurmSnapshotChanged()).commands == []
    assert life.notify(wanted(request=OTHER_REQUEST)).one(c.SubmitJob).request == OTHER_REQUEST


@pytest.mark.parametrize("kind", [e.EndKind.NODE_FAILURE, e.EndKind.FAILED, e.EndKind.VANISHED, e.EndKind.PREEMPTED])
def test_a_job_that_ends_for_want_of_luck_is_submitted_again_after_a_while(kind: e.EndKind) -> None:
    life = waiting().notify(e.JobEnded(JOB, kind, "Slurm job 7 is over."))
    assert life.state is State.ABSENT
    assert life.reasons() == ["SlurmRetrying"]
    assert life.timer().one(c.SubmitJob).attempt == 2


IMPOSSIBLE = e.JobEnded(JOB, e.EndKind.IMPOSSIBLE, "No node is so large.", alive=True)


def test_a_job_that_slurm_says_for_a_while_can_never_run_is_ended_and_refused() -> None:
    life = waiting().notify(IMPOSSIBLE)
    assert life.one(c.Announce).text == "Slurm job 7 waits: No node is so large."
    assert not life.notify(IMPOSSIBLE).commands
    assert life.later(TIMING.doubt).commands_of(c.ReadJob)
    assert life.notify(IMPOSSIBLE).one(c.CancelJob).job_id == JOB
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.state is State.REFUSED
    assert life.one(c.Announce).text == "No node is so large."


def test_a_request_that_changed_before_the_impossible_job_had_ended_is_submitted() -> None:
    life = waiting().notify(IMPOSSIBLE).later(TIMING.doubt).notify(IMPOSSIBLE)
    life.notify(wanted(request=OTHER_REQUEST), e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.one(c.SubmitJob).request == OTHER_REQUEST


def test_a_job_that_slurm_calls_impossible_for_a_moment_waits_on() -> None:
    life = waiting().notify(IMPOSSIBLE).later(TIMING.doubt - 1).notify(e.JobWaiting(JOB, "Priority")).later(60)
    assert life.notify(IMPOSSIBLE).state is State.WAITING


@pytest.mark.parametrize("kind", [e.EndKind.REQUEUED, e.EndKind.SUSPENDED, e.EndKind.REVOKED])
def test_a_job_that_lost_its_nodes_before_they_were_read_is_replaced(kind: e.EndKind) -> None:
    life = waiting().notify(e.JobEnded(JOB, kind, alive=True))
    assert life.state is State.RELEASING
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.ABSENT
    assert life.timer().one(c.SubmitJob).attempt == 2


def test_a_pod_that_another_client_bound_has_its_waiting_job_ended() -> None:
    life = waiting().notify(e.PodBound(POD.uid, "n9", None))
    assert life.one(c.CancelJob).job_id == JOB
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.REFUSED


def test_a_binding_for_an_older_job_ends_the_new_one_that_waits_if_the_older_one_runs() -> None:
    life = waiting().notify(e.PodBound(POD.uid, "n1", JOB - 1)).timer()
    life.notify(e.ProbeAnswered((e.JobFound(JOB - 1, 1, True), e.JobFound(JOB, 2, False))))
    assert life.one(c.CancelJob).job_id == JOB
    assert life.notify(e.JobGranted(JOB - 1, {POD.uid: "n1"}, ("n1",))).state is State.BOUND
    assert not life.commands_of(c.EndPod)


def test_a_binding_for_an_older_job_ends_the_pod_if_that_job_has_ended() -> None:
    life = waiting().notify(e.PodBound(POD.uid, "n1", JOB - 1))
    assert life.notify(e.JobEnded(JOB - 1, e.EndKind.CANCELLED)).state is State.LOST
    assert life.one(c.EndPod).member == POD


def test_a_binding_for_this_job_has_it_read_until_its_nodes_are_known() -> None:
    life = waiting().notify(e.PodBound(POD.uid, "n1", JOB))
    assert life.state is State.WAITING
    assert life.commands == [c.ReadJob(JOB)]
    assert life.later(TIMING.cancel_retry).commands == [c.ReadJob(JOB)]
    assert life.notify(grant("n1")).state is State.BOUND


def test_a_bound_pod_whose_job_queues_again_is_ended() -> None:
    life = waiting().notify(e.PodBound(POD.uid, "n1", JOB), e.JobWaiting(JOB, "Priority"))
    assert life.state is State.LOST
    assert life.p.end_kind is e.EndKind.REQUEUED


def test_a_manual_cancel_is_written_on_the_pod_until_that_is_done() -> None:
    life = refused()
    note = life.one(c.NoteCancelled)
    assert (note.member, note.cancelled.job_id) == (POD, JOB)
    assert life.notify(e.CancelNoted(POD.uid, False)).later(TIMING.cancel_retry_most).one(c.NoteCancelled) == note
    assert not life.notify(e.CancelNoted(POD.uid, True)).later(600).commands_of(c.NoteCancelled)


def test_a_cancel_of_what_is_not_requested_any_more_is_not_written() -> None:
    life = refused().notify(e.CancelNoted(POD.uid, False), wanted(request=OTHER_REQUEST))
    assert not life.later(600).commands_of(c.NoteCancelled)
