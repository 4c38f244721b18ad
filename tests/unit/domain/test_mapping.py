"""A Slurm node and a Kubernetes Node are paired by the first thing that says so, and never by guessing."""

from collections.abc import Mapping
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.cluster import SlurmSnapshot
from extender.domain.nodes.mapping import NodeMap, Pairing, grounds, map_nodes
from extender.domain.views import NodeView
from tests.builders.pod_views import a_node
from tests.builders.slurm_snapshots import a_slurm_snapshot

LABEL, BRIDGE = "slurm-extender.io/slurm-node", "slinky.slurm.net/slurm-nodename"
RESTRICTED = "node-restriction.kubernetes.io/slurm-node"


def nodes(*names: str) -> SlurmSnapshot:
    return a_slurm_snapshot({"all": names})


@pytest.mark.parametrize(
    ("node", "paired"),
    [
        (a_node("k1", labels={LABEL: "s1"}), True),
        (a_node("k1", annotations={LABEL: "s1"}), True),
        (a_node("k1", labels={LABEL: "s1"}, annotations={LABEL: "s1"}), True),
        (a_node("k1", labels={BRIDGE: "s1"}), True),
        (a_node("k1", annotations={BRIDGE: "s1"}), True),
        (a_node("s1"), True),
        (a_node("host-of-s1"), True),
        (a_node("k1"), False),
    ],
)
def test_each_source_makes_a_pair(node: NodeView, paired: bool) -> None:
    found = map_nodes([node], a_slurm_snapshot({"all": ["s1"]}, hostnames={"s1": "host-of-s1"}))
    assert dict(found.kubernetes) == ({"s1": node.name} if paired else {})
    assert dict(found.slurm) == ({node.name: "s1"} if paired else {})
    assert found.problems == ()


def test_the_pod_of_a_slurmd_makes_a_pair() -> None:
    found = map_nodes([a_node("k1"), a_node("k2")], nodes("s1"), slurmd_pods={"s1": ["k2"], "s9": ["k1"]})
    assert dict(found.kubernetes) == {"s1": "k2"}


def registered(**nodes: str) -> SlurmSnapshot:
    """Slurm nodes and the Nodes that they were registered for."""
    snapshot = a_slurm_snapshot({"all": list(nodes)})
    made = {name: replace(snapshot.nodes[name], registered_for=node) for name, node in nodes.items()}
    return replace(snapshot, nodes=made)


def test_a_node_that_was_registered_is_the_one_that_it_was_registered_for_whatever_names_say() -> None:
    there = [a_node("k1"), a_node("s1")]
    for by_name in (True, False):
        assert dict(map_nodes(there, registered(s1="k1"), pairing=Pairing(by_name=by_name)).kubernetes) == {"s1": "k1"}


def test_a_registered_node_is_no_other_while_its_own_is_away_or_says_that_it_is_another() -> None:
    assert dict(map_nodes([a_node("s1")], registered(s1="k1")).kubernetes) == {}
    renamed = a_node("k1", labels={LABEL: "s2"})
    found = map_nodes([renamed, a_node("s1")], registered(s1="k1", s2="k1"))
    assert (dict(found.kubernetes), found.problems) == ({"s2": "k1"}, ())


def test_two_slurmds_on_one_node_or_one_on_two_are_in_dispute() -> None:
    found = map_nodes([a_node("k1"), a_node("s1")], nodes("s1", "s2"), {"s1": ["k1"], "s2": ["k1"]})
    assert dict(found.kubernetes) == {}
    assert "Node k1 is stated for Slurm nodes s1, s2 through its slurmd Pod" in found.problems
    found = map_nodes([a_node("k1"), a_node("k2")], nodes("s1"), {"s1": ["k2", "k1"]})
    assert dict(found.kubernetes) == {}
    assert found.problems == ("Slurm node s1 is stated by Nodes k1, k2 through its slurmd Pod",)


def test_a_slurm_node_whose_slurmd_runs_on_another_node_is_not_the_node_of_its_name() -> None:
    found = map_nodes([a_node("k1", labels={LABEL: "s2"}), a_node("s1")], nodes("s1", "s2"), {"s1": ["k1"]})
    assert dict(found.kubernetes) == {"s2": "k1"}
    assert found.problems == ("Slurm node s1: its slurmd Pod is on k1, which is no Node or another's",)


