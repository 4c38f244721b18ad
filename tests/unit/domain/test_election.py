"""The rules of the election, those of client-go."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from extender.domain.election import (
    LONGEST_LEASE_S,
    MOST_EPOCH,
    ElectionTiming,
    LeaseRecord,
    Sighting,
    accepted_duration,
    released,
    renewed,
    taken,
)

TIMING = ElectionTiming()
HELD = LeaseRecord("a_1", 15.0, 4, "2020-01-01T00:00:00Z", "2020-01-01T00:00:09Z", (("scheduling", "http://a:1"),))


def test_the_defaults_leave_time_to_end_jobs_within_15_seconds_and_to_execute_last_writes() -> None:
    assert TIMING.lease <= 12.0
    assert TIMING.faults == ()
    assert TIMING.margin == 4.0


@pytest.mark.parametrize(
    ("timing", "faults"),
    [
        (ElectionTiming(lease=8.0), ["leaseDuration is 8 s: it must be longer than renewDeadline"]),
        (
            ElectionTiming(retry=6.7),
            ["renewDeadline is 8 s: it must be longer than 1.2 times retryPeriod"],
        ),
        (ElectionTiming(retry=6.6), []),
        (ElectionTiming(lease=1.0, renew_deadline=1.0, retry=1.0), ["leaseDuration is 1 s", "renewDeadline is 1 s"]),
    ],
)
def test_durations_that_could_let_two_lead_are_refused_by_name(timing: ElectionTiming, faults: list[str]) -> None:
    assert len(timing.faults) == len(faults)
    assert all(said.startswith(expected) for said, expected in zip(timing.faults, faults, strict=True))


def test_a_record_that_was_never_searched_for_is_never_free() -> None:
    assert Sighting().free_at("b") == math.inf


def test_a_lease_that_does_not_exist_is_free() -> None:
    assert Sighting().seeing(None, 50.0).free_at("b") == 50.0


def test_what_another_clock_says_about_a_record_does_not_count() -> None:
    for written in ("1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        seen = Sighting().seeing(replace(HELD, renewed=written, acquired=written), 50.0)
        assert seen.free_at("b") == 65.0


def test_a_record_is_renewed_by_every_change_that_is_seen_and_not_by_every_read() -> None:
    seen = Sighting().seeing(HELD, 50.0).seeing(HELD, 60.0)
    assert seen.free_at("b") == 65.0
    assert seen.seeing(replace(HELD, renewed="2020-01-01T00:00:11Z"), 61.0).free_at("b") == 76.0


def test_any_change_is_a_sign_of_life() -> None:
    changes = [
        replace(HELD, transitions=9),
        replace(HELD, acquired="x"),
        replace(HELD, addresses=()),
        replace(HELD, holder="c_2"),
    ]
    for changed in changes:
        assert Sighting().seeing(HELD, 50.0).seeing(changed, 60.0).free_at("b") == 75.0


def test_a_record_counts_for_as_long_as_its_holder_promised_and_not_for_the_readers_time() -> None:
    assert Sighting().seeing(replace(HELD, duration_s=40.0), 50.0).free_at("b") == 90.0


def test_a_released_lease_is_free_at_once_for_every_replica() -> None:
    seen = Sighting().seeing(HELD, 50.0).seeing(released(HELD, "now"), 52.0)
    assert seen.free_at("b") == seen.free_at("a_1") == 52.0


def test_a_holder_that_is_known_to_be_dead_is_followed_when_its_last_writes_have_ended() -> None:
    seen = Sighting().seeing(HELD, 50.0)
    assert seen.free_at("b", dead_since=52.0, margin=4.0) == 56.0
    assert seen.seeing(replace(HELD, renewed="late"), 55.0).free_at("b", dead_since=52.0, margin=4.0) == 56.0
    assert seen.free_at("b", dead_since=64.0, margin=4.0) == 65.0
    assert Sighting().free_at("b", dead_since=52.0, margin=4.0) == math.inf


def test_a_holder_finds_its_own_lease_free() -> None:
    assert Sighting().seeing(HELD, 50.0).free_at("a_1") == 50.0


def test_another_process_of_the_same_host_is_another_holder() -> None:
    assert Sighting().seeing(HELD, 50.0).free_at("a_2") == 65.0


def test_the_first_holder_has_epoch_1_and_every_other_one_more() -> None:
    first = taken(None, "a", TIMING, "t0")
    assert (first.holder, first.duration_s, first.transitions, first.acquired) == ("a", 12.0, 1, "t0")
    second = taken(first, "b", TIMING, "t1")
    assert (second.transitions, second.acquired, second.renewed) == (2, "t1", "t1")


def test_a_released_lease_has_a_next_epoch_for_its_next_holder() -> None:
    for identity in ("a_1", "b"):
        assert taken(released(HELD, "now"), identity, TIMING, "t").transitions == 5


def test_a_holder_that_takes_its_own_lease_stays_in_its_epoch() -> None:
    again = taken(HELD, "a_1", TIMING, "t")
    assert (again.transitions, again.acquired) == (4, HELD.acquired)


def test_a_lease_with_the_largest_epoch_that_there_is_is_acquired_all_the_same() -> None:
    edited = replace(HELD, transitions=MOST_EPOCH)
    assert taken(edited, "b", TIMING, "t").transitions == MOST_EPOCH
    assert taken(replace(HELD, transitions=3), "b", TIMING, "t", known=10**30).transitions == MOST_EPOCH


@pytest.mark.parametrize("before", [None, replace(HELD, transitions=0), replace(HELD, holder="b", transitions=2)])
def test_an_epoch_that_was_seen_never_comes_again(before: LeaseRecord | None) -> None:
    assert taken(before, "b", TIMING, "t", known=7).transitions == 8


def test_a_renewal_changes_the_time_alone_and_restores_the_duration_of_its_holder() -> None:
    held = replace(HELD, duration_s=12.0)
    assert renewed(held, TIMING, "t") == replace(held, renewed="t")
    assert renewed(replace(held, duration_s=LONGEST_LEASE_S), TIMING, "t") == replace(held, renewed="t")


@pytest.mark.parametrize(
    "written",
    [2**31 - 1, 10**400, math.inf, -math.inf, math.nan, "NaN", -5, 0, None, "soon", [], {}, LONGEST_LEASE_S + 1],
)
def test_a_duration_that_no_holder_may_have_counts_as_the_longest_one(written: object) -> None:
    assert accepted_duration(written) == LONGEST_LEASE_S


@pytest.mark.parametrize("written", [1, 15, 15.5, "15", LONGEST_LEASE_S])
def test_a_duration_that_a_holder_may_have_counts_as_written(written: object) -> None:
    assert accepted_duration(written) == float(str(written))


def test_a_release_keeps_the_epoch_and_names_no_holder() -> None:
    free = released(HELD, "t")
    assert (free.holder, free.duration_s, free.transitions, free.addresses) == ("", 1, 4, ())


def test_a_lease_of_a_fraction_of_a_second_is_written_as_the_next_whole_one() -> None:
    # `leaseDurationSeconds` is an integer: rounded down, others would take it before its holder has fallen silent.
    assert taken(None, "a", ElectionTiming(2.4, 1.5, 0.2), "t").duration_s == 3.0
