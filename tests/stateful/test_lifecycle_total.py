"""The table answers every event in every state, says truly where each rule leads, and keeps the invariants.

The walk tells the machine everything in every order: late, twice, about other jobs, about attempts that are over.
`python -m tests.stateful` walks deeper and prints what it saw.
"""

from __future__ import annotations

import pytest

from extender.domain.lifecycle.machine import TABLE, edges, step
from extender.domain.lifecycle.rules import EVENTS, InvalidTransitionError
from extender.domain.placeholder import Placeholder, State
from tests.builders.exhaustion import Walked, walk


@pytest.fixture(scope="module")
def walked() -> Walked:
    return walk(pods=2, depth=3)


def test_every_pair_of_state_and_event_has_one_rule() -> None:
    assert not [(state, kind) for state in State for kind in EVENTS if kind not in TABLE[state]]


def test_a_short_walk_breaks_no_invariant_and_makes_no_change_of_state_that_is_not_declared() -> None:
    walk(pods=1, depth=2)
    assert set(walk(pods=2, depth=2).edges) <= set(edges())


@pytest.mark.slow
def test_the_walk_reaches_every_entry_of_the_table(walked: Walked) -> None:
    assert not walked.unreached


@pytest.mark.slow
def test_every_change_of_state_that_the_table_declares_happens_and_no_other(walked: Walked) -> None:
    assert set(walked.edges) == set(edges())


def test_every_rule_says_why_it_is_there() -> None:
    assert not [rule for rules in TABLE.values() for rule in rules.values() if not rule.why.strip()]


def test_an_event_that_no_rule_knows_is_refused_and_named() -> None:
    with pytest.raises(InvalidTransitionError, match=r"u in ABSENT: no rule: 'nonsense'"):
        step(Placeholder("u"), "nonsense", 0.0)  # type: ignore[arg-type]
