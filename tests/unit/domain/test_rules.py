"""The rule book: which mode and call, which order, and the limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.domain import commands as c
from extender.domain import events as e
from extender.domain.cluster import SlurmFeatures, SlurmNode, SlurmPartition, SlurmSnapshot
from extender.domain.jobs.job import JobRequest, Mode, RunAs
from extender.domain.nodes.fence_evidence import FencedNodes
from extender.domain.rules import (
    NoPlan,
    QueuedPlaceholders,
    SubmissionPlan,
    may_be_preempted,
    may_preempt,
    mode_of,
    plan,
    rank,
)

REQUEST = JobRequest(title="team/train", cpus=1, memory_mb=1)
NONE_WAITING = QueuedPlaceholders()
FEATURES = SlurmFeatures(release=(25, 5, 0), allocate=True, external=True)


def snapshot(
    *partitions: SlurmPartition, slurmdless: frozenset[str] = frozenset(), **features: object
) -> SlurmSnapshot:
    """A Slurm of these partitions, with other features than usual."""
    names = frozenset[str]().union(*(partition.nodes for partition in partitions))
    return SlurmSnapshot(
        nodes={n: SlurmNode(n, flags=frozenset({"EXTERNAL"}) if n in slurmdless else frozenset()) for n in names},
        partitions={partition.name: partition for partition in partitions},
        features=replace(FEATURES, **features),  # type: ignore[arg-type]
        known=True,
    )


def partition(name: str, *nodes: str, tier: int = 1, default: bool = False, mode: str = "") -> SlurmPartition:
    return SlurmPartition(name, frozenset(nodes), default=default, priority_tier=tier, preempt_mode=mode)


BATCH_PARTITION = partition("batch", "a", "b", default=True)


def planned(
    world: SlurmSnapshot,
    request: JobRequest = REQUEST,
    excluded: tuple[str, ...] = (),
    queue: bool = False,
    waiting: QueuedPlaceholders = NONE_WAITING,
) -> SubmissionPlan:
    """The plan where every node has a working fence."""
    fenced = FencedNodes(epilog=frozenset(world.nodes), prolog_slurmctld=frozenset(world.nodes))
    found = plan(request, world, excluded, queue, waiting, fenced=fenced)
    assert isinstance(found, SubmissionPlan), found
    return found


def unplanned(world: SlurmSnapshot, request: JobRequest, excluded: tuple[str, ...] = ()) -> NoPlan:
    found = plan(request, world, excluded, False, NONE_WAITING)
    assert isinstance(found, NoPlan), found
    return found


def test_an_allocation_is_tried_at_once_where_it_can_harm_no_job() -> None:
    assert planned(snapshot(BATCH_PARTITION), excluded=("a",)) == SubmissionPlan(Mode.ALLOCATION, True, ("a",))


def test_where_no_partition_is_known_as_the_default_the_job_is_queued_for_slurm_to_say() -> None:
    world = snapshot(partition("one", "a"), partition("two", "b"))
    assert planned(world, excluded=("a",)) == SubmissionPlan(Mode.BATCH, False, ("a",))
    assert isinstance(plan(REQUEST, world, ("a", "b"), False, NONE_WAITING), NoPlan)


def test_after_an_immediate_try_was_refused_the_job_is_a_queued_script() -> None:
    assert planned(snapshot(BATCH_PARTITION), queue=True) == SubmissionPlan(Mode.BATCH, False, ())


def test_nothing_is_tried_at_once_where_a_refused_try_could_kill_a_victim() -> None:
    high = partition("high", "a", tier=10)
    found = planned(snapshot(BATCH_PARTITION, high), replace(REQUEST, partition="high"))
    assert (found.mode, found.immediate) == (Mode.BATCH, False)


def test_a_preempting_qos_is_never_tried_at_once() -> None:
    world = snapshot(BATCH_PARTITION, preempting_qos=frozenset({"urgent"}))
    assert planned(world, replace(REQUEST, qos="urgent")).immediate is False
    assert planned(world, replace(REQUEST, qos="normal")).immediate is True


@pytest.mark.parametrize("qos", ["normal,urgent", "urgent,normal", "Urgent", "normal,URGENT"])
def test_of_several_qos_and_in_whatever_case_one_that_preempts_is_enough(qos: str) -> None:
    world = snapshot(BATCH_PARTITION, preempting_qos=frozenset({"urgent"}))
    assert planned(world, replace(REQUEST, qos=qos)).immediate is False


def test_where_some_qos_preempt_a_job_that_names_none_may_be_given_such_a_one() -> None:
    assert planned(snapshot(BATCH_PARTITION, preempting_qos=frozenset({"urgent"}))).immediate is False


def test_where_slurm_preempts_by_qos_and_the_site_names_none_of_them_any_may() -> None:
    world = snapshot(BATCH_PARTITION, qos_preempts=True)
    assert planned(world, replace(REQUEST, qos="normal")).immediate is False


def test_a_partition_that_refused_just_now_is_not_tried_again_and_others_are() -> None:
    world = snapshot(BATCH_PARTITION, partition("calm", "c"))
    waiting = QueuedPlaceholders(refused=frozenset({"batch"}))
    assert planned(world, waiting=waiting) == SubmissionPlan(Mode.BATCH, False, ())
    assert planned(world, replace(REQUEST, partition="calm"), waiting=waiting).immediate is True


@pytest.mark.parametrize("ahead", ["batch", "other"])
def test_nothing_overtakes_placeholders_that_wait_for_the_same_nodes(ahead: str) -> None:
    world = snapshot(BATCH_PARTITION, partition("other", "b"), partition("far", "z"))
    assert planned(world, waiting=QueuedPlaceholders({ahead: 1})).immediate is False
    assert planned(world, waiting=QueuedPlaceholders({"far": 1, "batch": 0})).immediate is True


@pytest.mark.parametrize(
    "changes",
    [
        {"run_as": RunAs(1000, 1000)},
        {"begin": "now+1hour"},
        {"dependency": "afterok:3"},
        {"partition": "batch,other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_an_immediate_allocation_cannot_express_is_queued(changes: dict[str, object]) -> None:
    world = snapshot(BATCH_PARTITION, partition("other", "b"))
    found = planned(world, replace(REQUEST, **changes))  # type: ignore[arg-type]
    assert (found.mode, found.immediate) == (Mode.BATCH, False)


def test_a_slurm_without_the_call_gets_scripts() -> None:
    assert planned(snapshot(BATCH_PARTITION, allocate=False)).mode is Mode.BATCH


def test_a_partition_that_can_be_preempted_gets_scripts_that_receive_the_warning() -> None:
    low = partition("low", "a", default=True, mode="CANCEL")
    world = snapshot(low, partition("high", "a", tier=10), send_user_signal=True)
    assert planned(world).mode is Mode.BATCH
    assert planned(replace(world, features=FEATURES)).mode is Mode.ALLOCATION


def test_nodes_without_slurmd_alone_make_the_job_external() -> None:
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"a", "b"}))
    assert planned(world) == SubmissionPlan(Mode.EXTERNAL, True, ())


def test_among_nodes_with_slurmd_those_without_are_avoided() -> None:
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"b"}))
    assert planned(world) == SubmissionPlan(Mode.ALLOCATION, True, ("b",))
    assert planned(world, excluded=("a",)) == SubmissionPlan(Mode.EXTERNAL, True, ("a",))


def test_a_queued_external_job_stays_external() -> None:
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"a", "b"}))
    assert planned(world, queue=True) == SubmissionPlan(Mode.EXTERNAL, False, ())


def test_an_external_job_keeps_off_nodes_with_slurmd_unless_the_site_allows_them() -> None:
    request = replace(REQUEST, mode=Mode.EXTERNAL)
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"b"}))
    assert planned(world, request) == SubmissionPlan(Mode.EXTERNAL, True, ("a",))
    assert planned(replace(world, features=replace(FEATURES, external_anywhere=True)), request).excluded == ()
    found = unplanned(snapshot(BATCH_PARTITION), request)
    assert not found.permanent
    assert "jobs.externalAnywhere" in found.text


def test_a_forgotten_job_is_external_if_only_nodes_without_slurmd_were_left_to_it() -> None:
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"b"}))
    assert mode_of(REQUEST, world, ["a"]) is Mode.EXTERNAL
    assert mode_of(REQUEST, world, ["b"]) is Mode.BATCH
    assert mode_of(replace(REQUEST, mode=Mode.EXTERNAL), world, ["b"]) is Mode.EXTERNAL


def test_a_script_requested_by_name_is_never_tried_at_once() -> None:
    assert planned(snapshot(BATCH_PARTITION), replace(REQUEST, mode=Mode.BATCH)) == SubmissionPlan(
        Mode.BATCH, False, ()
    )


@pytest.mark.parametrize(("mode", "lacks"), [(Mode.EXTERNAL, "external"), (Mode.ALLOCATION, "allocate")])
def test_a_mode_that_this_slurm_cannot_do_is_refused_for_good(mode: Mode, lacks: str) -> None:
    world = replace(snapshot(BATCH_PARTITION), features=replace(FEATURES, **{lacks: False}))  # type: ignore[arg-type]
    found = unplanned(world, replace(REQUEST, mode=mode))
    assert found.permanent is True
    assert f"mode {mode} needs Slurm" in found.text


def test_a_pod_without_a_usable_node_gets_an_event_and_waits_for_one() -> None:
    found = unplanned(snapshot(BATCH_PARTITION), REQUEST, excluded=("a", "b"))
    assert found.permanent is False
    assert (
        found.text
        == "none of the nodes that this Pod may use is a Slurm node of the default partition for mode " + (Mode.BATCH)
    )


def test_nodes_without_slurmd_are_no_help_to_a_script() -> None:
    world = snapshot(BATCH_PARTITION, slurmdless=frozenset({"a", "b"}))
    assert "for mode batch" in unplanned(world, replace(REQUEST, mode=Mode.BATCH)).text


def test_an_unknown_partition_is_left_for_slurm_to_refuse() -> None:
    found = planned(snapshot(BATCH_PARTITION), replace(REQUEST, partition="typo"))
    assert found.immediate is False


def test_who_may_preempt_whom() -> None:
    low, high = partition("low", "a", "b", mode="CANCEL"), partition("high", "b", tier=2, mode="CANCEL")
    apart = partition("apart", "c", tier=9)
    world = snapshot(low, high, apart)
    assert may_preempt(world, "high", "") is True
    assert may_preempt(world, "low", "") is False
    assert may_preempt(world, "apart", "") is False
    assert may_preempt(world, "unknown", "") is True
    assert may_be_preempted(world, "low") is True
    assert may_be_preempted(world, "high") is False
    assert may_be_preempted(world, "unknown") is False


@pytest.mark.parametrize("mode", ["", "OFF", "DISABLED"])
def test_a_partition_whose_preemption_is_off_cannot_be_preempted(mode: str) -> None:
    assert may_be_preempted(snapshot(partition("low", "a", mode=mode), partition("high", "a", tier=2)), "low") is False


def test_ends_go_out_before_questions_and_questions_before_new_jobs() -> None:
    member = e.MemberRef("u", "ns", "n")
    queued: list[c.Command] = [
        c.SubmitJob(1, REQUEST, frozenset()),
        c.WakePod(member, "n1", 7),
        c.FollowCandidates(7, REQUEST, frozenset(), ()),
        c.ReadJob(7),
        c.ProbeJob("t"),
        c.CancelJob(7, ""),
        c.EndPod(member, e.EndKind.FAILED, "", False),
    ]
    order = [type(command) for command in sorted(queued, key=rank)]
    assert order[:2] == [c.CancelJob, c.EndPod]
    assert order[2:4] == [c.ReadJob, c.ProbeJob]
    assert order[-1] is c.SubmitJob
