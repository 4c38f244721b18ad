"""What every test needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("again", settings.get_profile("anew"), derandomize=True)
settings.load_profile("again")  # What a run draws is what the run before drew; `make prove` draws anew.

MEASURED = "measured"
"""The property of a test's report under which its figures stand."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Virtual time goes on as soon as nothing is left to do.

    looptime lets the loop turn 42 times for nothing before each step of its clock, for programs that wait for threads;
    where nothing comes from outside of the loop that is two thirds of a test's time.
    """
    if item.get_closest_marker("looptime") is not None:
        item.add_marker(pytest.mark.looptime(noop_cycles=0))


@pytest.fixture(scope="session", autouse=True)
def _loop_between_tests() -> Iterator[None]:
    """A loop of the main thread that is closed at the end.

    Before its own loop pytest-asyncio asks for the one there is, to put it back later. Up to Python 3.13 the question
    makes one, which nobody closes, and some test is blamed for it whenever it happens to be collected.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tell a figure: it stands at the end of the run's output, whichever process measured it."""
    return partial(record_property, MEASURED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    figures = [value for report in reports for name, value in report.user_properties if name == MEASURED]
    if figures:
        terminalreporter.section("measured")
    for figure in figures:
        terminalreporter.write_line(str(figure))
