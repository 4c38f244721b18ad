"""Waiting for real processes: what comes soon is seen soon, what takes long is not looked at twenty times a second."""

from __future__ import annotations

import pytest

from lab import clock
from lab.errors import LabError


class Watch:
    """Time passes in pauses alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.looks: list[float] = []
        monkeypatch.setattr(clock, "elapsed", lambda: self.now)
        monkeypatch.setattr(clock, "pause", self._pause)

    def _pause(self, seconds: float) -> None:
        self.now += seconds

    def comes_after(self, seconds: float, every_s: float | None = None) -> None:
        def check() -> bool:
            self.looks.append(self.now)
            return self.now >= seconds

        clock.wait_until(check, "it comes", timeout_s=60, every_s=every_s)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.mark.parametrize("seconds", [0.3, 2.0, 10.0, 50.0])
def test_it_is_seen_within_a_tenth_of_the_wait_or_half_a_second(watch: Watch, seconds: float) -> None:
    watch.comes_after(seconds)
    assert watch.now <= seconds + max(0.05, min(seconds / 10, 0.5)) + 1e-9


def test_ten_seconds_take_fifty_reads_and_not_two_hundred(watch: Watch) -> None:
    watch.comes_after(10.0)
    assert len(watch.looks) <= 50


def test_who_names_a_pace_is_given_it(watch: Watch) -> None:
    watch.comes_after(10.0, every_s=0.01)
    assert len(watch.looks) == pytest.approx(1000, abs=2)


def test_what_never_comes_is_an_error_that_says_what_was_waited_for(watch: Watch) -> None:
    with pytest.raises(LabError, match="it comes: not within 60 s"):
        watch.comes_after(100.0)
