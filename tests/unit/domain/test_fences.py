"""What start-up and `/readyz?verbose` say of partitions that no fence keeps."""

from __future__ import annotations

import pytest

from extender.domain.cluster import SlurmPartition, SlurmSnapshot
from extender.domain.nodes.fences import NO_LIMIT, too_short, weak


def snapshot(mode: str, grace_time_s: int) -> SlurmSnapshot:
    nodes = frozenset({"n1"})
    low = SlurmPartition("low", nodes, priority_tier=1, grace_time_s=grace_time_s, preempt_mode=mode)
    high = SlurmPartition("high", nodes, priority_tier=10, preempt_mode="OFF")
    return SlurmSnapshot(partitions={"low": low, "high": high}, known=True)


@pytest.mark.parametrize("mode", ["GANG,SUSPEND", "CANCEL,GANG", "SUSPEND|GANG"])
def test_preemption_by_gang_is_reported(mode: str) -> None:
    (said,) = weak(snapshot(mode, 40))
    assert "partition low" in said
    assert "GANG" in said


def test_preemption_without_a_warning_is_reported() -> None:
    (said,) = weak(snapshot("CANCEL", 0))
    assert "GraceTime" in said


@pytest.mark.parametrize(("mode", "grace"), [("CANCEL", 40), ("OFF", 0), ("UNKNOWN", 0)])
def test_what_can_be_held_or_is_not_shown_is_not_complained_of(mode: str, grace: int) -> None:
    assert weak(snapshot(mode, grace)) == ()


@pytest.mark.parametrize("limit_s", [600, 601, NO_LIMIT])
def test_a_prolog_that_may_wait_for_the_longest_grace_is_not_reported(limit_s: int) -> None:
    assert too_short(limit_s, 600.0) == ()


@pytest.mark.parametrize(("limit_s", "grace_s"), [(15, 600.0), (599, 600.0), (65533, 10.0**6)])
def test_a_prolog_that_slurm_ends_too_early_is_reported_with_both_numbers(limit_s: int, grace_s: float) -> None:
    (said,) = too_short(limit_s, grace_s)
    assert f"is {limit_s} s" in said
    assert f"take {grace_s:g} s" in said
