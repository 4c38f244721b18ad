"""The Pods of a gang stay together while a job of it exists, or may exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.controllers.gang_intake import frees_members
from extender.domain import events as e
from extender.domain.placeholder import Placeholder, State
from tests.builders.placeholders import POD, Life, in_state, unsure, waiting

INCOMPLETE = e.PodRefused((POD,), ())
SOUGHT = (e.ProbeAnswered(()), e.ProbeAnswered(()))


def withdrawn() -> Life:
    """Return a gang that gave its place in the queue up."""
    return waiting().notify(INCOMPLETE, e.JobEnded(7, e.EndKind.CANCELLED))


def test_a_gang_that_never_submitted_frees_its_pods() -> None:
    assert frees_members(Placeholder("gang-x"))


def test_an_incomplete_gang_frees_its_pods_once_its_job_has_ended() -> None:
    assert not frees_members(waiting().notify(INCOMPLETE).p)
    assert withdrawn().state is State.ABSENT
    assert frees_members(withdrawn().p)


def test_a_complete_gang_that_submitted_keeps_its_pods() -> None:
    refused = waiting().notify(e.JobEnded(7, e.EndKind.CANCELLED)).p
    assert refused.state is State.REFUSED
    assert not frees_members(refused)


def test_a_gang_whose_request_was_not_answered_keeps_its_pods_until_the_last_search_for_its_job() -> None:
    life = unsure().notify(INCOMPLETE).later(61).notify(*SOUGHT)
    assert life.state is State.ABSENT
    assert not frees_members(life.p)
    assert frees_members(life.later(61).p)


def test_a_gang_with_another_live_job_keeps_its_pods() -> None:
    assert not frees_members(replace(withdrawn().p, duplicate_jobs=frozenset({8})))


@pytest.mark.parametrize("state", sorted(set(State) - {State.ABSENT, State.REFUSED}))
def test_a_gang_in_any_other_state_keeps_its_pods(state: State) -> None:
    assert not frees_members(in_state(state))
