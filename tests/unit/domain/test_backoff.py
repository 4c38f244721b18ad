"""Pauses after failures double up to a longest one."""

import pytest

from extender.domain.backoff import Backoff


@pytest.mark.parametrize(("failures", "pause"), [(0, 1.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (10**6, 5.0)])
def test_the_pause_doubles_with_each_failure_up_to_the_longest_one(failures: int, pause: float) -> None:
    assert Backoff(1.0, 5.0).after(failures) == pause
