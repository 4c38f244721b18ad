"""GRANTED: Slurm gave nodes, and the Pod is not bound yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.placeholder import State
from extender.domain.states import GrantedState
from extender.domain.verdict import NOT_OFFERED_TEXT, WAITING_TEXT, Place, Wait
from tests.builders.placeholders import (
    JOB,
    NODES,
    OTHER_REQUEST,
    POD,
    REQUEST,
    SECOND,
    TIMING,
    Life,
    binding,
    bound,
    cleared,
    grant,
    granted,
    waiting,
    wanted,
)


def test_a_granted_node_is_checked_before_it_is_offered() -> None:
    life = granted()
    assert life.state is State.GRANTED
    assert life.checks == 1
    assert life.verdict() == Wait(WAITING_TEXT)
    assert "not free of earlier Pods" in life.bind_refusal()


def test_a_node_that_fits_wakes_the_pod_and_is_handed_out() -> None:
    life = granted().notify(e.AllocationFits())
    assert life.commands == [c.WakePod(POD, "n1", JOB)]
    assert life.p.timer_at is None
    assert life.verdict() == Place("n1")
    assert life.bind_refusal() == ""
    assert life.bind_refusal("n2") == "Slurm allocated n1 to this Pod, not n2"


def test_a_node_that_kube_scheduler_did_not_offer_is_not_named() -> None:
    assert cleared().verdict(frozenset({"n2"})) == Wait(NOT_OFFERED_TEXT)


def test_the_same_grant_seen_again_changes_nothing() -> None:
    life = cleared()
    before = life.p
    assert life.notify(grant("n1")).p == before
    assert life.commands == []


def test_a_node_with_something_that_leaves_is_checked_again_and_its_users_get_one_event() -> None:
    life = granted().notify(e.AllocationBusy("Pod team/old is ending there."))
    assert life.reasons() == ["SlurmNodeBusy"]
    assert life.later(TIMING.busy).checks == 1
    assert life.commands == []
    assert life.notify(e.AllocationBusy("Pod team/old is ending there.")).commands == []
    assert life.notify(e.AllocationFits()).commands_of(c.WakePod)


def test_a_pod_that_could_not_be_woken_is_woken_after_another_check() -> None:
    life = granted().notify(e.AllocationFits(), e.WakeAnswered(POD.uid, accepted=False))
    assert life.verdict() == Wait(WAITING_TEXT)
    assert life.later(TIMING.busy).checks == 1
    assert life.commands == []
    assert life.notify(e.AllocationFits()).commands_of(c.WakePod)
    assert life.p.cleared


@pytest.mark.parametrize("said", [e.AllocationMisfits("n1", "lacks cpu"), e.NodeRefused("n1", "tainted")])
def test_a_node_that_kubernetes_refuses_is_released_and_avoided(said: e.Event) -> None:
    life = granted().notify(said)
    assert life.state is State.RELEASING
    assert life.reasons() == ["SlurmAllocationReleased"]
    assert life.verdict() == Wait(WAITING_TEXT)
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).timer()
    assert life.one(c.SubmitJob).candidates == {"n2", "n3"}


def test_nodes_released_in_a_row_are_requested_later_and_later() -> None:
    life, waits = granted(), list[float]()
    for attempt in range(2, 6):
        life.notify(e.AllocationMisfits("n1", "full"), e.JobEnded(life.p.job_id or 0, e.EndKind.CANCELLED))
        assert life.p.timer_at is not None
        waits.append(life.p.timer_at - life.now)
        life.timer().notify(e.SubmitAccepted(attempt, JOB + attempt), grant("n1", job_id=JOB + attempt))
    assert waits == [1.0, 2.0, 4.0, 8.0]


def test_when_every_candidate_has_been_refused_once_all_are_tried_again() -> None:
    life = granted()
    for attempt, node in ((2, "n2"), (3, "n3"), (4, "n1")):
        life.notify(e.AllocationMisfits(life.p.node_of(POD.uid), "full"))
        life.notify(e.JobEnded(life.p.job_id or 0, e.EndKind.CANCELLED)).timer()
        last = life.one(c.SubmitJob)
        life.notify(e.SubmitAccepted(attempt, JOB + attempt), grant(node, job_id=JOB + attempt))
    assert last.candidates == NODES
    assert life.p.refused_nodes == frozenset()


def test_a_node_that_was_refused_once_is_tried_again_where_slurm_finds_no_other() -> None:
    life = granted().notify(e.AllocationMisfits("n1", "full"))
    life.notify(e.JobEnded(life.p.job_id or 0, e.EndKind.CANCELLED)).timer()
    assert life.one(c.SubmitJob).candidates == NODES - {"n1"}
    life.notify(e.SubmitRefused(2, permanent=True, text="Requested node configuration is not available"))
    assert life.state is State.ABSENT
    assert life.timer().one(c.SubmitJob).candidates == NODES
    refused = life.notify(e.SubmitRefused(3, permanent=True, text="Requested node configuration is not available"))
    assert refused.state is State.REFUSED


def test_a_grant_on_a_node_that_kubernetes_does_not_have_is_released_with_a_growing_wait() -> None:
    life, waits = waiting(), list[float]()
    for attempt in range(2, 5):
        job = life.p.job_id or 0
        unmapped = e.JobGranted(job, {}, ("x1",), unmapped=("x1",))
        life.notify(unmapped).later(TIMING.doubt).notify(unmapped)
        assert life.state is State.RELEASING
        assert life.reasons() == ["SlurmAllocationReleased"]
        life.notify(e.JobEnded(job, e.EndKind.CANCELLED))
        assert life.p.timer_at is not None
        waits.append(life.p.timer_at - life.now)
        life.timer().notify(e.SubmitAccepted(attempt, job + 1))
    assert waits == [1.0, 2.0, 4.0]


def test_a_grant_on_a_node_that_kubernetes_does_not_have_yet_is_checked_again_and_kept() -> None:
    life = waiting().notify(e.JobGranted(JOB, {}, ("slurm-n1",), unmapped=("slurm-n1",)))
    assert life.state is State.WAITING
    assert life.later(TIMING.cancel_retry).commands == [c.ReadJob(JOB)]
    assert life.notify(grant("n1")).state is State.GRANTED


def test_a_node_that_kubernetes_does_not_have_counts_from_the_last_grant_on() -> None:
    unmapped = e.JobGranted(JOB, {}, ("x1",), unmapped=("x1",))
    life = waiting().notify(unmapped).later(TIMING.doubt - 1).notify(e.JobWaiting(JOB, "Resources"))
    assert life.later(TIMING.doubt).notify(unmapped).state is State.WAITING


def test_a_job_that_was_made_smaller_than_its_pod_is_released() -> None:
    life = waiting().notify(e.JobGranted(JOB, {POD.uid: "n1"}, ("slurm-n1",), lacking="Slurm job 7 holds 1 CPUs."))
    assert life.state is State.RELEASING
    assert life.commands_of(c.Announce)[0].text == "Slurm job 7 holds 1 CPUs."


def test_a_node_that_loses_its_kubernetes_name_for_a_moment_is_not_released() -> None:
    life = cleared().notify(e.JobGranted(JOB, {}, ("slurm-n1",), unmapped=("slurm-n1",)))
    assert life.verdict() == Place("n1")


def test_one_list_without_the_node_means_nothing() -> None:
    life = cleared().notify(e.CandidatesChanged(frozenset({"n2"})))
    life.notify(e.CandidatesChanged(NODES)).later(60).notify(e.CandidatesChanged(frozenset({"n2"})))
    assert life.state is State.GRANTED


def test_two_lists_without_the_node_at_once_mean_nothing_yet() -> None:
    life = cleared().notify(e.CandidatesChanged(frozenset({"n2"})), e.CandidatesChanged(frozenset({"n3"})))
    assert life.state is State.GRANTED


def test_full_lists_that_lack_the_node_for_a_while_give_it_back() -> None:
    life = cleared().notify(e.CandidatesChanged(frozenset({"n2"}))).later(TIMING.refused_by_scheduler + 0.1)
    life.notify(e.CandidatesChanged(frozenset({"n2"})))
    assert life.state is State.RELEASING
    assert life.p.refused_nodes == {"n1"}


def test_a_binding_of_the_only_pod_makes_the_workload_bound() -> None:
    life = binding()
    assert life.state is State.GRANTED
    assert life.notify(e.PodBound(POD.uid, "n1", JOB)).state is State.BOUND
    assert life.p.timer_at is None


def test_a_failed_binding_has_the_node_checked_before_it_is_offered_again() -> None:
    life = binding().notify(e.BindFailed(POD.uid, "409"))
    assert (life.commands, life.checks) == ([], 1)
    assert life.verdict() == Wait(WAITING_TEXT)
    assert life.notify(e.AllocationFits()).verdict() == Place("n1")


def test_a_pod_that_was_bound_to_another_node_keeps_running_and_its_job_ends() -> None:
    life = cleared().notify(e.PodBound(POD.uid, "n9", None))
    assert life.state is State.RELEASING
    assert life.reasons() == ["BoundWithoutSlurm"]
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.REFUSED
    assert not life.later(3600).commands_of(c.EndPod)


def test_a_pod_that_the_extender_bound_to_a_node_the_job_has_lost_is_ended() -> None:
    life = binding().notify(grant("n2"), e.PodBound(POD.uid, "n1", JOB))
    assert life.state is State.LOST
    assert life.reasons()[-1] == "SlurmAllocationLost"
    assert life.p.end_kind is e.EndKind.REQUEUED
    assert life.one(c.EndPod).member == POD


def test_of_two_pods_one_bound_to_another_node_has_the_other_ended_before_the_job() -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits())
    life.notify(e.BindStarted(POD.uid, "n1"), e.PodBound(POD.uid, "n1", JOB), e.PodBound(SECOND.uid, "n9", None))
    assert life.state is State.LOST
    assert [end.member for end in life.commands_of(c.EndPod)] == [POD]
    assert not life.commands_of(c.CancelJob)
    assert life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).one(c.CancelJob).job_id == JOB


def test_two_pods_are_bound_one_by_one() -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits())
    assert [(wake.member, wake.node) for wake in life.commands_of(c.WakePod)] == [(POD, "n1"), (SECOND, "n2")]
    life.notify(e.BindStarted(POD.uid, "n1"), e.PodBound(POD.uid, "n1", JOB))
    assert life.state is State.GRANTED
    assert life.verdict(uid=SECOND.uid) == Place("n2")
    assert life.notify(e.PodBound(SECOND.uid, "n2", JOB)).state is State.BOUND


def test_of_two_pods_the_workload_is_bound_only_when_no_binding_is_open() -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits())
    life.notify(e.BindStarted(POD.uid, "n1"), e.BindStarted(SECOND.uid, "n2"), e.PodBound(POD.uid, "n1", JOB))
    assert life.state is State.GRANTED
    assert life.notify(e.BindFailed(SECOND.uid, "409")).checks == 1
    assert life.commands == []


def test_a_job_that_moves_under_one_of_two_pods_ends_it() -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits())
    life.notify(e.BindStarted(POD.uid, "n1"), e.PodBound(POD.uid, "n1", JOB))
    life.notify(e.JobGranted(JOB, {}, ("x1", "x2"), unmapped=("x1", "x2")))
    assert life.state is State.LOST
    assert [end.member for end in life.commands_of(c.EndPod)] == [POD]


def test_a_binding_is_not_begun_for_a_pod_that_has_ended() -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits(), e.PodGone(POD.uid, e.PodEnd.FAILED))
    life.notify(e.BindStarted(POD.uid, "n1"), e.PodEnding(SECOND.uid))
    assert life.one(c.CancelJob).job_id == JOB


def test_a_pod_that_another_client_bound_to_the_very_node_of_its_job_is_on_the_jobs_account() -> None:
    life = cleared().notify(e.PodBound(POD.uid, "n1", None))
    assert life.state is State.BOUND
    assert life.notify(e.JobEnded(JOB, e.EndKind.PREEMPTED)).one(c.EndPod).member == POD


LESS = replace(REQUEST, cpus=2)


def test_settings_changed_after_the_grant_change_nothing() -> None:
    life = cleared().notify(wanted(request=LESS), e.PodRefused((POD,), ("wrong",)))
    assert life.verdict() == Place("n1")
    assert not [one for one in life.commands if not isinstance(one, c.Announce)]


def test_a_job_cancelled_after_its_grant_with_changed_settings_waits_for_another_change() -> None:
    life = cleared().notify(wanted(request=LESS), e.JobEnded(JOB, e.EndKind.CANCELLED, "It was cancelled."))
    assert life.state is State.REFUSED
    assert life.notify(wanted(request=LESS)).commands == []


def test_a_pod_that_grew_after_the_grant_gets_another_job() -> None:
    life = cleared().notify(wanted(request=OTHER_REQUEST))
    assert life.state is State.RELEASING
    assert "8 CPUs instead of 4" in life.one(c.Announce).text
    life = cleared().notify(e.BindStarted(POD.uid, "n1"), wanted(request=OTHER_REQUEST))
    assert life.state is State.GRANTED  # it may be bound by now, and its job is what it runs on


def test_slurm_taking_the_node_back_before_the_binding_makes_the_pod_wait_again() -> None:
    life = cleared().notify(e.JobWaiting(JOB, "Priority"))
    assert life.state is State.WAITING
    assert life.verdict() == Wait(WAITING_TEXT)


def test_candidates_that_changed_during_a_grant_are_sent_when_the_job_queues_again() -> None:
    life = cleared().notify(e.CandidatesChanged(frozenset({"n1", "n2"})), e.JobWaiting(JOB, "Priority"))
    assert life.one(c.FollowCandidates).candidates == {"n1", "n2"}


def test_a_grant_that_moves_is_checked_again() -> None:
    life = cleared().notify(grant("n2"))
    assert life.verdict() == Wait(WAITING_TEXT)
    assert life.notify(e.AllocationFits()).verdict() == Place("n2")


@pytest.mark.parametrize(
    ("kind", "then"), [(e.EndKind.CANCELLED, State.REFUSED), (e.EndKind.NODE_FAILURE, State.ABSENT)]
)
def test_a_job_that_ends_between_grant_and_binding_is_as_one_that_ended_waiting(kind: e.EndKind, then: State) -> None:
    life = cleared().notify(e.JobEnded(JOB, kind, "It ended."))
    assert life.state is then
    assert life.bind_refusal() == "Slurm has no allocation for this Pod"


def test_a_grant_that_slurm_suspends_is_given_up() -> None:
    life = cleared().notify(e.JobEnded(JOB, e.EndKind.SUSPENDED, alive=True))
    assert life.state is State.RELEASING
    assert life.one(c.CancelJob).job_id == JOB


def test_a_grant_that_slurm_is_about_to_take_back_is_not_handed_out() -> None:
    life = cleared().notify(e.JobEnding(JOB, e.EndKind.PREEMPTED, 40.0))
    assert life.state is State.RELEASING
    assert life.bind_refusal() == "Slurm has no allocation for this Pod"


@pytest.mark.parametrize("left", [e.PodEnding(POD.uid), e.PodGone(POD.uid, e.PodEnd.REMOVED)], ids=["ending", "gone"])
def test_a_pod_that_leaves_with_a_grant_gives_it_back(left: e.Event) -> None:
    assert cleared().notify(left).one(c.CancelJob).job_id == JOB


# The Binding and the end of the job, in every order.


def _outrun(life: Life) -> None:
    """The Pod is bound for a job that is over: it has to go, whatever came first."""
    assert life.state is State.LOST
    assert life.one(c.EndPod).member == POD
    life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state in {State.GONE, State.RELEASING}


def test_the_job_ends_while_the_binding_is_under_way_and_the_binding_succeeds() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.PREEMPTED, "It was preempted."))
    assert life.state is State.LOST
    assert not life.commands_of(c.EndPod)
    _outrun(life.notify(e.PodBound(POD.uid, "n1", JOB)))


def test_the_job_ends_while_the_binding_is_under_way_and_the_binding_fails() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.PREEMPTED, "It was preempted."), e.BindFailed(POD.uid, "409"))
    assert life.state is State.ABSENT
    assert life.timer().one(c.SubmitJob).attempt == 2


def test_a_user_cancels_while_the_binding_is_under_way_and_it_fails() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.CANCELLED, "It was cancelled."), e.BindFailed(POD.uid, "409"))
    assert life.state is State.REFUSED


def test_the_binding_arrives_first() -> None:
    _outrun(bound().notify(e.JobEnded(JOB, e.EndKind.PREEMPTED, "It was preempted.")))


def test_the_binding_arrives_when_the_job_has_already_been_replaced_by_a_wait() -> None:
    life = cleared().notify(e.JobEnded(JOB, e.EndKind.NODE_FAILURE, "It lost a node."))
    assert life.notify(e.PodBound(POD.uid, "n1", JOB)).timer().one(c.ProbeJob).job_id == JOB
    _outrun(life.notify(e.JobEnded(JOB, e.EndKind.NODE_FAILURE, "It lost a node.")))


def test_a_pod_bound_for_another_job_of_its_own_on_the_granted_node_ends_nothing_before_slurm_says_which_runs() -> None:
    life = cleared().notify(e.PodBound(POD.uid, "n1", 3))
    assert life.state is State.UNSURE
    assert life.timer().one(c.ProbeJob).job_id == 3
    assert not life.commands_of(c.EndPod)


def test_the_binding_arrives_when_the_job_is_being_released() -> None:
    life = cleared().notify(e.JobEnding(JOB, e.EndKind.PREEMPTED))
    _outrun(life.notify(e.PodBound(POD.uid, "n1", JOB)))


def test_the_answer_of_a_binding_that_comes_after_the_pods_end_ends_nothing() -> None:
    life = binding().notify(e.PodGone(POD.uid, e.PodEnd.REMOVED))
    assert life.state is State.RELEASING
    life.notify(e.PodBound(POD.uid, "n1", JOB))
    assert life.state is State.RELEASING
    assert life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state is State.GONE


def test_the_job_ends_and_then_the_pod_while_the_binding_is_under_way() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.TIME_LIMIT), e.PodEnding(POD.uid))
    assert life.state is State.LOST
    assert life.notify(e.PodGone(POD.uid, e.PodEnd.REMOVED)).state is State.GONE


def test_a_binding_by_another_client_while_the_job_ended_is_left_alone() -> None:
    life = binding().notify(e.JobEnded(JOB, e.EndKind.PREEMPTED), e.PodBound(POD.uid, "n9", None))
    assert life.state is State.REFUSED
    assert not life.commands_of(c.EndPod)


def test_after_a_pod_has_run_the_next_wait_is_short_again() -> None:
    life = granted().notify(e.AllocationMisfits("n1", "full"), e.JobEnded(JOB, e.EndKind.CANCELLED)).timer()
    life.notify(e.SubmitAccepted(2, 8), grant("n2", job_id=8), e.AllocationFits(), e.BindStarted(POD.uid, "n2"))
    assert life.p.failures == 1
    assert life.notify(e.PodBound(POD.uid, "n2", 8)).p.failures == 0


@pytest.mark.parametrize("job_id", [JOB, JOB - 1, None])
def test_a_late_word_of_where_a_pod_was_does_not_take_the_job_of_the_other(job_id: int | None) -> None:
    life = waiting(POD, SECOND).notify(grant("n1", "n2"), e.AllocationFits(), e.PodGone(POD.uid, e.PodEnd.FAILED))
    before = life.p
    life.notify(e.PodBound(POD.uid, "n9", job_id), e.PodBound("stranger", "n9", job_id))
    assert (life.p.state, life.p.allocation, life.commands) == (before.state, before.allocation, [])


def test_of_a_grant_that_cannot_be_written_the_time_since_the_first_try_counts() -> None:
    life = cleared()
    first = life.p.payload
    assert isinstance(first, GrantedState)
    for _ in range(3):
        life.notify(e.WakeAnswered(POD.uid, False, "a webhook rejects it"))
        text = life.p.reason
        life.timer().notify(e.AllocationFits())
    again = life.p.payload
    assert isinstance(again, GrantedState)
    assert (again.offered_at, life.p.reason) == (first.offered_at, text)
