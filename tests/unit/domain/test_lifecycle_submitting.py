"""From a wish to a job: ABSENT, SUBMITTING, and UNSURE after a lost answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.jobs.request_digests import request_digests
from extender.domain.lifecycle.machine import adopted
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.states import UnsureState, WaitingState
from extender.domain.verdict import REFUSED_TEXT, WAITING_TEXT, Wait
from tests.builders.placeholders import (
    JOB,
    NODES,
    OTHER_REQUEST,
    POD,
    REQUEST,
    TIMING,
    Life,
    absent,
    grant,
    submitting,
    unsure,
    waiting,
    wanted,
)


def test_a_wish_alone_submits_nothing_because_the_nodes_are_not_known() -> None:
    life = absent()
    assert life.state is State.ABSENT
    assert life.commands == []
    assert life.verdict() == Wait(WAITING_TEXT)


def test_the_first_list_of_nodes_submits_the_job_for_just_these() -> None:
    life = absent().notify(e.CandidatesChanged(NODES))
    assert life.state is State.SUBMITTING
    assert life.commands == [c.SubmitJob(1, REQUEST, NODES)]


def test_nodes_before_the_wish_are_remembered() -> None:
    life = Life().notify(e.CandidatesChanged(NODES))
    assert life.state is State.ABSENT
    assert life.notify(wanted()).one(c.SubmitJob).candidates == NODES


def test_a_pod_that_cannot_be_translated_is_refused_with_every_fault() -> None:
    life = Life().notify(e.PodRefused((POD,), ("account: unknown", "time: not a time")))
    assert life.state is State.REFUSED
    assert life.one(c.Announce).details == ("account: unknown", "time: not a time")
    assert life.verdict() == Wait(REFUSED_TEXT)


def test_settings_put_right_are_submitted_even_when_they_are_those_of_before() -> None:
    life = waiting().notify(e.PodRefused((POD,), ("account: unknown",)), e.CancelAnswered(JOB, job_ended=True))
    assert life.state is State.REFUSED
    assert life.notify(wanted()).state is State.SUBMITTING


def test_a_pod_that_leaves_before_anything_was_requested_has_ended_at_once() -> None:
    life = absent().notify(e.PodEnding(POD.uid), e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.GONE
    assert life.commands == []


def test_a_pod_that_another_client_bound_is_left_alone_and_shown_as_outside_of_slurm() -> None:
    life = absent().notify(e.PodBound(POD.uid, "n9", None))
    assert life.state is State.REFUSED
    assert life.reasons() == ["BoundWithoutSlurm"]
    assert not life.later(3600).commands_of(c.EndPod)


def test_a_pod_that_was_bound_for_an_unknown_job_is_adopted_when_that_runs() -> None:
    life = absent().notify(e.PodBound(POD.uid, "n1", JOB)).timer()
    assert life.one(c.ProbeJob).job_id == JOB
    life.notify(e.ProbeAnswered((e.JobFound(JOB, 1, True),)), e.JobGranted(JOB, {POD.uid: "n1"}, ("n1",)))
    assert life.state is State.BOUND
    assert not life.commands_of(c.EndPod)
    assert not life.commands_of(c.CancelJob)


def test_a_pod_that_the_extender_bound_for_a_job_that_has_ended_is_ended_when_slurm_has_said_so() -> None:
    life = absent().notify(e.PodBound(POD.uid, "n1", JOB))
    assert not life.commands_of(c.EndPod)
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.state is State.LOST
    assert life.one(c.EndPod).member == POD


def test_an_accepted_job_is_read_at_once() -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, ("slurm-n9",)))
    assert life.state is State.WAITING
    assert life.one(c.ReadJob).job_id == JOB
    assert life.job.excluded_sent == ("slurm-n9",)
    assert life.reasons() == ["SlurmJobSubmitted"]


def test_a_job_that_was_queued_behind_others_is_read_when_it_has_waited_for_a_while() -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, behind=True))
    assert life.state is State.WAITING
    assert not life.commands_of(c.ReadJob)
    assert life.reasons() == ["SlurmJobSubmitted"]
    assert not life.later(TIMING.first_read - 0.1).commands
    assert life.later(0.1).commands == [c.ReadJob(JOB)]
    life.notify(e.JobWaiting(JOB, "Resources"))
    assert life.later(3600).commands == []


def test_a_job_that_was_queued_behind_others_is_read_less_and_less_often_until_something_changes() -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, behind=True))
    assert life.timer().commands_of(c.ReadJob)
    began = life.now
    for _ in range(5):
        assert life.timer().commands == [c.ReadJob(JOB)]
    assert life.now - began == 1 + 2 + 4 + 8 + 16


@pytest.mark.parametrize("event", [grant("n1"), e.JobWaiting(JOB, "Resources"), e.JobEnded(JOB, e.EndKind.CANCELLED)])
def test_a_job_with_newer_news_is_not_read_for_its_first_read(event: e.Event) -> None:
    life = submitting().notify(e.SubmitAccepted(1, JOB, behind=True), event)
    assert not (isinstance(life.p.payload, WaitingState) and life.p.payload.unread)
    assert not life.later(TIMING.first_read).commands_of(c.ReadJob)


@pytest.mark.parametrize("how", [e.PodEnd.REMOVED, e.PodEnd.FAILED])
def test_a_pod_that_left_while_its_job_was_made_has_the_job_cancelled(how: e.PodEnd) -> None:
    life = submitting().notify(e.PodGone(POD.uid, how))
    assert life.state is State.SUBMITTING
    assert life.notify(e.SubmitAccepted(1, JOB)).state is State.RELEASING
    assert life.one(c.CancelJob).job_id == JOB


def test_settings_changed_while_the_job_was_made_replace_it() -> None:
    life = submitting().notify(wanted(request=OTHER_REQUEST), e.SubmitAccepted(1, JOB))
    assert life.one(c.CancelJob).job_id == JOB
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.one(c.SubmitJob) == c.SubmitJob(2, OTHER_REQUEST, NODES)


def test_candidates_that_changed_while_the_job_was_made_are_sent_as_soon_as_it_exists() -> None:
    life = submitting().notify(e.CandidatesChanged(frozenset({"n2"})), e.SubmitAccepted(1, JOB))
    assert life.one(c.FollowCandidates).candidates == {"n2"}


def test_a_job_made_for_a_pod_that_was_bound_meanwhile_is_ended_and_the_pod_is_not() -> None:
    life = submitting().notify(e.PodBound(POD.uid, "n9", None), e.SubmitAccepted(1, JOB))
    assert life.state is State.RELEASING
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.REFUSED
    assert not life.commands_of(c.EndPod)


def test_a_binding_of_before_that_arrives_while_a_job_is_made_leaves_one_job_and_the_pod_on_it() -> None:
    life = submitting().notify(e.PodBound(POD.uid, "n1", 3), e.SubmitAccepted(1, JOB))
    assert life.one(c.CancelJob).job_id == JOB
    life.timer().notify(e.ProbeAnswered((e.JobFound(3, 1, True),)), e.JobGranted(3, {POD.uid: "n1"}, ("n1",)))
    assert life.state is State.BOUND
    assert not life.commands_of(c.EndPod)


@pytest.mark.parametrize("permanent", [True, False])
def test_a_binding_of_before_that_arrives_while_a_job_is_refused_ends_the_pod_if_its_job_has_ended(
    permanent: bool,
) -> None:
    life = submitting().notify(e.PodBound(POD.uid, "n1", 3), e.SubmitRefused(1, permanent, "no"))
    assert not life.commands_of(c.EndPod)
    life.timer().notify(e.JobEnded(3, e.EndKind.CANCELLED))
    assert life.state is State.LOST
    assert life.one(c.EndPod).member == POD


def test_an_immediate_try_that_found_nothing_free_is_queued_without_delay() -> None:
    life = submitting().notify(e.SubmitRefused(1, permanent=False, text="busy", queue=True))
    assert life.one(c.SubmitJob) == c.SubmitJob(2, REQUEST, NODES, queue=True)


def test_a_queued_submission_that_has_to_queue_again_backs_off() -> None:
    busy = [e.SubmitRefused(attempt, permanent=False, text="busy", queue=True) for attempt in (1, 2)]
    life = submitting().notify(*busy)
    assert life.state is State.ABSENT
    assert life.p.timer_at == life.now + TIMING.retry_first


def test_a_temporary_refusal_is_tried_again_later_and_later() -> None:
    life, waits = submitting(), list[float]()
    for attempt in range(1, 9):
        life.notify(e.SubmitRefused(attempt, permanent=False, text="slurmctld is busy"))
        assert life.p.timer_at is not None
        waits.append(life.p.timer_at - life.now)
        assert life.timer().one(c.SubmitJob).attempt == attempt + 1
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_the_time_to_wait_is_not_cut_short_by_other_news() -> None:
    life = submitting().notify(e.SubmitRefused(1, permanent=False, text="busy"))
    life.notify(e.SlurmSnapshotChanged(), e.CandidatesChanged(frozenset({"n1"})), wanted())
    assert life.state is State.ABSENT
    assert life.commands == []


def test_a_permanent_refusal_is_not_tried_again_until_the_pod_requests_something_else() -> None:
    life = submitting().notify(e.SubmitRefused(1, permanent=True, text="Invalid account."))
    assert life.state is State.REFUSED
    assert life.one(c.Announce).text == "Invalid account."
    assert life.later(3600).commands == []
    assert life.notify(wanted()).commands == []
    assert life.notify(wanted(request=OTHER_REQUEST)).one(c.SubmitJob).request == OTHER_REQUEST


def test_a_refusal_of_what_the_pod_no_longer_requests_refuses_nothing() -> None:
    life = submitting().notify(wanted(request=OTHER_REQUEST), e.SubmitRefused(1, permanent=True, text="Invalid."))
    assert life.state is State.SUBMITTING
    assert life.one(c.SubmitJob).request == OTHER_REQUEST


@pytest.mark.parametrize(
    "late", [e.SubmitRefused(1, permanent=True, text="no"), e.SubmitUnknown(1, "reset")], ids=["refused", "unknown"]
)
def test_late_answers_to_an_attempt_that_has_ended_mean_nothing(late: e.Event) -> None:
    life = submitting().notify(e.SubmitRefused(1, permanent=False, text="busy", queue=True))
    before = life.p
    assert life.notify(late).p == before


def test_after_a_lost_answer_nothing_is_sent_before_slurm_was_searched_for_the_job() -> None:
    life = unsure()
    assert life.state is State.UNSURE
    assert life.commands == []
    assert life.timer().commands == [c.ProbeJob("team/train", None)]
    assert life.verdict() == Wait(WAITING_TEXT)


def test_the_job_of_a_lost_answer_is_found_and_kept() -> None:
    life = unsure().notify(e.ProbeAnswered((e.JobFound(JOB, 1, running=True, excluded=("x",)),)))
    assert life.state is State.WAITING
    assert life.commands == [c.ReadJob(JOB)]
    assert life.job.excluded_sent == ("x",)
    assert life.notify(grant("n1")).state is State.GRANTED


def test_a_job_is_surely_absent_only_when_slurm_still_has_none_after_the_time_to_settle() -> None:
    life = unsure()
    while life.now < 1000.0 + TIMING.settle:
        assert life.state is State.UNSURE
        assert not life.commands_of(c.SubmitJob)
        life.timer().notify(e.ProbeAnswered(()))
    assert life.state is State.SUBMITTING
    assert life.one(c.SubmitJob).attempt == 2


def test_an_empty_answer_is_as_old_as_its_question() -> None:
    life = unsure().later(TIMING.settle + 1).notify(e.ProbeAnswered(()))
    assert isinstance(life.p.payload, UnsureState)
    sure_at = life.p.payload.sure_at
    assert life.notify(e.ProbeAnswered((), sure_at - 0.1)).state is State.UNSURE
    assert life.p.timer_at == life.now + TIMING.probe
    assert life.notify(e.ProbeAnswered((), sure_at)).state is State.SUBMITTING


def test_one_empty_answer_is_never_enough() -> None:
    life = unsure().later(TIMING.settle + 1).notify(e.ProbeAnswered(()))
    assert life.state is State.UNSURE
    assert life.notify(e.ProbeAnswered(())).state is State.SUBMITTING


def test_a_failed_probe_proves_nothing_and_empty_answers_are_counted_again() -> None:
    life = unsure().later(TIMING.settle + 1).notify(e.ProbeAnswered(()), e.ProbeFailed("connection refused"))
    assert life.notify(e.ProbeAnswered(())).state is State.UNSURE
    assert life.notify(e.ProbeAnswered(())).state is State.SUBMITTING


def test_probes_that_fail_are_repeated_at_growing_distances() -> None:
    life, waits = unsure(), list[float]()
    for _ in range(8):
        life.timer()
        assert life.commands_of(c.ProbeJob)
        life.notify(e.ProbeFailed("connection refused"))
        assert life.p.timer_at is not None
        waits.append(life.p.timer_at - life.now)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_request_that_slurm_executes_very_late_is_found_by_a_second_search_and_cancelled() -> None:
    life = unsure().later(TIMING.settle).notify(e.ProbeAnswered(()), e.ProbeAnswered(()), e.SubmitAccepted(2, 8))
    assert life.state is State.WAITING
    assert c.ProbeJob("team/train", 8) in life.later(TIMING.settle).commands
    late = e.ProbeAnswered((e.JobFound(JOB, 1, running=True), e.JobFound(8, 2, running=False)))
    assert life.notify(late).commands == [c.CancelJob(JOB, "it is a duplicate job of its workload")]
    assert life.p.job_id == 8


def test_a_second_search_that_fails_is_owed_again() -> None:
    life = unsure().later(TIMING.settle).notify(e.ProbeAnswered(()), e.ProbeAnswered(()), e.SubmitAccepted(2, 8))
    life.later(TIMING.settle).notify(e.ProbeFailed("connection refused"))
    assert c.ProbeJob("team/train", 8) in life.later(TIMING.settle).commands


def test_a_found_job_may_be_an_older_one_so_that_a_second_search_follows_when_the_last_request_is_settled() -> None:
    life = unsure().notify(e.ProbeAnswered((e.JobFound(JOB, 1, running=False),)), e.JobWaiting(JOB))
    assert life.later(TIMING.settle).commands == [c.ProbeJob("team/train", JOB)]


def test_of_two_jobs_that_lost_answers_left_the_running_one_is_kept() -> None:
    found = (e.JobFound(JOB, 1, running=True), e.JobFound(8, 2, running=False))
    life = unsure().notify(e.ProbeAnswered(found))
    assert life.p.job_id == JOB
    assert life.one(c.CancelJob).job_id == 8
    assert life.p.attempt == 2


CERTAIN, UNCERTAIN = e.JobFound(JOB, 1, running=False), e.JobFound(8, 9, running=True, certain=False)


def test_a_job_that_its_user_may_have_submitted_is_neither_kept_nor_cancelled_where_a_certain_one_exists() -> None:
    life = unsure().notify(e.ProbeAnswered((CERTAIN, UNCERTAIN)))
    assert (life.p.job_id, life.p.attempt, life.p.duplicate_jobs) == (JOB, 1, frozenset())
    assert not life.commands_of(c.CancelJob)
    life.notify(e.ProbeAnswered((CERTAIN, UNCERTAIN)))
    assert not life.commands_of(c.CancelJob)


def test_a_job_that_its_user_may_have_submitted_is_kept_once_no_certain_one_can_appear() -> None:
    life = unsure().notify(e.ProbeAnswered((UNCERTAIN,)), e.ProbeAnswered((UNCERTAIN,)))
    assert life.state is State.UNSURE
    life.later(TIMING.settle).notify(e.ProbeAnswered((UNCERTAIN, e.JobFound(9, 9, running=False, certain=False))))
    assert life.p.job_id == 8
    assert not life.commands_of(c.CancelJob)


def test_a_job_that_is_being_cancelled_as_a_duplicate_is_not_taken_for_the_one_searched_for() -> None:
    life = submitting().notify(e.SubmitAccepted(0, 3), e.SubmitUnknown(1, "reset"))
    assert life.notify(e.ProbeAnswered((e.JobFound(3, 0, running=True),))).state is State.UNSURE
    life.notify(e.ProbeAnswered((e.JobFound(3, 0, running=True), e.JobFound(JOB, 1, running=False))))
    assert life.p.job_id == JOB
    assert life.p.duplicate_jobs == {3}


def test_settings_changed_while_the_job_was_searched_for_replace_it() -> None:
    life = unsure().notify(wanted(request=OTHER_REQUEST), e.ProbeAnswered((e.JobFound(JOB, 1, running=False),)))
    assert life.state is State.RELEASING
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED))
    assert life.one(c.SubmitJob).request == OTHER_REQUEST


def test_a_pod_that_left_while_its_job_was_searched_for_has_ended_when_the_job_has() -> None:
    life = unsure().notify(e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.UNSURE
    life.notify(e.ProbeAnswered((e.JobFound(JOB, 1, running=False),)))
    assert life.one(c.CancelJob).job_id == JOB
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.GONE


def test_a_pod_that_is_translated_after_its_job_was_found_has_the_job_changed_to_what_it_requests_now() -> None:
    p = adopted(POD.uid, [Member(POD)], title=REQUEST.title, job_id=None, now=1000.0, timing=TIMING)
    old = replace(REQUEST, comment="old")
    life = Life(p).notify(e.CandidatesChanged(NODES))
    life.timer().notify(e.ProbeAnswered((e.JobFound(JOB, 1, running=False, request_digests=request_digests(old)),)))
    assert life.state is State.WAITING
    changed = life.notify(wanted(request=replace(REQUEST, comment="new"))).one(c.UpdateJob)
    assert (changed.job_id, changed.request.comment) == (JOB, "new")


def test_a_pod_that_is_translated_late_and_has_not_changed_leaves_its_job_as_it_is() -> None:
    p = adopted(POD.uid, [Member(POD)], title=REQUEST.title, job_id=None, now=1000.0, timing=TIMING)
    life = Life(p).notify(e.CandidatesChanged(NODES))
    life.timer().notify(e.ProbeAnswered((e.JobFound(JOB, 1, running=False, request_digests=request_digests(REQUEST)),)))
    assert not life.notify(wanted()).commands_of(c.UpdateJob)
    assert life.p.submitted_request == REQUEST


def test_false_names_that_came_before_the_watch_showed_the_pod_are_replaced_by_its_own() -> None:
    life = Life(Placeholder(POD.uid, members=(Member(e.MemberRef(POD.uid, "other", "..")),)))
    life.notify(e.CandidatesChanged(NODES), wanted())
    assert life.p.refs == (POD,)
