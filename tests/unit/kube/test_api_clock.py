"""Times that the API server wrote are compared with its own clock."""

from __future__ import annotations

import pytest

from extender.kube.api_clock import ApiClock
from tests.builders.services import StillClock


def test_before_the_first_answer_the_local_clock_is_used() -> None:
    clock = StillClock()
    assert ApiClock(clock).wall() == clock.wall()


def test_an_answer_gives_the_time_and_the_clock_continues_from_there() -> None:
    clock = StillClock()
    api = ApiClock(clock)
    api.answered({"date": "Tue, 15 Nov 1994 08:12:31 GMT"})
    assert api.wall() == 784887151.0
    assert api.now() == clock.now()


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}, {"date": "Tue, 99 Nov 1994 08:12:31 GMT"}])
def test_an_answer_without_a_time_says_nothing(headers: dict[str, str]) -> None:
    api = ApiClock(StillClock())
    api.answered({"date": "Tue, 15 Nov 1994 08:12:31 GMT"})
    api.answered(headers)
    assert api.wall() == 784887151.0


def test_an_empty_date_before_any_other_says_nothing() -> None:
    clock = StillClock()
    api = ApiClock(clock)
    api.answered({"date": ""})
    assert api.wall() == clock.wall()