def test_what_was_a_pair_is_remembered_until_one_of_it_has_another_partner() -> None:
    first = map_nodes([a_node("k1", labels={LABEL: "s1"}), a_node("k2")], nodes("s1"))
    away = map_nodes([a_node("k2")], nodes("s1"), before=first)
    assert not away.slurm
    assert away.last_slurm(["k1", "k2"]) == {"s1"}
    assert map_nodes([], nodes("s1"), before=away).last_slurm(["k1"]) == {"s1"}
    taken = map_nodes([a_node("k2", labels={LABEL: "s1"})], nodes("s1"), before=away)
    assert not taken.last_slurm(["k1"])
    assert taken.last_slurm(["k2"]) == {"s1"}
    renamed = map_nodes([a_node("k1", labels={LABEL: "s2"})], nodes("s1", "s2"), before=first)
    assert renamed.last_slurm(["k1"]) == {"s2"}
    assert not map_nodes([a_node("k2")], nodes("s2"), before=first).last_slurm(["k1"])


def test_sources_go_in_order() -> None:
    snapshot = a_slurm_snapshot({"all": ["s1", "s2", "s3", "s4", "k1"]}, hostnames={"s4": "k1"})
    labels = {LABEL: "s1", BRIDGE: "s2"}
    slurmds = {"s3": ["k1"]}
    assert map_nodes([a_node("k1", labels=labels)], snapshot, slurmds).slurm["k1"] == "s1"
    assert map_nodes([a_node("k1", labels={BRIDGE: "s2"})], snapshot, slurmds).slurm["k1"] == "s2"
    assert map_nodes([a_node("k1")], snapshot, slurmds).slurm["k1"] == "s3"
    assert map_nodes([a_node("k1")], snapshot).slurm["k1"] == "k1"


@pytest.mark.parametrize("key", [LABEL, BRIDGE])
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_who_states_the_name_of_another_node_gets_no_pair_and_neither_does_that_node(key: str, where: str) -> None:
    thief = a_node("k1", **{where: {key: "s4"}})  # type: ignore[arg-type]
    found = map_nodes([thief, a_node("s4"), a_node("s2")], nodes("k1", "s4", "s2"))
    assert dict(found.kubernetes) == {"s2": "s2"}
    (problem,) = found.problems
    assert f"Node k1: label or annotation {key} names 's4', which is Node s4" in problem


def test_the_name_of_another_node_is_also_its_hostname_its_registration_and_where_its_slurmd_runs() -> None:
    thief, victim = a_node("k1", annotations={LABEL: "s1"}), a_node("k2")
    by_hostname = map_nodes([thief, victim], a_slurm_snapshot({"all": ["s1"]}, hostnames={"s1": "k2"}))
    by_registration = map_nodes([thief, victim], registered(s1="k2"))
    by_slurmd = map_nodes([thief, victim], nodes("s1"), {"s1": ["k2"]}, pairing=Pairing(by_name=False))
    for found in (by_hostname, by_registration, by_slurmd):
        assert dict(found.kubernetes) == {}
        assert "which is Node k2" in found.problems[0]


def test_nodes_that_all_state_their_names_may_have_each_others() -> None:
    there = [a_node("s1", labels={LABEL: "s2"}), a_node("s2", labels={LABEL: "s1"})]
    assert dict(map_nodes(there, nodes("s1", "s2")).kubernetes) == {"s2": "s1", "s1": "s2"}


def test_where_the_site_says_so_only_the_label_that_no_kubelet_can_write_is_a_statement() -> None:
    said = {"node-restriction.kubernetes.io/slurm-node": "s1"}
    there = [a_node("k1", labels=said), a_node("k2", labels={LABEL: "s2"}), a_node("s3", annotations={BRIDGE: "s2"})]
    found = map_nodes(there, nodes("s1", "s2", "s3"), pairing=Pairing(restricted=True))
    assert dict(found.kubernetes) == {"s1": "k1", "s3": "s3"}
    assert dict(map_nodes([a_node("k1", labels={**said, LABEL: "s2"})], nodes("s1", "s2")).kubernetes) == {"s1": "k1"}


