"""The candidates of a Pod are the nodes that kube-scheduler's filters leave.

`tests/contract/kube/test_candidates.py` asks the real one the same.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from extender.domain.placing.candidates import NeedsKubeScheduler, candidates, demands
from extender.domain.views import AntiAffinity, NodeTerm, NodeView, PodView, Requirement, Taint, Toleration
from tests.builders.pod_views import a_node, a_pod

GPU = a_node("gpu", labels={"zone": "a", "gpus": "8", "model": "h100"})
SMALL = a_node("small", labels={"zone": "a", "gpus": "2"})
BARE = a_node("bare")
NODES = (GPU, SMALL, BARE)


def names(pod: PodView, nodes: Iterable[NodeView], **more: Any) -> set[str]:
    found = candidates(pod, nodes, **more)
    assert not isinstance(found, NeedsKubeScheduler)
    return set(found)


def wants(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"required_terms": (NodeTerm((Requirement(key, operator, values),)),)}


def on_field(operator: str, *values: str) -> dict[str, Any]:
    return {"required_terms": (NodeTerm((), (Requirement("metadata.name", operator, values),)),)}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, "bare gpu small"),
        ({"node_selector": {"zone": "a"}}, "gpu small"),
        ({"node_selector": {"zone": "a", "model": "h100"}}, "gpu"),
        ({"node_name": "gpu"}, "gpu"),
        (wants("zone", "In", "a", "b"), "gpu small"),
        (wants("model", "NotIn", "h100"), "bare small"),
        (wants("model", "Exists"), "gpu"),
        (wants("model", "DoesNotExist"), "bare small"),
        (wants("gpus", "Gt", "2"), "gpu"),
        (wants("gpus", "Lt", "8"), "small"),
        (wants("model", "Gt", "2"), ""),
        (on_field("In", "gpu"), "gpu"),
        (on_field("NotIn", "gpu"), "bare small"),
        ({"required_terms": ()}, ""),
        ({"required_terms": (NodeTerm(),)}, ""),
        ({**wants("zone", "In", "a"), "node_selector": {"model": "h100"}}, "gpu"),
    ],
    ids=str,
)
def test_a_pod_may_use_the_nodes_that_its_selectors_select(said: dict[str, Any], expected: str) -> None:
    assert names(a_pod(**said), NODES) == set(expected.split())


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("zone", "In"),
        Requirement("nowhere", "NotIn"),
        Requirement("zone", "Exists", ("a",)),
        Requirement("nowhere", "DoesNotExist", ("a",)),
        Requirement("gpus", "Gt", ("1", "2")),
        Requirement("gpus", "Gt", ("one",)),
        Requirement("gpus", "Lt", (str(2**63),)),
        Requirement("nowhere", "NotIn", ("no/label",)),
        Requirement("zone", "Like", ("a",)),
    ],
    ids=str,
)
def test_a_term_that_says_nothing_sensible_selects_nothing(requirement: Requirement) -> None:
    other = NodeTerm((Requirement("model", "Exists"),))
    assert names(a_pod(required_terms=(NodeTerm((requirement,)),)), NODES) == set()
    assert names(a_pod(required_terms=(NodeTerm((requirement,)), other)), NODES) == {"gpu"}


def test_a_field_other_than_the_name_selects_nothing() -> None:
    term = NodeTerm((), (Requirement("spec.unschedulable", "NotIn", ("true",)),))
    assert names(a_pod(required_terms=(term,)), NODES) == set()
    assert names(a_pod(**on_field("In", "gpu", "small")), NODES) == set()
    assert names(a_pod(**on_field("Exists")), NODES) == set()


TAINTED = a_node("tainted", taints=(Taint("team", "NoSchedule", "blue"),))


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("team", "Equal", "blue", "NoSchedule"), True),
        (Toleration("team", "", "blue"), True),
        (Toleration("team", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("team", "Equal", "red"), False),
        (Toleration("team", "Exists", "", "NoExecute"), False),
        (Toleration("crew", "Exists"), False),
    ],
    ids=str,
)
def test_a_taint_keeps_off_who_does_not_tolerate_it(toleration: Toleration, covers: bool) -> None:
    assert names(a_pod(), [TAINTED]) == set()
    assert names(a_pod(tolerations=(toleration,)), [TAINTED]) == ({"tainted"} if covers else set())


def test_no_execute_keeps_off_and_prefer_no_schedule_does_not() -> None:
    nodes = [a_node(effect.lower(), taints=(Taint("k", effect),)) for effect in ("NoExecute", "PreferNoSchedule")]
    assert names(a_pod(), nodes) == {"prefernoschedule"}


def test_a_cordoned_node_is_for_those_who_tolerate_that() -> None:
    cordoned = a_node("k1", unschedulable=True)
    assert names(a_pod(), [cordoned]) == set()
    tolerant = a_pod(tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists"),))
    assert names(tolerant, [cordoned]) == {"k1"}


def test_room_counts_only_where_it_is_requested() -> None:
    pod, full = a_pod("4"), a_pod("6", uid="other", name="other", node_name="k1")
    nodes = [a_node("k1"), a_node("k2"), a_node("k3", cpu="2")]
    assert names(pod, nodes) == {"k1", "k2", "k3"}
    present = {"k1": [full]}
    assert names(pod, nodes, present=lambda name: present.get(name, [])) == {"k2"}


def test_a_pod_that_waits_for_room_to_be_left_may_use_the_node() -> None:
    leaving = a_pod("6", uid="other", name="other", node_name="k1", deleted_at=1.0)
    assert names(a_pod("4"), [a_node("k1")], present=lambda _: [leaving]) == {"k1"}


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(beyond=("topology spread",)),
        a_pod(tolerations=(Toleration("k", "Gt", "3"),)),
    ],
    ids=["a part of the Pod", "an operator of some releases"],
)
def test_what_only_kube_scheduler_can_judge_is_said(pod: PodView) -> None:
    said = candidates(pod, NODES)
    assert isinstance(said, NeedsKubeScheduler)
    assert said.why


@pytest.mark.parametrize(
    ("term", "about"),
    [
        (AntiAffinity((("app", "web"),)), True),
        (AntiAffinity(), True),
        (AntiAffinity((("app", "db"),)), False),
        (AntiAffinity((("app", "web"),), namespaces=("elsewhere",)), False),
        (AntiAffinity((("app", "web"),), namespaces=("elsewhere",), everywhere=True), True),
    ],
    ids=str,
)
def test_a_pod_that_another_may_repel_is_shown_to_kube_scheduler(term: AntiAffinity, about: bool) -> None:
    other = a_pod(uid="other", name="shy", node_name="k1", anti_affinity=(term,))
    said = demands(a_pod(labels={"app": "web"}), [other])
    assert (said == NeedsKubeScheduler(("anti-affinity of team/shy",))) is about


def test_pods_of_one_deployment_demand_the_same() -> None:
    one, two = (a_pod(uid=uid, name=uid, node_selector={"b": "1", "a": "2"}, **wants("k", "Exists")) for uid in "ab")
    assert demands(one) == demands(two)
    assert hash(demands(one)) == hash(demands(two))


def test_nodes_that_are_not_ready_are_distinguished_by_their_taints_alone() -> None:
    """kube-scheduler does not look at the Ready condition; kube-controller-manager taints such nodes."""
    assert names(a_pod(), [NodeView("k1", ready=False)]) == {"k1"}


@pytest.mark.parametrize(
    ("resource", "why"),
    [
        (
            "deviceclass.resource.kubernetes.io/gpus",
            "resource deviceclass.resource.kubernetes.io/gpus, for which a DeviceClass may stand",
        ),
        ("example.com/gpu", "resource example.com/gpu, for which a DeviceClass may stand"),
        ("nvidia.com/gpu", ""),
        ("cpu", ""),
        ("hugepages-2Mi", ""),
    ],
)
def test_a_resource_behind_which_a_device_class_may_stand_is_for_kube_scheduler_to_judge(
    resource: str, why: str
) -> None:
    nodes = (a_node("plain"), a_node("gpu", more={"nvidia.com/gpu": "8"}))
    said = candidates(a_pod(more={resource: "1"}), nodes)
    assert said == (NeedsKubeScheduler((why,)) if why else {"plain", "gpu"})
