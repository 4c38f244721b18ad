"""What a Node is to be in Slurm, and what has to be done so that it is that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain.cluster import SlurmNode
from extender.domain.nodes.external_changes import Step, compare
from extender.domain.nodes.external_nodes import (
    DesiredNode,
    ExternalRules,
    FeatureRule,
    TopologyRule,
    Unfit,
    mark,
    marked,
    slurm_name,
    wanted,
)
from extender.domain.policy.selectors import Selector
from extender.domain.policy.site import TranslationPolicy
from extender.domain.views import NodeView, PodView
from extender.domain.wellknown import BRIDGE_SLURM_NODE, SLURM_NODE
from tests.builders.pod_views import a_node, a_pod

LABELS = {"slurm": "yes", "zone": "z1", "rack": "r7"}
RULES = ExternalRules(Selector({"slurm": "yes"}), schedulers=frozenset({"slurm"}))


def node(**fields: Any) -> NodeView:
    return a_node("k1", **{"labels": LABELS, "internal_ip": "10.0.0.1", "cpu": "8", "memory": "32Gi", **fields})


def of_the_system(cpu: str = "500m", memory: str = "512Mi", **fields: Any) -> PodView:
    return a_pod(cpu, memory, of_its_node=True, scheduler_name="default-scheduler", **fields)


def want(**fields: Any) -> DesiredNode:
    return replace(wanted(node(), [], RULES), **fields)


def has(**fields: Any) -> SlurmNode:
    made = SlurmNode("k1", address="10.0.0.1", cpus=8, memory_mb=32768, registered_for="k1")
    return replace(made, **fields)


def test_a_node_has_what_is_left_of_it_beside_the_pods_of_the_system_in_whole_cpus() -> None:
    pods = [of_the_system(), of_the_system("100m"), a_pod("4", scheduler_name="default-scheduler")]
    found = wanted(node(), pods, RULES)
    assert (found.name, found.node, found.address) == ("k1", "k1", "10.0.0.1")
    assert (found.cpus, found.memory_mb) == (7, 32768 - 1024)


def test_pods_of_the_system_that_have_ended_or_have_a_placeholder_take_nothing_away() -> None:
    pods = [of_the_system(phase="Succeeded"), replace(of_the_system(), scheduler_name="slurm")]
    assert (wanted(node(), pods, RULES).cpus, wanted(node(), pods, RULES).memory_mb) == (8, 32768)


@pytest.mark.parametrize(
    ("one", "pods", "why"),
    [
        (node(internal_ip=""), [], "InternalIP"),
        (node(allocatable={}), [], "lacks its CPUs"),
        (node(allocatable={"cpu": "x", "memory": "1Gi"}), [], "'x' is no Kubernetes quantity"),
        (node(), [of_the_system("7500m")], "0 whole CPUs and 32256 MiB are left"),
        (node(), [of_the_system(memory="32Gi")], "7 whole CPUs and 0 MiB"),
        (node(), [of_the_system(memory="lots")], "'lots' is no Kubernetes quantity"),
        (node(labels=LABELS | {SLURM_NODE: "a"}, annotations={SLURM_NODE: "b"}), [], "differ: a and b"),
    ],
)
def test_a_node_of_which_something_is_missing_is_not_guessed_at(one: NodeView, pods: list[PodView], why: str) -> None:
    with pytest.raises(Unfit, match=why):
        wanted(one, pods, RULES)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "k1"),
        ({"labels": {SLURM_NODE: "s1"}}, "s1"),
        ({"annotations": {SLURM_NODE: "s1"}, "labels": {BRIDGE_SLURM_NODE: "s2"}}, "s1"),
        ({"annotations": {BRIDGE_SLURM_NODE: "s2"}}, "s2"),
    ],
)
def test_its_name_is_its_own_unless_the_node_says_another(fields: dict[str, Any], name: str) -> None:
    assert slurm_name(node(**fields)) == name


def test_gpus_have_the_name_and_type_that_jobs_request() -> None:
    policy = TranslationPolicy(gpu_type_labels=("model",), gpu_types={"H100-80": "h100", "A100": "a100"})
    rules = replace(RULES, translation=policy)
    more = {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "7", "example.com/strange": "3", "hugepages-2Mi": "1Gi"}
    assert wanted(node(more=more), [], rules).gres == {"gpu": 8, "gpu:1g.10gb": 7}
    typed = wanted(node(more=more, labels=LABELS | {"model": "H100-80"}), [], rules)
    assert typed.gres == {"gpu:h100": 8, "gpu:1g.10gb": 7}
    assert wanted(node(more={"nvidia.com/gpu": "0"}), [], rules).gres == {}
    both = replace(rules, translation=replace(policy, gpu_type_labels=("model", "other")))
    with pytest.raises(Unfit, match="more than one type of GPU: a100, h100"):
        wanted(node(more=more, labels=LABELS | {"model": "H100-80", "other": "A100"}), [], both)


def test_labels_are_features_and_units_of_topologies() -> None:
    rules = replace(
        RULES,
        node_sets=("k8s",),
        features=(
            FeatureRule("zone", "zone-{value}"),
            FeatureRule("rack", "special", "r8"),
            FeatureRule("slurm", "yes", "yes"),
            FeatureRule("missing", "x-{value}"),
        ),
        topologies=(
            TopologyRule("tree", ("zone", "rack"), "root"),
            TopologyRule("nvl", ("missing",)),
            TopologyRule("block", ("rack",)),
        ),
    )
    found = wanted(node(), [], rules)
    assert found.features == ("k8s", "yes", "zone-z1")
    assert found.topology == "tree:root:z1:r7,block:r7"
    nowhere = wanted(node(labels={"slurm": "yes", "zone": ""}), [], rules)
    assert (nowhere.topology, nowhere.features) == ("", ("k8s", "yes", "zone-"))


@pytest.mark.parametrize("feature", ["", "a b", "a&b", "{other}", "a,b"])
def test_what_can_be_no_feature_of_slurm_is_refused(feature: str) -> None:
    with pytest.raises(ValueError, match="must consist of letters"):
        FeatureRule("zone", feature)


def test_without_a_selector_and_while_all_are_removed_no_node_is_meant() -> None:
    assert RULES.meant(node())
    assert not RULES.meant(node(labels={}))
    assert not replace(RULES, remove=True).meant(node())
    assert not ExternalRules().meant(node())


@pytest.mark.parametrize(
    "features",
    [(), ("k8s",), ("slurm-extender",), ("slurm-extender:x",), ("slurm-extender:a:k1", "slurm-extender:b:k1")],
)
def test_a_node_with_other_features_has_no_owner(features: tuple[str, ...]) -> None:
    assert marked(features) == ("", "")


def test_a_mark_says_who_registered_which_node_and_is_one_word() -> None:
    assert marked(("k8s", mark("01234567", "ip-10-0-0-1.internal"))) == ("01234567", "ip-10-0-0-1.internal")
    assert not any(letter.isspace() or letter == "," for letter in mark("01234567", "k1"))


@pytest.mark.parametrize(
    ("wish", "there", "step"),
    [
        (want(), None, Step.CREATE),
        (None, None, Step.NOTHING),
        (want(), has(), Step.NOTHING),
        (None, has(), Step.DELETE),
        (None, has(registered_for=""), Step.NOTHING),
        (want(), has(registered_for=""), Step.LEAVE),
        (want(), has(registered_for="k2"), Step.DELETE),
        (want(cpus=9), has(), Step.RENEW),
        (want(cpus=7), has(), Step.RENEW),
        (want(memory_mb=32767), has(), Step.RENEW),
        (want(memory_mb=33000), has(), Step.NOTHING),
        (want(memory_mb=64000), has(), Step.RENEW),
        (want(gres={"gpu": 2}), has(), Step.RENEW),
        (want(gres={"gpu:a": 2}), has(gres={"gpu": 2}), Step.RENEW),
        (want(), has(gres={"gpu": 1}), Step.RENEW),
        (want(cpus=1, ready=False), has(), Step.NOTHING),
        (want(features=("a", "b")), has(features=("b", "a")), Step.NOTHING),
    ],
)
def test_what_is_to_be_done_follows_from_both_sides(
    wish: DesiredNode | None, there: SlurmNode | None, step: Step
) -> None:
    assert compare(wish, there, RULES).step is step


@pytest.mark.parametrize(
    ("wish", "keys"),
    [
        (want(address="10.0.0.2"), ("address",)),
        (want(features=("a",)), ("features",)),
        (want(topology="tree:a"), ("topology",)),
        (want(features=("a",), topology="tree:a", ready=False), ("features", "topology")),
    ],
)
def test_what_slurm_can_change_is_changed_in_place(wish: DesiredNode, keys: tuple[str, ...]) -> None:
    change = compare(wish, has(), replace(RULES, topologies=(TopologyRule("tree", ("zone",)),)))
    assert (change.step, change.keys) == (Step.UPDATE, keys)


def test_a_place_in_an_unconfigured_topology_belongs_to_another() -> None:
    assert compare(want(), has(topology="tree:root:s1"), RULES).step is Step.NOTHING


def test_features_of_node_sets_are_not_changed_in_place() -> None:
    features = (FeatureRule("zone", "zone-{value}", node_set=True), FeatureRule("rack", "rack-{value}"))
    rules = replace(RULES, node_sets=("k8s",), features=features)
    before = has(features=("k8s", "zone-a", "rack-1"))
    for now, step in (
        (("k8s", "zone-a", "rack-2"), Step.UPDATE),
        (("k8s", "zone-b", "rack-1"), Step.RENEW),
        (("k8s", "rack-1"), Step.RENEW),
        (("zone-a", "rack-1"), Step.RENEW),
    ):
        assert compare(want(features=now), before, rules).step is step
    assert compare(want(features=("k8s", "zone-b")), before, rules).text == (
        "Node k1 is in other node sets: zone-a, zone-b"
    )


def test_the_sentence_says_what_differs() -> None:
    text = compare(want(cpus=4, memory_mb=1000, gres={"gpu": 7}), has(gres={"gpu": 8}), RULES).text
    assert text == "Node k1 has 4 CPUs instead of 8, 7 gpu instead of 8, 1000 MiB instead of 32768"
