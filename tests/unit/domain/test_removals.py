"""A removed Pod's containers are gone when its kubelet has had the time and the life to end them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from extender.domain.removals import SETTLE_S, Removal, look, removal, removals_in
from extender.domain.views import NodeView, PodView, Taint

NODE = NodeView("n1", uid="u1", ready=True, heartbeat=100.0)
AFTER = replace(NODE, heartbeat=400.0)
AWAY = replace(NODE, ready=None)


@dataclass
class Watch:
    """A removal at 1000, with a grace of 30 s."""

    known: Removal
    now: float = 1000.0
    proven: bool = False

    def see(self, node: NodeView | None, after: float = 0.0) -> Watch:
        self.now += after
        self.known, self.proven = look(self.known, node, self.now)
        return self


def removed(seen: NodeView | None = NODE) -> Watch:
    return Watch(removal("uid-1", "team/train", "n1", 30, seen))


def test_a_kubelet_that_lives_on_has_the_grace_and_a_while() -> None:
    watch = removed().see(AFTER, 200)
    assert not watch.see(AFTER, 29 + SETTLE_S).proven
    assert watch.see(AFTER, 1).proven


def test_what_kubelet_wrote_before_the_removal_says_nothing() -> None:
    assert not removed().see(NODE, 86400).see(NODE, 86400).proven


@pytest.mark.parametrize("away", [AWAY, replace(NODE, ready=False), None], ids=["unknown", "not ready", "deleted"])
def test_a_node_that_is_away_proves_nothing_until_it_is_back_for_the_grace(away: NodeView | None) -> None:
    watch = removed().see(away, 86400)
    assert not watch.proven
    back = replace(AFTER, uid="u2") if away is None else AFTER
    assert not watch.see(back, 1).see(back, 30).proven
    assert watch.see(back, SETTLE_S).proven


def test_a_node_that_goes_away_again_begins_anew() -> None:
    watch = removed().see(AFTER, 10).see(replace(AFTER, ready=None), 10).see(AFTER, 600)
    assert not watch.see(AFTER, 600).proven
    later = replace(AFTER, heartbeat=900.0)
    assert watch.see(later).see(later, 30 + SETTLE_S).proven


@pytest.mark.parametrize("node", [NODE, AWAY])
def test_a_person_may_say_that_the_node_is_shut_down(node: NodeView) -> None:
    taint = Taint("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    assert removed().see(replace(node, taints=(taint,)), 1).proven


def test_a_later_start_reads_them_from_the_reason() -> None:
    first, second = removed().known, Removal("uid-2", "team/other", "n2", 5)
    found = removals_in(f"slurm-extender: {first.text}; Pod team/x outlives its job 7; {second.text}")
    assert found == [replace(first, last=None), second]


@pytest.mark.parametrize(
    ("pod", "stopped"),
    [
        (PodView("u", "ns", "p", node_name="n1", phase="Running"), False),
        (PodView("u", "ns", "p", node_name="n1", phase="Pending"), False),
        (PodView("u", "ns", "p", node_name="n1", phase="Succeeded"), True),
        (PodView("u", "ns", "p", node_name="n1", phase="Failed"), True),
        (PodView("u", "ns", "p", node_name="n1", phase="Failed", container_runs=True), False),
        (PodView("u", "ns", "p", node_name="n1", phase="Failed", disruption="DeletionByPodGC"), False),
        (PodView("u", "ns", "p", node_name="n1", phase="Failed", disruption="TerminationByKubelet"), True),
        (PodView("u", "ns", "p", phase="Pending"), True),
    ],
)
def test_only_kubelets_word_counts(pod: PodView, stopped: bool) -> None:
    assert pod.stopped is stopped
