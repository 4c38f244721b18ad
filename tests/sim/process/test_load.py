"""Many at once, partners that are slow or refuse: it takes longer in proportion, and nothing is lost."""

from __future__ import annotations

import logging

import pytest
import structlog

from bench.simulated.load import DEGRADATIONS, LoadResult, run_load_test
from extender.kube.announce import EventLimits
from simulator.virtual_time import run_virtual

PODS = 48
MOST_CONNECTIONS = 8
SCHEDULER_TIMEOUT = 5.0
"""`httpTimeout` of the extender in kube-scheduler's configuration."""

LOOK = 0.2
"""How exactly times are seen."""

WITHIN = {
    "nothing": 3.0,
    # At least two requests for each Pod, a second each, eight at a time; the poll and the refresh take their part.
    "slow": 4 * PODS * 2 * 1.0 / MOST_CONNECTIONS,
    # Half of the tries come to nothing, and each Pod then waits twice as long as before: five in a row of one are many.
    "refusing": 1 + 2 + 4 + 8 + 16 + 32 + 10.0,
    # Two writes for each Pod, the half of them a second late, and what kube-scheduler's back-off makes of late answers.
    "throttling": 30.0,
    "mute": 3.0,
}
"""Seconds within which all Pods are to be placed."""


def borne(strain: str, new: int, old: int = 0) -> LoadResult:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return run_virtual(run_load_test(DEGRADATIONS[strain], new, old))
    finally:
        structlog.reset_defaults()


@pytest.mark.parametrize("strain", sorted(DEGRADATIONS))
def test_under_each_strain_all_are_placed_nothing_is_lost_and_kube_scheduler_is_answered_in_time(strain: str) -> None:
    told = borne(strain, PODS)
    assert told.lost == 0
    assert told.placed_s <= WITHIN[strain]
    assert told.connections <= MOST_CONNECTIONS
    assert told.slowest_call_s < SCHEDULER_TIMEOUT
    if strain != "throttling":
        assert told.errors == 0
        # Two for each Pod, and a checkpoint for each submission, which those that wait at the same time share.
        assert 2 * PODS < told.kube_writes <= 3 * PODS
        assert told.conditions <= 2 * PODS


def test_many_ends_and_as_many_starts_share_the_connections() -> None:
    told = borne("slow", PODS, PODS)
    assert told.lost == 0
    assert told.connections <= MOST_CONNECTIONS
    assert told.placed_by_then >= PODS // 3, "starts had their turns while there were ends"
    assert told.ended_s < told.placed_s, "ends went first"


def test_events_are_sent_at_a_bounded_rate_however_much_there_is_to_say() -> None:
    told = borne("nothing", 2 * PODS)
    limits = EventLimits()
    assert told.events <= limits.burst + limits.per_second * (told.placed_s + 95)
    assert told.placed_s <= 3.0
