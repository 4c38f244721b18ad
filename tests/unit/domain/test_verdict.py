"""What kube-scheduler is told in every state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from extender.domain.placeholder import State
from extender.domain.verdict import (
    ENDING_TEXT,
    NOT_OFFERED_TEXT,
    WAITING_TEXT,
    Place,
    Wait,
    bind_refusal,
    filter_verdict,
)
from tests.builders.placeholders import (
    NODES,
    POD,
    SECOND,
    Life,
    absent,
    bound,
    cleared,
    gone,
    granted,
    lost,
    refused,
    releasing,
    submitting,
    unsure,
    waiting,
)

NAMELESS: dict[State, tuple[Callable[[], Life], str]] = {
    State.ABSENT: (absent, WAITING_TEXT),
    State.SUBMITTING: (submitting, WAITING_TEXT),
    State.UNSURE: (unsure, WAITING_TEXT),
    State.WAITING: (waiting, WAITING_TEXT),
    State.RELEASING: (releasing, WAITING_TEXT),
    State.REFUSED: (refused, "Slurm job 7 was cancelled. Re-create or change the Pod to submit it again."),
    State.LOST: (lost, ENDING_TEXT),
    State.GONE: (gone, ENDING_TEXT),
}


def test_every_state_is_judged_here() -> None:
    assert NAMELESS.keys() | {State.GRANTED, State.BOUND} == set(State)


@pytest.mark.parametrize("state", NAMELESS)
def test_no_node_is_named_and_no_binding_allowed_where_none_is_granted(state: State) -> None:
    make, text = NAMELESS[state]
    life = make()
    assert life.state is state
    assert life.verdict() == Wait(text)
    assert life.bind_refusal() == "Slurm has no allocation for this Pod"


def test_a_granted_node_is_named_only_once_it_is_cleared() -> None:
    assert granted().verdict() == Wait(WAITING_TEXT)
    assert cleared().verdict() == Place("n1")
    assert bound().verdict() == Place("n1")


def test_a_node_is_named_only_if_it_was_offered() -> None:
    assert cleared().verdict(NODES - {"n1"}) == Wait(NOT_OFFERED_TEXT)
    assert cleared().verdict(frozenset()) == Wait(NOT_OFFERED_TEXT)


def test_a_pod_that_is_no_member_gets_no_node() -> None:
    assert cleared().verdict(uid=SECOND.uid) == Wait(WAITING_TEXT)
    assert cleared().bind_refusal(uid=SECOND.uid) == "Slurm allocated no node to this Pod, not n1"


def test_an_unknown_pod_waits() -> None:
    assert filter_verdict(None, POD.uid, NODES) == Wait(WAITING_TEXT)
    assert bind_refusal(None, POD.uid, "n1") == "Slurm has no allocation for this Pod"


def test_a_binding_may_be_repeated_once_the_pod_is_bound() -> None:
    assert bound().bind_refusal() == ""
