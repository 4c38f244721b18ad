"""What Kubernetes says of a Node, and whether Slurm is to hear of it."""

from __future__ import annotations

import pytest

from extender.domain.nodes.causes import DrainRules, NodeFacts, TaintRule, causes, deleted_in
from extender.domain.views import NodeView, PodView, Taint
from tests.builders.pod_views import a_node, a_pod

RULES = DrainRules(
    taints=(TaintRule("bad"), TaintRule("gpu", "lost", "NoExecute")), conditions=(("KernelDeadlock", "True"),)
)
SLURMD = a_pod(namespace="slurm", name="s1", node_name="k1", ready=True)


def kinds(node: NodeView | None, rules: DrainRules = RULES, not_ready_s: float | None = None) -> set[str]:
    return set(causes(NodeFacts("k1", node, not_ready_s), rules))


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (a_node("k1"), set()),
        (a_node("k1", unschedulable=True), {"cordoned"}),
        (None, {"deleted"}),
        (a_node("k1", taints=(Taint("bad", "NoSchedule", "x"),)), {"taint bad"}),
        (a_node("k1", taints=(Taint("gpu", "NoExecute", "lost"),)), {"taint gpu=lost:NoExecute"}),
        (a_node("k1", taints=(Taint("gpu", "NoSchedule", "lost"), Taint("gpu", "NoExecute", "there"))), set()),
        (a_node("k1", conditions={"KernelDeadlock": "True"}), {"condition KernelDeadlock"}),
        (a_node("k1", conditions={"KernelDeadlock": "False"}), set()),
    ],
)
def test_each_cause_counts_as_the_site_says(node: NodeView | None, found: set[str]) -> None:
    assert kinds(node) == found
    assert kinds(node, DrainRules(cordoned=False, not_ready_after=None, deleted=False, slurmd=False)) == set()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "Node k1 is cordoned"),
        ("  bad disk; #4711 ", "Node k1 is cordoned (bad_disk_#4711)"),
        ("Node k2 was deleted", "Node k1 is cordoned (Node_k2_was_deleted)"),
        ("x" * 300, f"Node k1 is cordoned ({'x' * 60})"),
    ],
)
def test_what_an_administrator_cordoned_a_node_for_stands_in_the_cause_and_does_not_read_as_the_extenders(
    said: str, words: str
) -> None:
    node = a_node("k1", unschedulable=True, annotations={"slurm-extender.io/drain-reason": said})
    assert causes(NodeFacts("k1", node), RULES) == {"cordoned": words}
    assert deleted_in(words) == ""


def test_a_node_that_is_not_ready_counts_after_its_time() -> None:
    node = a_node("k1", ready=False)
    assert kinds(node, not_ready_s=29.9) == set()
    assert kinds(node, not_ready_s=30.0) == {"not ready"}
    assert kinds(node, DrainRules(not_ready_after=None), not_ready_s=1e6) == set()


@pytest.mark.parametrize(
    ("pods", "had", "word"),
    [
        ((SLURMD,), "slurm/s1", ""),
        ((), "", ""),
        ((), "slurm/s1", "is gone"),
        ((a_pod(namespace="slurm", name="s1", ready=True, deleted_at=1.0),), "slurm/s1", "is ending"),
        ((a_pod(namespace="slurm", name="s1", ready=False),), "slurm/s1", "is not Ready"),
        ((a_pod(namespace="slurm", name="s1", ready=True, phase="Failed"),), "slurm/s1", "is gone"),
    ],
)
def test_a_slurmd_that_ends_or_is_not_ready_counts(pods: tuple[PodView, ...], had: str, word: str) -> None:
    found = causes(NodeFacts("k1", a_node("k1"), slurmds=pods, had_slurmd=had), RULES)
    assert set(found) == ({"slurmd"} if word else set())
    assert word in found.get("slurmd", "")


def test_a_later_start_reads_from_the_reason_which_node_was_deleted() -> None:
    (text,) = causes(NodeFacts("gpu-1.site", None), RULES).values()
    assert deleted_in(f"slurm-extender: [01234567] {text}; Pod x outlives its job 7") == "gpu-1.site"
    assert deleted_in("slurm-extender: Node k1 is cordoned") == ""
