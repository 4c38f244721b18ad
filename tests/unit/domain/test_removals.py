"""A removed Pod's containers are gone when its kubelet has had the time and the life to end them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from extender.domain.nodes.removals import HEARS_S, SETTLE_S, Removal, check, removal, removals_in
from extender.domain.views import NodeView, PodView, Taint

NODE = NodeView("n1", uid="u1", ready=True, heartbeat=100.0)
AWAY = replace(NODE, ready=None)
GRACE_S = 30


@dataclass
class Watch:
    """A removal at 1000."""

    known: Removal
    now: float = 1000.0
    proven: bool = False

    def see(self, node: NodeView | None = NODE, renewed: str = "", after: float = 0.0) -> Watch:
        self.now += after
        self.known, self.proven = check(self.known, node, self.now, renewed)
        return self


def removed(seen: NodeView | None = NODE) -> Watch:
    return Watch(removal("uid-1", "team/train", "n1", GRACE_S, seen))


def later(heartbeat: float) -> NodeView:
    return replace(NODE, heartbeat=heartbeat)


def test_a_kubelet_that_runs_on_is_given_time_to_receive_the_grace_and_a_while() -> None:
    watch = removed().see(renewed="1").see(renewed="2", after=8)
    assert not watch.see(renewed="9", after=HEARS_S + GRACE_S).proven
    assert not watch.see(renewed="10", after=5).see(after=SETTLE_S - 1).proven
    assert watch.see(after=1).proven


def test_the_status_of_the_node_is_a_word_too() -> None:
    watch = removed().see(later(400.0)).see(later(400.0), after=HEARS_S + GRACE_S)
    assert watch.see(later(700.0), after=200).see(later(700.0), after=SETTLE_S).proven


def test_what_kubelet_wrote_before_the_removal_says_nothing() -> None:
    assert not removed().see(after=86400).see(renewed="1").see(renewed="1", after=86400).proven


def test_a_lease_that_could_not_be_read_says_nothing() -> None:
    watch = removed().see(renewed="1").see(renewed="", after=86400)
    assert watch.known.words == 0
    assert watch.see(renewed="2").known.words == 1


def test_a_kubelet_that_died_before_the_grace_had_passed_has_proved_nothing() -> None:
    watch = removed().see(renewed="1").see(renewed="2", after=10)
    assert not watch.see(renewed="5", after=HEARS_S + GRACE_S).see(renewed="5", after=86400).proven


@pytest.mark.parametrize("away", [AWAY, replace(NODE, ready=False), None], ids=["unknown", "not ready", "deleted"])
def test_a_node_that_is_away_proves_nothing_until_it_is_back_for_the_grace(away: NodeView | None) -> None:
    watch = removed().see(away, after=86400)
    assert not watch.proven
    uid = "u2" if away is None else "u1"
    back, longer = replace(NODE, uid=uid, heartbeat=400.0), replace(NODE, uid=uid, heartbeat=700.0)
    assert not watch.see(back).see(back, after=HEARS_S + GRACE_S).see(back, after=SETTLE_S).proven
    assert watch.see(longer).see(longer, after=SETTLE_S).proven


@pytest.mark.parametrize("renewals", [["1", "2"], ["1", "2", "8", "9"]], ids=["after one word", "after both"])
def test_a_node_that_goes_away_again_starts_again(renewals: list[str]) -> None:
    watch = removed()
    for renewed in renewals:
        watch.see(renewed=renewed, after=HEARS_S + GRACE_S)
    watch.see(AWAY, after=1)
    assert not watch.see(after=600).proven
    assert not watch.see(renewed="20").see(renewed="21", after=HEARS_S + GRACE_S).see(after=SETTLE_S).proven
    assert watch.known.words == 1


@pytest.mark.parametrize("held_s", [HEARS_S, HEARS_S + GRACE_S + 1])
def test_the_lease_is_read_only_where_it_decides_something(held_s: float) -> None:
    watch = removed()
    assert watch.known.needs_lease(NODE, watch.now)
    assert not watch.known.needs_lease(AWAY, watch.now)
    watch.see(renewed="1").see(renewed="2", after=10)
    assert watch.known.needs_lease(NODE, watch.now + held_s) is (held_s > HEARS_S + GRACE_S)


@pytest.mark.parametrize("node", [NODE, AWAY])
def test_an_administrator_may_say_that_the_node_is_shut_down(node: NodeView) -> None:
    taint = Taint("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    assert removed().see(replace(node, taints=(taint,))).proven


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


def test_an_invalid_grace_in_a_reason_is_ignored() -> None:
    said = "slurm-extender: Pod a/b (u) was removed from k without a kubelet report, grace {} s"
    assert removals_in(said.format("9" * 5000)) == []
    assert len(removals_in(said.format("30"))) == 1
