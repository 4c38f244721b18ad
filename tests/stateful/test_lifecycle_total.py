"""The table answers every event in every state, says truly where each rule leads, and keeps the invariants.

The walk tells the machine everything in every order: late, twice, about other jobs, about attempts that are over.
"""

from __future__ import annotations

import pytest

from extender.domain import events as e
from extender.domain.lifecycle.step import step
from extender.domain.lifecycle.table import EVENTS, TABLE, InvalidTransitionError
from extender.domain.placeholder import Placeholder, State
from tests.builders.exploration import Explored, explore

UNTOLD = {(state, e.BindStarted) for state in State if state not in {State.GRANTED, State.BOUND}}
"""The engine alone starts a Binding, in the same instant in which it has seen that it may."""


@pytest.fixture(scope="module")
def walked() -> Explored:
    one, two = explore(pods=1, most=1000), explore(pods=2, most=1000)
    return Explored(one.pairs | two.pairs, one.edges | two.edges, one.placeholders + two.placeholders)


def test_every_pair_of_state_and_event_has_one_rule() -> None:
    assert not {(state, kind) for state in State for kind in EVENTS} - set(TABLE.rules)


def test_the_walk_tells_every_state_every_event(walked: Explored) -> None:
    assert not set(TABLE.rules) - walked.pairs - UNTOLD


def test_every_change_of_state_that_the_table_declares_happens_and_no_other(walked: Explored) -> None:
    assert walked.edges == set(TABLE.edges())


def test_every_rule_says_why_it_is_there() -> None:
    assert not [pair for pair, rule in TABLE.rules.items() if not rule.why.strip()]


def test_an_event_that_no_rule_knows_is_refused_and_named() -> None:
    with pytest.raises(InvalidTransitionError, match=r"u in ABSENT: no rule: 'nonsense'"):
        step(Placeholder("u"), "nonsense", 0.0)  # type: ignore[arg-type]
