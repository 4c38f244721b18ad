"""Drains of Slurm nodes: ours while somebody holds the node, never anybody else's."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from extender.domain.nodes import machine as n
from extender.domain.nodes.causes import deleted_in, may_say_not_ready
from extender.domain.nodes.drain_reasons import (
    LONGEST,
    drainer,
    earlier_reason,
    is_own_drain,
    own_reason,
    quoted,
    reason,
    with_earlier_reason,
)
from extender.domain.nodes.removals import Removal, removals_in
from extender.domain.wellknown import DRAIN_PREFIX

OURS = n.NodeSeen(True, f"{DRAIN_PREFIX} Pod team/train outlives its job 7")
FOREIGN = n.NodeSeen(True, "bad DIMM")
UNDRAINED = n.NodeSeen(False, "")


@dataclass
class Hold:
    """One node, its clock, and the commands of its last event."""

    node: n.SlurmNodeHold = field(default_factory=lambda: n.SlurmNodeHold("a"))
    now: float = 100.0
    commands: list[n.NodeCommand] = field(default_factory=list)

    def notify(self, *events: n.NodeEvent) -> Hold:
        for event in events:
            self.node, self.commands = n.step(self.node, event, self.now)
        return self

    def hold(self, cause: str = "uid-1", text: str = "Pod team/train outlives its job 7") -> Hold:
        return self.notify(n.HoldRequested(cause, text))


def drained() -> Hold:
    return Hold().hold().notify(n.DrainAnswered(True), OURS)


def test_a_hold_drains_the_node_and_says_why() -> None:
    hold = Hold().hold()
    assert hold.commands == [n.DrainNode("a", f"{DRAIN_PREFIX} Pod team/train outlives its job 7")]
    assert hold.node.state is n.DrainState.DRAINING


def test_the_same_hold_again_requests_nothing() -> None:
    assert Hold().hold().hold().commands == []


def test_a_drain_that_is_not_seen_is_requested_again() -> None:
    hold = Hold().hold()
    assert hold.node.retry_at == hold.now + n.RETRY
    hold.now += n.RETRY
    assert hold.notify(n.NodeTimer()).commands


def test_a_drain_that_was_refused_is_requested_again() -> None:
    hold = Hold().hold().notify(n.DrainAnswered(False))
    assert hold.node.retry_at == hold.now + n.RETRY


def test_a_drain_that_is_seen_owes_nothing() -> None:
    hold = drained()
    assert hold.node.state is n.DrainState.DRAINED
    assert hold.node.retry_at is None
    assert hold.notify(n.NodeTimer(), OURS).commands == []


def test_the_drain_stays_until_the_last_hold_is_released() -> None:
    hold = drained().hold("cordon", "The Node is cordoned.").notify(OURS)
    assert hold.notify(n.HoldReleased("uid-1")).commands == []
    assert hold.notify(n.HoldReleased("cordon")).commands == [n.ResumeNode("a")]


def test_a_hold_that_was_never_requested_releases_nothing() -> None:
    assert drained().notify(n.HoldReleased("nobody")).commands == []


def test_the_node_is_free_only_when_the_drain_is_seen_to_be_gone() -> None:
    hold = drained().notify(n.HoldReleased("uid-1"), n.DrainAnswered(True))
    assert hold.node.state is n.DrainState.RESUMING
    hold.notify(UNDRAINED)
    assert hold.node == n.SlurmNodeHold("a")


def test_a_drain_that_is_still_seen_is_lifted_again_after_a_while() -> None:
    hold = drained().notify(n.HoldReleased("uid-1"), OURS)
    assert hold.commands == []
    hold.now += n.RETRY
    assert hold.node.retry_at == hold.now
    assert hold.notify(n.NodeTimer()).commands == [n.ResumeNode("a")]


def test_a_hold_that_comes_while_the_drain_is_lifted_drains_again() -> None:
    hold = drained().notify(n.HoldReleased("uid-1")).hold("uid-2", "Pod team/next outlives its job 8")
    assert hold.commands == [n.DrainNode("a", f"{DRAIN_PREFIX} Pod team/next outlives its job 8")]


def test_the_drain_of_another_is_neither_overwritten_nor_lifted() -> None:
    hold = Hold().notify(FOREIGN).hold()
    assert hold.node.state is n.DrainState.FOREIGN
    assert hold.commands == []
    assert hold.notify(n.NodeTimer()).commands == []
    assert hold.notify(n.HoldReleased("uid-1")).commands == []


def test_a_hold_behind_the_drain_of_another_drains_when_that_is_lifted() -> None:
    assert Hold().notify(FOREIGN).hold().notify(UNDRAINED).commands == [
        n.DrainNode("a", f"{DRAIN_PREFIX} Pod team/train outlives its job 7")
    ]


def test_an_operator_who_adopts_the_extenders_drain_owns_it() -> None:
    hold = drained().notify(FOREIGN, n.HoldReleased("uid-1"))
    assert hold.node.state is n.DrainState.FOREIGN
    assert hold.commands == []


def test_an_operator_who_adopts_it_while_it_is_being_lifted_owns_it() -> None:
    hold = drained().notify(n.HoldReleased("uid-1"), FOREIGN)
    hold.now += n.RETRY
    assert hold.notify(n.NodeTimer()).commands == []


def test_an_operator_who_lifts_the_extenders_drain_sees_it_come_back_while_a_pod_is_there() -> None:
    assert drained().notify(UNDRAINED).commands == [
        n.DrainNode("a", f"{DRAIN_PREFIX} Pod team/train outlives its job 7")
    ]


def test_a_forgotten_drain_of_the_extender_is_lifted() -> None:
    assert Hold().notify(OURS).commands == [n.ResumeNode("a")]


def test_a_hold_released_before_its_drain_is_seen_is_lifted_all_the_same() -> None:
    hold = Hold().hold().notify(n.HoldReleased("uid-1"))
    assert hold.commands == [n.ResumeNode("a")]


def test_every_cause_is_named_in_one_bounded_reason() -> None:
    hold = Hold(n.SlurmNodeHold("a", n.DrainState.FOREIGN))
    for number in range(30):
        hold.hold(f"uid-{number:02}", f"Pod team/train-{number} outlives its job")
    (command,) = hold.notify(UNDRAINED).commands
    assert isinstance(command, n.DrainNode)
    assert command.reason.startswith(f"{DRAIN_PREFIX} Pod team/train-0 outlives its job; Pod team/train-1 ")
    assert len(command.reason) == 240


def test_a_cause_that_comes_later_is_written_into_the_reason_too() -> None:
    hold = drained().hold("cordon", "The Node is cordoned.")
    reason = f"{DRAIN_PREFIX} The Node is cordoned.; Pod team/train outlives its job 7"
    assert hold.commands == [n.DrainNode("a", reason)]


def removed(number: int, grace_s: int, pod: str = "team/train", node: str = "node-1") -> Removal:
    return Removal(f"00000000-0000-4000-8000-{number:012}", pod, node, grace_s)


def reason_of(*held: Removal, owner: str = drainer("cluster", "slurm")) -> str:
    hold = Hold(n.SlurmNodeHold("a", n.DrainState.FOREIGN, owner=owner))
    hold.hold("0", "Pod team/a outlives its job 7")
    for one in held:
        hold.hold(one.cause, one.text)
    (command,) = hold.notify(UNDRAINED).commands
    assert isinstance(command, n.DrainNode)
    assert len(command.reason) <= LONGEST
    return command.reason


def test_a_removed_pod_is_named_whole_however_long_its_name_is() -> None:
    known = removed(1, 86400, pod=f"{'n' * 63}/{'p' * 253}", node="ip-10-12-134-201.eu-central-1.compute.internal")
    (found,) = removals_in(reason_of(known))
    assert (found.uid, found.node, found.grace_s) == (known.uid, known.node, 86400)
    assert found.pod.startswith("n" * 14)


def test_of_many_removed_pods_the_one_that_takes_longest_is_named() -> None:
    found = removals_in(reason_of(removed(1, 20), removed(2, 30), removed(3, 600), removed(4, 20)))
    assert found[0].grace_s == 600


def test_the_drain_of_another_extender_is_a_foreign_one() -> None:
    mine, other = drainer("cluster", "slurm"), drainer("cluster", "slurm-b")
    for owner, state in ((mine, n.DrainState.RESUMING), ("", n.DrainState.RESUMING), (other, n.DrainState.FOREIGN)):
        hold = Hold(n.SlurmNodeHold("a", owner=mine)).notify(n.NodeSeen(True, reason(owner, ["Pod team/x"])))
        assert hold.node.state is state


ME = drainer("cluster", "slurm")


@pytest.mark.parametrize("words", ["bad DIMM, ticket 4711", "Not responding", "Lüfter kaputt", "a > b [root@noon]"])
def test_what_stood_on_a_node_that_is_down_is_read_back_from_the_extenders_drain_as_it_was(words: str) -> None:
    said = with_earlier_reason(reason(ME, ["Pod team/train outlives its job 7"]), words)
    assert is_own_drain(said, ME)
    assert (earlier_reason(said), own_reason(said)) == (words, reason(ME, ["Pod team/train outlives its job 7"]))
    assert earlier_reason(words) == words
    assert with_earlier_reason(said, "") == said


def test_many_pods_leave_room_for_the_reason_of_an_administrator_and_a_long_one_leaves_room_for_pods() -> None:
    many = [f"Pod team/train-{number} outlives its job {number}" for number in range(8)]
    said = with_earlier_reason(reason(ME, many), "ü" * 600)
    assert LONGEST - 4 < len(said.encode()) <= LONGEST
    assert len(earlier_reason(said)) >= 39
    assert said.startswith(reason(ME, many[:1]))
    short = with_earlier_reason(reason(ME, many), "bad DIMM, ticket 4711")
    assert earlier_reason(short) == "bad DIMM, ticket 4711"
    assert "train-2 " in short


def test_a_removed_pod_is_found_again_whatever_an_administrator_wrote_of_the_node() -> None:
    known = removed(1, 600, pod="team/train", node="ip-10-12-134-201.eu-central-1.compute.internal")
    false = removed(2, 600).text
    said = with_earlier_reason(
        reason(ME, [known.text, "Node a is cordoned"]), f"{false}; Node b was deleted; Node a is not Ready"
    )
    assert len(said.encode()) <= LONGEST
    assert [one.uid for one in removals_in(said)] == [known.uid]
    assert deleted_in(said) == ""


@pytest.mark.parametrize(
    "words",
    [
        removed(2, 600).text,
        f"x); {removed(2, 600).text}; (",
        "Node b was deleted",
        "Node a is not Ready",
        "x <DOWN before: y>",
        "x\u00a0<DOWN\u2003before:\u3000y\r\n\t>" + "é" * 200,
    ],
)
def test_a_quote_is_never_read_as_a_fact(words: str) -> None:
    said = reason(ME, [f"Pod team/train outlives its job 7{quoted(words)}"])
    assert quoted(words).startswith(" (")
    assert removals_in(said) == []
    assert deleted_in(said) == earlier_reason(said) == ""
    assert not may_say_not_ready(said)


def test_a_reason_that_is_full_may_have_lost_that_a_node_is_not_ready() -> None:
    full = with_earlier_reason(reason(ME, [f"Pod team/train-{number} is there" for number in range(9)]), "x" * 79)
    assert may_say_not_ready(full)
    assert not may_say_not_ready(with_earlier_reason(reason(ME, ["Node a is cordoned"]), "it is not Ready"))