def test_no_annotation_is_taken_for_the_label_that_no_kubelet_can_write() -> None:
    thief = a_node("k1", annotations={RESTRICTED: "s2"})
    for victim in (a_node("s2"), a_node("k2", labels={LABEL: "s2"}), a_node("k2", labels={RESTRICTED: "s2"})):
        for pairing in (Pairing(), Pairing(restricted=True)):
            found = map_nodes([thief, victim], nodes("s1", "s2"), pairing=pairing)
            assert "k1" not in found.slurm
    assert dict(found.kubernetes) == {"s2": "k2"}
    assert not found.problems


def test_no_node_gets_the_name_that_another_one_states_under_a_weaker_key() -> None:
    thief, victim = a_node("k1", annotations={LABEL: "s2"}), a_node("k2", labels={BRIDGE: "s2"})
    found = map_nodes([thief, victim, a_node("s3")], nodes("k1", "s2", "s3"))
    assert dict(found.kubernetes) == {"s3": "s3"}
    (problem,) = found.problems
    assert f"k1 ({LABEL}), k2 ({BRIDGE})" in problem


def test_the_label_that_no_kubelet_can_write_holds_against_what_others_state() -> None:
    thieves = [a_node("k1", annotations={LABEL: "s2"}), a_node("k3", annotations={BRIDGE: "s2"})]
    found = map_nodes([*thieves, a_node("k2", labels={RESTRICTED: "s2"})], nodes("k1", "s2"))
    assert found.kubernetes["s2"] == "k2"


def test_two_nodes_that_state_one_name_are_both_left_out() -> None:
    disputed = [a_node("k1", labels={LABEL: "s1"}), a_node("k2", annotations={LABEL: "s1"})]
    found = map_nodes(disputed, nodes("s1"))
    assert found.kubernetes == {}
    (problem,) = found.problems
    assert "s1 is stated by Nodes k1, k2" in problem


def test_a_label_and_an_annotation_that_differ_leave_the_node_out() -> None:
    found = map_nodes([a_node("k1", labels={LABEL: "s1"}, annotations={LABEL: "s2"})], nodes("s1", "s2"))
    assert found.kubernetes == {}
    (problem,) = found.problems
    assert "Node k1 is stated for Slurm nodes s1, s2" in problem


def test_a_stated_name_that_slurm_does_not_know_is_a_problem_and_nothing_else_is_tried() -> None:
    found = map_nodes([a_node("s1", labels={LABEL: "s9"})], nodes("s1"))
    assert found.kubernetes == {}
    (problem,) = found.problems
    assert "Node s1" in problem
    assert "'s9'" in problem


def test_several_slurmds_of_one_host_are_ambiguous_unless_something_better_says() -> None:
    snapshot = a_slurm_snapshot({"all": ["s1", "s2"]}, hostnames={"s1": "k1", "s2": "k1"})
    assert map_nodes([a_node("k1")], snapshot).kubernetes == {}
    assert len(map_nodes([a_node("k1")], snapshot).problems) == 1
    assert dict(map_nodes([a_node("k1", labels={LABEL: "s2"})], snapshot).kubernetes) == {"s2": "k1"}


def test_nodes_of_one_side_only_are_no_problem() -> None:
    found = map_nodes([a_node("control-plane")], nodes("login"))
    assert (found.known, found.problems, found.slurm) == (True, (), {})
    assert (found.without_slurm, found.without_kubernetes) == (("control-plane",), ("login",))


def test_before_slurm_has_been_read_nothing_is_paired_and_nothing_is_wrong() -> None:
    assert map_nodes([a_node("k1", labels={LABEL: "s1"})], SlurmSnapshot()) == NodeMap()


def test_a_map_cannot_be_changed() -> None:
    found = map_nodes([a_node("s1")], nodes("s1"))
    with pytest.raises(TypeError):
        found.kubernetes["s1"] = "k9"  # type: ignore[index]


def test_names_are_translated_as_far_as_there_are_pairs() -> None:
    found = map_nodes([a_node("k1", labels={LABEL: "s1"})], nodes("s1", "s2"))
    assert found.to_slurm(["k1", "k2"]) == {"s1"}
    assert found.to_kubernetes(["s1", "s2"]) == {"k1"}


