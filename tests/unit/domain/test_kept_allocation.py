"""The running job of a gang without members, kept for the next incarnation of its owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.gangs import labels
from extender.domain.gangs.context import ControllerView, GangContext, ReplicatedJob
from extender.domain.gangs.membership import Membership
from extender.domain.gangs.recognition import recognise
from extender.domain.gangs.vacancies import vacancies
from extender.domain.jobs.job import GangRestart
from extender.domain.placeholder import Placeholder, State, validate
from extender.domain.states import BoundState, GrantedState
from extender.domain.views import OwnerReference
from extender.domain.wellknown import GANG, GANG_RESTART, Reason
from tests.builders.placeholders import JOB, NODES, REQUEST, TIMING, Life
from tests.builders.pod_views import a_pod

SLOTS = ("slurm-n1", "slurm-n2")
KEEPS = replace(REQUEST, members=2, restart=GangRestart.KEEP_ALLOCATION)
KEEP = {GANG_RESTART: "keep-allocation"}


def members(incarnation: int) -> tuple[e.MemberRef, ...]:
    return tuple(e.MemberRef(f"uid-{incarnation}-{n}", "team", f"ring-{incarnation}-{n}") for n in range(2))


OLD, NEW = members(0), members(1)


def granted(refs: tuple[e.MemberRef, ...]) -> e.JobGranted:
    return e.JobGranted(JOB, {ref.uid: f"n{number + 1}" for number, ref in enumerate(refs)}, SLOTS, slots=SLOTS)


def running(restart: GangRestart | None = GangRestart.KEEP_ALLOCATION) -> Life:
    request = replace(KEEPS, restart=restart)
    life = Life(Placeholder("gang-1")).notify(e.PodWanted(OLD, request, (0, 1)), e.CandidatesChanged(NODES))
    life.notify(e.SubmitAccepted(1, JOB), granted(OLD), e.AllocationFits())
    return life.notify(*(e.PodBound(ref.uid, f"n{n + 1}", JOB, SLOTS[n]) for n, ref in enumerate(OLD)))


def gone(how: e.PodEnd = e.PodEnd.REMOVED) -> list[e.PodGone]:
    return [e.PodGone(ref.uid, how) for ref in OLD]


def test_the_job_runs_on_without_members_and_the_next_incarnation_gets_its_nodes() -> None:
    life = running().notify(*gone())
    assert (life.state, life.commands) == (State.BOUND, [])
    life.notify(e.PodWanted(NEW, KEEPS, (0, 1)))
    assert life.commands == [c.ReadJob(JOB)]
    life.notify(granted(NEW), e.AllocationFits())
    assert (life.state, life.p.allocation) == (State.GRANTED, (("uid-1-0", "n1"), ("uid-1-1", "n2")))
    life.notify(*(e.PodBound(ref.uid, f"n{n + 1}", JOB, SLOTS[n]) for n, ref in enumerate(NEW)))
    assert (life.state, life.p.job_id) == (State.BOUND, JOB)
    assert isinstance(life.p.payload, BoundState)
    assert life.p.payload.kept_until == 0.0


def test_without_another_incarnation_the_job_is_released_when_the_time_has_passed() -> None:
    life = running().notify(*gone())
    life.later(TIMING.replace - 1)
    kept = life.state
    life.later(2)
    assert (kept, life.state) == (State.BOUND, State.RELEASING)
    assert life.one(c.CancelJob).job_id == JOB


def test_a_kept_job_ends_in_time_also_where_a_probe_is_due_before() -> None:
    life = running()
    life.p = replace(life.p, reprobe_at=life.now + TIMING.replace / 2)
    assert life.notify(*gone()).later(TIMING.replace - 1).commands_of(c.ProbeJob)
    kept = life.state
    life.later(2)
    assert (kept, life.state) == (State.BOUND, State.RELEASING)


def test_a_kept_job_without_a_timer_breaks_an_invariant() -> None:
    life = running().notify(*gone())
    for late in (None, life.now + TIMING.replace + 1):
        with pytest.raises(AssertionError, match="kept without a timer"):
            validate(replace(life.p, timer_at=late))


@pytest.mark.parametrize(
    ("restart", "how"),
    [
        (None, e.PodEnd.REMOVED),
        (GangRestart.NEW_JOB, e.PodEnd.FAILED),
        (GangRestart.KEEP_ALLOCATION, e.PodEnd.SUCCEEDED),
    ],
)
def test_a_gang_that_does_not_say_so_and_one_that_succeeded_end_their_job_at_once(
    restart: GangRestart | None, how: e.PodEnd
) -> None:
    assert running(restart).notify(*gone(how)).state is State.RELEASING


def test_a_job_that_slurm_ends_meanwhile_is_not_waited_for() -> None:
    life = running().notify(*gone(), e.JobEnded(JOB, e.EndKind.CANCELLED, "scancel"))
    assert life.state is not State.BOUND
    assert life.p.job_id is None


def test_pods_of_the_next_incarnation_that_leave_before_they_are_bound_leave_the_job_to_others() -> None:
    life = running().notify(*gone(), e.PodWanted(NEW, KEEPS, (0, 1)), granted(NEW), e.AllocationFits())
    life.notify(*(e.PodGone(ref.uid, e.PodEnd.REMOVED) for ref in NEW))
    assert life.state is State.BOUND


def found(attempt: str, job_uid: str, gang: str, annotations: dict[str, str]) -> Membership:
    said = {labels.JOBSET_NAME: "train", labels.JOBSET_REPLICATED_JOB: "w", labels.JOBSET_ATTEMPT: attempt}
    job = ControllerView(OwnerReference("batch/v1", "Job", "train-w-0", job_uid), pods=2)
    owner = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "train", "set-1")
    job_set = ControllerView(owner, {GANG: gang, **annotations}, replicated=(ReplicatedJob("w", 1, 2),))
    view = recognise(a_pod(labels=said), GangContext((job, job_set)))
    assert isinstance(view, Membership)
    return view


@pytest.mark.parametrize("gang", ["job", "replicated-job", "set"])
def test_incarnations_of_a_job_set_are_one_gang_only_where_it_keeps_its_allocation(gang: str) -> None:
    assert found("0", "job-1", gang, KEEP).key() == found("1", "job-2", gang, KEEP).key()
    assert found("0", "job-1", gang, {}).key() != found("1", "job-2", gang, {}).key()


def test_a_group_of_a_leader_worker_set_that_keeps_its_allocation_is_known_by_its_set_and_number() -> None:
    owner = OwnerReference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "vllm", "lws-1")
    context = GangContext((ControllerView(owner, KEEP),))

    def key(uid: str, group: str, context: GangContext) -> str:
        said = {labels.LWS_NAME: "vllm", labels.LWS_GROUP_INDEX: group, labels.LWS_WORKER_INDEX: "0"}
        view = recognise(a_pod(uid=uid, labels=said, annotations={labels.LWS_SIZE: "2"}), context)
        assert isinstance(view, Membership)
        return view.key()

    assert key("first", "0", context) == key("second", "0", context)
    assert key("first", "0", context) != key("first", "1", context)
    assert key("first", "0", GangContext((ControllerView(owner),))) != key(
        "second", "0", GangContext((ControllerView(owner),))
    )


def with_a_successor(due_in: float | None = None) -> Life:
    life = running().notify(e.PodGone(OLD[1].uid, e.PodEnd.FAILED), e.PodWanted((OLD[0], NEW[1]), KEEPS, (0, 1)))
    return life.notify(replace(granted((OLD[0], NEW[1])), due_in=due_in), e.AllocationFits())


def test_the_successor_whose_node_is_refused_gets_an_event_and_the_others_continue() -> None:
    refused = e.NodeRefused("n2", "kube-scheduler did not accept it.", later=NEW[1].uid)
    life = with_a_successor().notify(refused)
    said = life.one(c.Announce)
    assert (life.state, said.members, said.reason) == (State.GRANTED, (NEW[1],), Reason.JOB_PENDING)
    assert said.text == (
        f"This Pod waits for Node n2 of Slurm job {JOB}; the other members continue. kube-scheduler did not accept it."
    )
    assert life.notify(replace(refused, later="")).commands == []


def test_after_a_start_too_a_member_that_waits_for_its_node_counts_as_a_successor() -> None:
    life = with_a_successor()
    assert isinstance(life.p.payload, GrantedState)
    life.p = replace(life.p, payload=replace(life.p.payload, successors=False))
    life.notify(e.NodeRefused("n2", "kube-scheduler did not accept it.", later=NEW[1].uid))
    assert isinstance(life.p.payload, GrantedState)
    assert life.p.payload.successors


def test_members_that_run_while_a_successor_waits_get_an_event_when_their_time_limit_is_near() -> None:
    life = with_a_successor(due_in=100.0)
    assert not life.later(99).commands_of(c.ReadJob)
    assert life.later(2).one(c.ReadJob).job_id == JOB
    life.notify(e.JobEnding(JOB, e.EndKind.TIME_LIMIT, 10.0))
    assert life.state is State.LOST


def test_a_time_limit_that_is_near_while_the_next_incarnation_waits_for_its_read_is_no_timer_that_is_always_due() -> (
    None
):
    life = running()
    life.notify(replace(granted(OLD), due_in=20.0)).notify(*gone())
    life.later(19).notify(e.PodWanted(NEW, KEEPS, (0, 1)))
    assert life.later(10).commands_of(c.ReadJob)  # `later` fails where a timer is due without end
    assert life.p.timer_at is not None
    assert life.p.timer_at > life.now


def shrinking(how: e.PodEnd = e.PodEnd.SUCCEEDED) -> Life:
    """The first member has ended, and its node is being returned."""
    life = running().notify(e.PodGone(OLD[0].uid, how), e.NodesVacated(SLOTS[:1]))
    assert life.one(c.ShrinkJob).kept == SLOTS[1:]
    return life


@pytest.mark.parametrize("answered", [True, False])
def test_a_job_that_released_a_node_is_not_kept(answered: bool) -> None:
    life = shrinking()
    if answered:
        left = e.JobGranted(JOB, {OLD[1].uid: "n2"}, SLOTS[1:], slots=SLOTS)
        life.notify(e.ShrinkAnswered(JOB, True), left)
    life.notify(e.PodGone(OLD[1].uid, e.PodEnd.REMOVED))
    assert life.state is State.RELEASING


def test_no_slot_of_a_job_that_is_kept_is_vacant() -> None:
    life = running().notify(e.PodGone(OLD[0].uid, e.PodEnd.FAILED))
    assert [one.slot for one in vacancies(life.p, 2)] == [0]
    life.notify(e.PodGone(OLD[1].uid, e.PodEnd.SUCCEEDED))
    assert (life.state, vacancies(life.p, 2)) == (State.BOUND, ())


def test_a_kept_job_that_holds_less_than_the_next_incarnation_needs_is_released() -> None:
    life = running().notify(*gone(), e.PodWanted(NEW, KEEPS, (0, 1)))
    life.notify(replace(granted(NEW), lacking="Slurm job 7 holds 2 CPUs, the Pod needs 4; the job is released."))
    assert life.state is State.RELEASING
    assert life.reasons() == ["SlurmAllocationReleased"]


def without_a_node() -> Life:
    """The next incarnation waits for a kept job, and one of its nodes has no Kubernetes Node."""
    life = running().notify(*gone(), e.PodWanted(NEW, KEEPS, (0, 1)))
    return life.notify(replace(granted(NEW), allocation={}, unmapped=("slurm-n2",)))


def test_a_kept_job_whose_node_left_kubernetes_is_released_after_a_time() -> None:
    life = without_a_node()
    unnamed = replace(granted(NEW), allocation={}, unmapped=("slurm-n2",))
    while life.now < 1000.0 + TIMING.doubt - 1:
        assert life.timer().one(c.ReadJob).job_id == JOB
        assert (life.notify(unnamed).state, life.commands) == (State.BOUND, [])
    life.later(2).notify(unnamed)
    assert (life.state, life.reasons()) == (State.RELEASING, ["SlurmAllocationReleased"])
    assert "slurm-n2, for which Kubernetes has no Node" in life.one(c.Announce).text


def test_a_kept_job_whose_node_returns_to_kubernetes_is_adopted() -> None:
    life = without_a_node().later(TIMING.doubt + 1)
    assert life.notify(granted(NEW)).state is State.GRANTED


def test_pods_that_come_and_leave_do_not_shorten_the_time_of_a_kept_job() -> None:
    life = without_a_node().later(5)
    life.notify(*(e.PodGone(ref.uid, e.PodEnd.REMOVED) for ref in NEW)).later(TIMING.replace - 6)
    kept = life.state
    assert (kept, life.later(2).state) == (State.BOUND, State.RELEASING)
