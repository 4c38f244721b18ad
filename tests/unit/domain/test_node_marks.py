"""What is written on Nodes, and what is never touched there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain.nodes.causes import DrainRules, NodeFacts, TaintRule, causes
from extender.domain.nodes.marks import (
    MarkRules,
    NodePatch,
    NodeStatus,
    change,
    marked,
    native_jobs_in,
    owner_of_marks,
    report,
)
from extender.domain.nodes.unavailable import Unavailable
from extender.domain.views import NodeView, Taint, Toleration
from extender.domain.wellknown import (
    CORDONED_BY,
    MANAGED_TAINT,
    NATIVE_JOB_TAINT,
    NATIVE_JOBS,
    SLURM_AVAILABLE_CONDITION,
    UNAVAILABLE_REASON,
    UNAVAILABLE_TAINT,
    UNCORDONED_MANUALLY,
)
from tests.builders.pod_views import a_node, a_pod

DRAINED = Unavailable("SlurmDrained", "Slurm node n1 is DRAIN: disk")
DOWN = Unavailable("SlurmDown", "Slurm node n1 is DOWN", manual=False)
OFF = MarkRules("slurm")
CORDON = MarkRules("slurm", cordon=True)
ALL = MarkRules("slurm", taint="NoSchedule", cordon=True, managed="NoSchedule", lock="NoExecute")
WELL, ILL = NodeStatus(managed=True), NodeStatus(managed=True, unavailable=DRAINED)
THEIRS = (Taint("gpu", "NoSchedule"), Taint(MANAGED_TAINT, "NoExecute", "other"))


def after(node: NodeView, wanted: NodePatch | None) -> NodeView:
    """The Node as the API server has it then."""
    if wanted is None:
        return node
    annotations = {key: value for key, value in {**node.annotations, **wanted.annotations}.items() if value is not None}
    taints = (*(taint for taint in node.taints if taint not in wanted.remove), *wanted.add)
    cordon = node.unschedulable if wanted.unschedulable is None else wanted.unschedulable
    return replace(node, annotations=annotations, taints=taints, unschedulable=cordon)


def settled(node: NodeView, standing: NodeStatus, rules: MarkRules) -> NodeView:
    """After one change nothing is left to be done."""
    found = after(node, change(node, standing, rules))
    assert change(found, standing, rules) is None
    return found


# The condition.


def test_a_node_that_never_was_unavailable_is_not_written_to() -> None:
    assert report(a_node(), WELL, OFF) is None
    assert report(a_node(conditions={SLURM_AVAILABLE_CONDITION: "True"}), WELL, OFF) is None
    assert report(a_node(), NodeStatus(), OFF) is None


def test_the_condition_follows_slurm_and_is_written_when_it_says_something_else() -> None:
    said = report(a_node(), ILL, OFF)
    assert said is not None
    assert (said.unavailable, said.reason, said.turned, said.note) == (
        True,
        "SlurmDrained",
        True,
        "slurm: Slurm node n1 is DRAIN: disk",
    )
    told = a_node(annotations={UNAVAILABLE_REASON: str(said.note)}, conditions={SLURM_AVAILABLE_CONDITION: "False"})
    assert report(told, ILL, OFF) is None
    other = report(told, NodeStatus(managed=True, unavailable=DOWN), OFF)
    assert other is not None
    assert (other.turned, other.text) == (False, DOWN.text)
    for standing in (WELL, NodeStatus()):
        well = report(told, standing, OFF)
        assert well is not None
        assert (well.unavailable, well.note, well.turned) == (False, None, True)


def test_what_another_extender_says_of_a_node_is_left_as_it_is() -> None:
    theirs = a_node(
        annotations={UNAVAILABLE_REASON: "other: Slurm node n1 is DOWN"},
        conditions={SLURM_AVAILABLE_CONDITION: "False"},
    )
    assert report(theirs, WELL, OFF) is None
    assert report(theirs, ILL, OFF) is None


# The cordon.


def test_a_cordon_of_the_extender_bears_its_name_and_goes_with_its_cause() -> None:
    cordoned = settled(a_node(), ILL, CORDON)
    assert (cordoned.unschedulable, cordoned.annotations) == (True, {CORDONED_BY: "slurm"})
    assert settled(cordoned, WELL, CORDON) == a_node()


@pytest.mark.parametrize("standing", [WELL, ILL])
@pytest.mark.parametrize("mark", [{}, {CORDONED_BY: "other"}, {UNCORDONED_MANUALLY: "slurm"}])
def test_a_cordon_of_others_is_never_lifted(standing: NodeStatus, mark: dict[str, str]) -> None:
    assert settled(a_node(unschedulable=True, annotations=mark), standing, CORDON).unschedulable


def test_an_uncordon_of_the_extenders_cordon_is_obeyed_until_slurm_is_well_again() -> None:
    lifted = settled(replace(settled(a_node(), ILL, CORDON), unschedulable=False), ILL, CORDON)
    assert not lifted.unschedulable
    theirs = settled(replace(lifted, unschedulable=True), ILL, CORDON)
    assert settled(theirs, WELL, CORDON) == a_node(unschedulable=True)
    assert settled(settled(lifted, WELL, CORDON), ILL, CORDON).unschedulable


def test_the_extenders_cordon_is_lifted_where_the_site_wants_none_any_more() -> None:
    assert settled(settled(a_node(), ILL, CORDON), ILL, OFF) == a_node()


# The taints.


def test_each_taint_is_there_exactly_while_it_is_wanted_and_those_of_others_stay() -> None:
    node = a_node(taints=THEIRS)
    every = NodeStatus(managed=True, unavailable=DRAINED, jobs=(7,))
    found = settled(node, every, replace(ALL, cordon=False))
    assert set(found.taints) == {
        *THEIRS,
        Taint(MANAGED_TAINT, "NoSchedule", "slurm"),
        Taint(UNAVAILABLE_TAINT, "NoSchedule", "slurm"),
        Taint(NATIVE_JOB_TAINT, "NoExecute", "slurm"),
    }
    assert settled(found, WELL, ALL).taints == (*THEIRS, Taint(MANAGED_TAINT, "NoSchedule", "slurm"))
    for standing, rules in ((NodeStatus(), ALL), (every, OFF)):
        assert settled(found, standing, rules) == node


def test_another_effect_takes_the_place_of_the_one_before() -> None:
    before = settled(a_node(), WELL, MarkRules("slurm", managed="NoSchedule"))
    found = settled(before, WELL, MarkRules("slurm", managed="NoExecute"))
    assert found.taints == (Taint(MANAGED_TAINT, "NoExecute", "slurm"),)


def test_another_extender_s_taint_of_the_same_effect_counts() -> None:
    node = a_node(taints=(Taint(MANAGED_TAINT, "NoSchedule", "other"),))
    assert change(node, WELL, MarkRules("slurm", managed="NoSchedule")) is None


@pytest.mark.parametrize(
    ("tolerations", "tainted"),
    [((Toleration(operator="Exists"),), True), ((Toleration(key="x", operator="Exists"),), False)],
)
def test_no_taint_keeps_a_slurmd_off_its_own_node(tolerations: tuple[Toleration, ...], tainted: bool) -> None:
    slurmd = a_pod(name="n1", tolerations=tolerations)
    found = settled(a_node(), replace(ILL, slurmds=(slurmd,)), replace(ALL, cordon=False))
    assert bool(found.taints) is tainted
    assert not settled(found, replace(ILL, slurmds=()), ALL).taints


def test_a_slurmd_that_is_away_is_no_reason_to_keep_its_next_pod_off() -> None:
    slurmd = a_pod(name="n1", tolerations=(Toleration(operator="Exists"),))
    rules = MarkRules("slurm", taint="NoSchedule", cordon=True)
    away = NodeStatus(managed=True, unavailable=DOWN, slurmds=(slurmd,))
    assert change(a_node(), away, rules) is None
    assert change(a_node(), replace(away, slurmds=None), rules) is not None


# The lock.


def test_the_jobs_that_lock_a_node_are_named_on_it() -> None:
    found = settled(a_node(), replace(WELL, jobs=(7, 12)), MarkRules("slurm", lock="NoSchedule"))
    assert found.annotations == {NATIVE_JOBS: "slurm: 7,12"}
    assert native_jobs_in(found, "slurm") == (7, 12)
    assert native_jobs_in(found, "other") == ()
    assert settled(found, WELL, MarkRules("slurm", lock="NoSchedule")) == a_node()


# Loops.


@pytest.mark.parametrize("owner", ["slurm", "other"])
def test_nothing_that_an_extender_wrote_on_a_node_drains_it(owner: str) -> None:
    everything: dict[str, Any] = {
        "cordoned": True,
        "taints": tuple(
            TaintRule(key)
            for key in (MANAGED_TAINT, UNAVAILABLE_TAINT, NATIVE_JOB_TAINT, "node.kubernetes.io/unschedulable")
        ),
        "conditions": ((SLURM_AVAILABLE_CONDITION, "False"),),
    }
    rules = replace(ALL, owner=owner)
    found = settled(a_node(), NodeStatus(managed=True, unavailable=DRAINED, jobs=(7,)), rules)
    told = replace(
        found,
        conditions={SLURM_AVAILABLE_CONDITION: "False"},
        taints=(*found.taints, Taint("node.kubernetes.io/unschedulable", "NoSchedule")),
    )
    assert causes(NodeFacts("k1", told), DrainRules(**everything)) == {}
    theirs = replace(told, annotations={UNCORDONED_MANUALLY: owner})
    assert set(causes(NodeFacts("k1", theirs), DrainRules(**everything))) == {"cordoned"}


def test_a_node_with_any_mark_of_the_extender_is_checked() -> None:
    every = settled(a_node(), NodeStatus(managed=True, unavailable=DRAINED, jobs=(7,)), ALL)
    assert marked(every, "slurm")
    assert not marked(a_node(taints=THEIRS, unschedulable=True, annotations={CORDONED_BY: "other"}), "slurm")


def test_a_scheduler_whose_name_no_taint_can_bear_marks_by_a_number() -> None:
    assert owner_of_marks("slurm", "0a1b2c3d") == "slurm"
    assert owner_of_marks("x" * 64, "0a1b2c3d") == "0a1b2c3d"


@pytest.mark.parametrize("jobs", ["9" * 5000, "\u0663", "-7", "1e3", "", "7.0", "4294967296" * 2])
def test_invalid_jobs_that_were_written_on_a_node_are_skipped(jobs: str) -> None:
    node = a_node(annotations={NATIVE_JOBS: f"slurm: {jobs},7"})
    assert native_jobs_in(node, "slurm") == (7,)


def test_no_more_jobs_are_taken_from_a_node_than_are_ever_written_on_one() -> None:
    node = a_node(annotations={NATIVE_JOBS: "slurm: " + ",".join(map(str, range(1, 9000)))})
    assert len(native_jobs_in(node, "slurm")) == 50


@pytest.mark.parametrize("said", ["", "garbage", "slurm", "slurm:", "other", "x" * 100_000])
def test_words_that_no_extender_wrote_do_not_keep_the_condition_as_it_is(said: str) -> None:
    node = a_node(annotations={UNAVAILABLE_REASON: said}, conditions={SLURM_AVAILABLE_CONDITION: "False"})
    well, ill = report(node, WELL, OFF), report(node, ILL, OFF)
    assert well is not None
    assert (well.unavailable, well.note, well.turned) == (False, None, True)
    assert ill is not None
    assert (ill.unavailable, ill.note) == (True, "slurm: Slurm node n1 is DRAIN: disk")