_names = st.sampled_from(["a", "b", "c", "d"])
_nodes = st.lists(
    st.builds(
        a_node,
        name=_names,
        labels=st.dictionaries(st.sampled_from([LABEL, BRIDGE]), _names),
        annotations=st.dictionaries(st.sampled_from([LABEL, BRIDGE]), _names),
    ),
    unique_by=lambda node: node.name,
)


_slurmds = st.dictionaries(_names, st.lists(_names, min_size=1, max_size=2, unique=True))
_sides = st.tuples(_nodes, st.sets(_names), st.dictionaries(_names, _names), _slurmds)


def one_to_one(pairs: Mapping[str, str]) -> bool:
    return len(set(pairs.values())) == len(pairs)


@given(st.lists(_sides, min_size=1, max_size=4))
def test_every_map_is_one_to_one_whatever_was_before_and_independent_of_order(sides: list[Any]) -> None:
    found = NodeMap()
    for given_nodes, slurm, hostnames, slurmds in sides:
        before, snapshot = found, a_slurm_snapshot({"all": slurm}, hostnames=hostnames)
        found = map_nodes(given_nodes, snapshot, slurmds, before)
        names = {node.name for node in given_nodes}
        assert {node: name for name, node in found.kubernetes.items()} == found.slurm
        assert one_to_one(found.slurm)
        assert found.kubernetes.keys() <= slurm
        assert found.slurm.keys() <= names
        assert one_to_one(found.last)
        assert found.slurm.items() <= found.last.items()
        assert found.last.items() <= before.last.items() | found.slurm.items()
        if found.known:
            assert set(found.without_slurm) == names - found.slurm.keys()
            assert set(found.without_kubernetes) == slurm - found.kubernetes.keys()
        for node in given_nodes:
            stated = {v for v in (node.labels.get(LABEL), node.annotations.get(LABEL)) if v}
            if node.name in found.slurm and stated:
                assert stated == {found.slurm[node.name]}
            paired = found.slurm.get(node.name)
            if paired in slurmds and not {LABEL, BRIDGE} & {*node.labels, *node.annotations}:
                assert slurmds[paired] == [node.name]
        assert map_nodes(reversed(given_nodes), snapshot, slurmds, before) == found
        assert map_nodes(given_nodes, snapshot, slurmds, found) == found


@given(_sides, _sides)
def test_the_same_grounds_give_the_same_map(one: Any, other: Any) -> None:
    for was, now in ((one, other), (one, (*other[:2], *one[2:])), (one, (one[0], *other[1:])), (one, one)):
        on_was, on_now = ((a_slurm_snapshot({"all": side[1]}, hostnames=side[2]), side[3]) for side in (was, now))
        if grounds(was[0], *on_was) == grounds(now[0], *on_now):
            found = map_nodes(was[0], *on_was)
            assert map_nodes(now[0], *on_now, found) == found


@pytest.mark.parametrize(
    ("node", "snapshot", "slurmds"),
    [
        (a_node("k1"), nodes("s1"), {}),
        (a_node("k2", labels={LABEL: "s1"}), nodes("s1"), {}),
        (a_node("k2", annotations={BRIDGE: "s1"}), nodes("s1"), {}),
        (a_node("k2"), nodes("s2"), {}),
        (a_node("k2"), a_slurm_snapshot({"all": ["s1"]}, hostnames={"s1": "k2"}), {}),
        (a_node("k2"), registered(s1="k2"), {}),
        (a_node("k2"), nodes("s1"), {"s1": ["k2"]}),
    ],
)
def test_whatever_may_change_a_map_is_among_its_grounds(
    node: NodeView, snapshot: SlurmSnapshot, slurmds: Mapping[str, list[str]]
) -> None:
    assert grounds([node], snapshot, slurmds) != grounds([a_node("k2")], nodes("s1"))


def test_what_a_slurm_node_was_is_found_as_quickly_among_many_nodes() -> None:
    many = [f"n{number}" for number in range(5_000)]
    found = map_nodes([a_node(name) for name in many], nodes(*many))
    later = map_nodes([a_node(name) for name in many[1:]], nodes(*many), before=found)
    began = process_time()
    assert all(later.last_kubernetes(name) == later.partner(name) == name for name in many for _ in range(4))
    assert later.partner("nobody") is None
    assert process_time() - began < 2.0  # one after the other it is twenty times that
