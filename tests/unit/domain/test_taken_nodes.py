"""A running gang whose job has fewer nodes than it was given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.gangs.vacancies import Vacancy, batch_host, unused_nodes, vacancies
from extender.domain.jobs.job import Mode
from extender.domain.lifecycle.machine import adopted
from extender.domain.placeholder import Member, Placeholder, State
from extender.domain.verdict import WAITING_TEXT, Wait
from tests.builders.placeholders import JOB, NODES, REQUEST, TIMING, Life

REFS = tuple(e.MemberRef(f"uid-{number}", "team", f"ring-{number}") for number in range(3))
GANG = replace(REQUEST, members=3)
SLOTS = ("slurm-n1", "slurm-n2", "slurm-n3")


def granted(*left: str, without: tuple[int, ...] = (), slots: tuple[str, ...] = SLOTS) -> e.JobGranted:
    allocation = {ref.uid: f"n{number + 1}" for number, ref in enumerate(REFS) if number not in without}
    return e.JobGranted(JOB, allocation, left or SLOTS, slots=slots)


def running(mode: Mode = Mode.ALLOCATION) -> Life:
    life = Life(Placeholder("gang-1")).notify(e.PodWanted(REFS, GANG, (0, 1, 2)), e.CandidatesChanged(NODES))
    life.notify(e.SubmitAccepted(1, JOB, mode=mode), granted(), e.AllocationFits())
    return life.notify(*(e.PodBound(ref.uid, f"n{n + 1}", JOB, SLOTS[n]) for n, ref in enumerate(REFS)))


def pod_gone(number: int, how: e.PodEnd = e.PodEnd.SUCCEEDED) -> e.PodGone:
    return e.PodGone(REFS[number].uid, how)


def shrinking() -> Life:
    life = running().notify(pod_gone(1), e.NodesVacated(("slurm-n2",)))
    assert life.one(c.ShrinkJob) == c.ShrinkJob(JOB, ("slurm-n1", "slurm-n3"))
    return life


def test_a_node_without_a_member_is_released_and_the_others_continue() -> None:
    life = shrinking().notify(e.ShrinkAnswered(JOB, True))
    assert life.commands == [c.ReadJob(JOB)]
    life.notify(granted("slurm-n1", "slurm-n3", without=(1,)))
    assert (life.state, life.commands) == (State.BOUND, [])
    assert life.job.slurm_nodes == ("slurm-n1", "slurm-n3")
    assert life.job.slots == SLOTS
    assert vacancies(life.p, 3) == ()


def test_a_node_with_a_member_is_never_released() -> None:
    life = running().notify(pod_gone(1), e.NodesVacated(("slurm-n1", "slurm-n2")))
    assert life.one(c.ShrinkJob).kept == ("slurm-n1", "slurm-n3")
    assert running().notify(e.NodesVacated(SLOTS)).commands == []


def test_one_request_at_a_time_gives_nodes_back() -> None:
    assert shrinking().notify(pod_gone(0), e.NodesVacated(("slurm-n1",))).commands == []


def test_a_member_that_moves_to_another_slot_before_its_binding_gets_the_node_of_that_slot() -> None:
    successor = e.MemberRef("uid-9", "team", "ring-1")
    life = running().notify(pod_gone(0), pod_gone(1))
    life.notify(e.PodWanted((successor, REFS[2]), GANG, (0, 2)))
    life.notify(e.JobGranted(JOB, {"uid-9": "n1", "uid-2": "n3"}, SLOTS, slots=SLOTS), e.AllocationFits())
    assert (life.state, life.p.node_of("uid-9")) == (State.GRANTED, "n1")
    life.notify(e.PodWanted((successor, REFS[2]), GANG, (1, 2)))
    assert (life.p.node_of("uid-9"), life.commands) == ("", [c.ReadJob(JOB)])
    life.notify(e.JobGranted(JOB, {"uid-9": "n2", "uid-2": "n3"}, SLOTS, slots=SLOTS))
    assert (life.p.node_of("uid-9"), life.p.node_of("uid-2")) == ("n2", "n3")


def test_a_member_that_had_ended_and_is_back_is_bound_to_no_node_that_the_job_does_not_have() -> None:
    life = shrinking().notify(e.ShrinkAnswered(JOB, True), granted("slurm-n1", "slurm-n3", without=(1,)))
    assert life.verdict(uid=REFS[1].uid) == Wait(WAITING_TEXT)
    assert "has ended before" in life.bind_refusal("n2", REFS[1].uid)


def test_a_member_that_had_ended_and_gets_a_slot_again_wants_its_node() -> None:
    life = running().notify(pod_gone(1))
    life.notify(e.PodWanted(REFS, GANG, (0, 1, 2)))
    member = life.p.member(REFS[1].uid)
    assert member is not None
    assert member.wanting
    life.notify(granted(), e.AllocationFits())
    assert life.one(c.WakePod).member == REFS[1]


def test_a_successor_gets_no_node_that_is_being_released() -> None:
    successor = e.MemberRef("uid-9", "team", "ring-1")
    life = shrinking().notify(e.PodWanted((REFS[0], successor, REFS[2]), GANG, (0, 1, 2)))
    life.notify(replace(granted(), allocation={"uid-0": "n1", "uid-9": "n2", "uid-2": "n3"}))
    before = life.state
    life.notify(e.ShrinkAnswered(JOB, False, "no"))
    life.notify(replace(granted(), allocation={"uid-0": "n1", "uid-9": "n2", "uid-2": "n3"}))
    assert (before, life.state) == (State.BOUND, State.GRANTED)


@pytest.mark.parametrize("refused_for", list(e.Unshrinkable))
def test_a_refusal_is_reported_once_and_not_repeated(refused_for: e.Unshrinkable) -> None:
    life = shrinking().notify(e.ShrinkAnswered(JOB, False, "disabled", refused_for))
    said = life.one(c.Announce)
    assert said.text == (
        f"Slurm job {JOB} keeps Slurm node slurm-n2 until the job ends, although no member is there: disabled"
    )
    assert len(said.members) == 1
    assert life.job.unshrinkable is refused_for
    assert life.notify(e.NodesVacated(("slurm-n2",))).commands == []


def test_an_unknown_answer_lets_the_nodes_be_offered_again() -> None:
    life = shrinking().notify(e.ShrinkAnswered(JOB, None, "timeout"))
    assert life.commands == [c.ReadJob(JOB)]
    assert life.notify(e.NodesVacated(("slurm-n2",))).one(c.ShrinkJob).kept == ("slurm-n1", "slurm-n3")


def test_a_slurm_that_says_yes_and_keeps_the_node_gets_no_second_request() -> None:
    life = shrinking().notify(e.ShrinkAnswered(JOB, True), granted(without=(1,)))
    assert life.notify(e.NodesVacated(("slurm-n2",))).commands == []


def test_edge_case_20_members_on_nodes_that_slurm_took_are_ended_and_the_others_stay() -> None:
    life = running().notify(granted("slurm-n1", "slurm-n3"))
    assert life.state is State.BOUND
    end = life.one(c.EndPod)
    assert (end.member, end.kind, end.voluntary) == (REFS[1], e.EndKind.NODE_TAKEN, False)
    assert end.text == f"Slurm removed Slurm node slurm-n2 from job {JOB}; members on the other nodes continue."
    assert life.one(c.Announce).members == (REFS[1],)
    assert life.later(20).commands_of(c.EndPod)[0].member == REFS[1]
    life.notify(pod_gone(1, e.PodEnd.REMOVED))
    assert [one for one in life.later(3600).commands if not isinstance(one, c.ReadJob)] == []


def test_a_member_on_a_node_that_failed_is_ended_with_that_cause_also_when_the_end_is_repeated() -> None:
    life = running().notify(replace(granted("slurm-n1", "slurm-n3"), failed=("slurm-n2",)))
    assert life.state is State.BOUND
    end = life.one(c.EndPod)
    assert (end.member, end.kind) == (REFS[1], e.EndKind.NODE_FAILURE)
    assert end.text == f"Slurm job {JOB} lost Slurm node slurm-n2, which failed; members on the other nodes continue."
    assert life.later(20).commands_of(c.EndPod)[0].kind is e.EndKind.NODE_FAILURE


def test_a_failed_node_and_one_that_an_administrator_took_are_distinguished() -> None:
    life = running().notify(replace(granted("slurm-n1"), failed=("slurm-n2",)))
    causes = {end.member: end.kind for end in life.commands_of(c.EndPod)}
    assert causes == {REFS[1]: e.EndKind.NODE_FAILURE, REFS[2]: e.EndKind.NODE_TAKEN}
    assert len(life.commands_of(c.Announce)) == 2


def test_a_job_that_lost_every_node_with_a_member_is_ended() -> None:
    life = running().notify(pod_gone(0)).notify(granted("slurm-n1", without=(0,)))
    assert life.state is State.LOST
    assert life.p.end_kind is e.EndKind.NODE_TAKEN
    assert len(life.commands_of(c.EndPod)) == 2


def stuck() -> Life:
    """The node of the last member failed, and its kubelet with it; the other members have succeeded."""
    life = running().notify(replace(granted("slurm-n1", "slurm-n2"), failed=("slurm-n3",)))
    return life.notify(pod_gone(0), pod_gone(1))


def test_a_job_on_whose_nodes_no_member_is_left_is_ended_while_a_pod_is_stuck_on_a_failed_node() -> None:
    life = stuck()
    assert (life.state, life.p.end_kind, life.p.outlives_job) == (State.LOST, e.EndKind.NODE_FAILURE, False)
    assert life.one(c.CancelJob).job_id == JOB
    assert (life.one(c.EndPod).member, life.commands_of(c.Announce)) == (REFS[2], [])
    assert [member.ref for member in life.p.members if life.p.occupies_job(member)] == [REFS[2]]


def test_the_end_of_such_a_job_is_requested_again_until_slurm_has_ended_it() -> None:
    life = stuck().timer()
    assert life.one(c.CancelJob).job_id == JOB
    assert (life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED)).state, life.p.outlives_job) == (State.LOST, True)
    assert life.timer().commands_of(c.CancelJob) == []
    assert life.one(c.EndPod).kind is e.EndKind.NODE_FAILURE


def test_the_workload_has_ended_once_the_stuck_pod_is_gone() -> None:
    assert stuck().notify(e.JobEnded(JOB, e.EndKind.CANCELLED), pod_gone(2, e.PodEnd.REMOVED)).state is State.GONE
    assert stuck().notify(pod_gone(2, e.PodEnd.REMOVED)).state is State.RELEASING


def test_a_successor_gets_another_job_once_the_stuck_pod_is_gone() -> None:
    successor = e.MemberRef("uid-9", "team", "ring-0")
    life = stuck().notify(e.PodWanted((successor, REFS[1], REFS[2]), GANG, (0, 1, 2)))
    life.notify(e.JobEnded(JOB, e.EndKind.CANCELLED), pod_gone(2, e.PodEnd.REMOVED))
    assert life.later(TIMING.retry_most).one(c.SubmitJob).attempt == 2


def test_a_member_that_is_left_on_a_node_of_the_job_keeps_it() -> None:
    life = running().notify(replace(granted("slurm-n1", "slurm-n2"), failed=("slurm-n3",)), pod_gone(0))
    assert (life.state, life.commands_of(c.CancelJob)) == (State.BOUND, [])


def test_members_that_slurm_ends_do_not_hold_the_job_for_one_that_is_stuck() -> None:
    life = running().notify(replace(granted("slurm-n1", "slurm-n2"), failed=("slurm-n3",)))
    life.notify(e.JobEnding(JOB, e.EndKind.TIME_LIMIT, 10.0), pod_gone(0))
    assert life.commands_of(c.CancelJob) == []
    assert life.notify(pod_gone(1)).one(c.CancelJob).job_id == JOB


def test_a_start_that_finds_a_job_with_stuck_members_alone_ends_it() -> None:
    found = Member(REFS[2], 2, node="n3", job_id=JOB, slurm_node="slurm-n3")
    life = Life(adopted("gang-1", [found], title="ring", job_id=JOB, now=1000.0, timing=TIMING))
    life.notify(e.ProbeAnswered((e.JobFound(JOB, 1, True),)))
    life.notify(e.JobGranted(JOB, {REFS[2].uid: "n3"}, SLOTS[:2], slots=SLOTS))
    assert (life.state, life.one(c.CancelJob).job_id, life.one(c.EndPod).member) == (State.LOST, JOB, REFS[2])


def test_a_node_that_slurm_takes_before_all_members_are_bound_ends_the_whole_gang() -> None:
    life = Life(Placeholder("gang-1")).notify(e.PodWanted(REFS, GANG, (0, 1, 2)), e.CandidatesChanged(NODES))
    life.notify(e.SubmitAccepted(1, JOB), granted(), e.AllocationFits())
    life.notify(e.PodBound(REFS[0].uid, "n1", JOB, "slurm-n1"))
    life.notify(granted("slurm-n1", "slurm-n2", without=(2,)))
    assert life.state is State.LOST
    assert life.one(c.EndPod).member == REFS[0]


def test_a_successor_waits_until_a_member_whose_node_was_taken_is_gone() -> None:
    successor = e.MemberRef("uid-9", "team", "ring-0")
    life = running().notify(pod_gone(0, e.PodEnd.REMOVED))
    life.notify(e.PodWanted((successor, REFS[1], REFS[2]), GANG, (0, 1, 2)))
    there = {"uid-9": "n1", "uid-1": "n2", "uid-2": "n3"}
    fewer = replace(granted("slurm-n1", "slurm-n2"), allocation=there)
    assert life.notify(fewer).state is State.BOUND
    assert life.notify(pod_gone(2, e.PodEnd.REMOVED)).commands == [c.ReadJob(JOB)]
    assert life.notify(replace(fewer, allocation={"uid-9": "n1", "uid-1": "n2"})).state is State.GRANTED


def test_a_node_that_is_taken_while_a_successor_waits_ends_its_member_alone() -> None:
    successor = e.MemberRef("uid-9", "team", "ring-0")
    life = running().notify(pod_gone(0, e.PodEnd.REMOVED))
    there = {"uid-9": "n1", "uid-1": "n2", "uid-2": "n3"}
    life.notify(e.PodWanted((successor, REFS[1], REFS[2]), GANG, (0, 1, 2)), replace(granted(), allocation=there))
    before = life.state
    life.notify(replace(granted("slurm-n1", "slurm-n2"), allocation=there))
    assert (before, life.state) == (State.GRANTED, State.BOUND)
    assert life.one(c.EndPod).member == REFS[2]


def test_slots_of_ended_members_are_vacant_and_say_how_the_members_ended() -> None:
    life = running().notify(pod_gone(0), pod_gone(2, e.PodEnd.FAILED))
    found = vacancies(life.p, 3)
    assert found == (
        Vacancy(0, "slurm-n1", e.PodEnd.SUCCEEDED),
        Vacancy(2, "slurm-n3", e.PodEnd.FAILED),
    )
    assert unused_nodes(life.p, found[:1]) == ("slurm-n1",)


def test_the_node_of_a_script_is_that_of_the_batch_host() -> None:
    assert batch_host(running(Mode.BATCH).p) == "slurm-n1"
    assert batch_host(running().p) == ""
