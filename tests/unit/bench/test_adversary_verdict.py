"""The verdict on a flood tells the goal and the criterion of the exit status apart."""

from __future__ import annotations

import pytest

from bench.real.adversary import verdict


@pytest.mark.parametrize(
    ("ratio", "beside", "elsewhere", "goal", "criterion"),
    [
        (1.9, 1.1, 0, ": met, 1.90 times", ": met, 1.10 times, 0 nodes"),
        (1.9, 2.1, 0, ": met, 1.90 times", ": met, 2.10 times, 0 nodes"),
        (32.2, 1.2, 0, ": NOT met, 32.20 times", ": met, 1.20 times, 0 nodes"),
        (32.2, 2.1, 0, ": NOT met, 32.20 times", ": NOT met, 2.10 times, 0 nodes"),
        (1.9, 1.1, 1, ": met, 1.90 times", ": NOT met, 1.10 times, 1 nodes"),
    ],
)
def test_a_missed_goal_is_reported_although_the_command_ends_well(
    ratio: float, beside: float, elsewhere: int, goal: str, criterion: str
) -> None:
    first, second = verdict(ratio, beside, elsewhere).split("Criterion")
    assert goal in first
    assert criterion in second
