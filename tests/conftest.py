"""What every test needs."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial

import fastapi.dependencies.models
import pytest
from hypothesis import HealthCheck, settings
from looptime import LoopTimeEventLoop

from simulator.virtual_time import at_once, number_tasks

settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("again", settings.get_profile("anew"), derandomize=True)
settings.load_profile("again")  # What a run draws is what the run before drew; `make prove` draws anew.

GARBAGE = (20_000, 20, 50)
"""`gc.set_threshold`, as in the process that serves: nearly all is freed by reference counts."""

_CACHES_OF_ROUTES = [each for each in vars(fastapi.dependencies.models).values() if hasattr(each, "cache_clear")]

MEASURED = "measured"
"""The property of a test's report under which its figures stand."""


def pytest_configure(config: pytest.Config) -> None:
    """Virtual time is switched on below: by itself looptime does so for a test, and not for what its fixtures begin."""
    config.option.looptime = False


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Virtual time begins at 0 with the loop of a test that is marked so: its fixtures and it live by one clock.

    Slurm and Kubernetes tell time in whole seconds. A cluster that began by the clock of the machine, somewhere between
    two of them, would be another one in each run.
    """
    made = yield
    if isinstance(made, asyncio.Runner) and _on_virtual_time(request.node):
        loop = made.get_loop()
        assert isinstance(loop, LoopTimeEventLoop), "looptime makes every loop of a test one of its own"
        # By itself it lets the loop turn 42 times for nothing before each step of its clock, for programs that wait for
        # threads; here nothing comes from outside of the loop, and that is two thirds of a test's time.
        loop.setup_looptime(noop_cycles=0)
        loop.run_in_executor = lambda _executor, *work: at_once(loop, *work)  # type: ignore[method-assign]
        number_tasks(loop)
        on = ExitStack()
        on.enter_context(loop.looptime_enabled())
        request.addfinalizer(on.close)
    return made


def _on_virtual_time(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("looptime")
    return marker is not None and marker.args != (False,)


def pytest_collection_finish() -> None:
    """What was imported and collected stays, and no search for cycles has to walk over it."""
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def pytest_runtest_teardown() -> None:
    """Forget the routes of the test: fastapi caches those of hundreds of tests, and with them their whole clusters."""
    for cached in _CACHES_OF_ROUTES:
        cached.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _no_authorities_of_the_machine() -> Iterator[None]:
    """Nothing here trusts them, and to read them for each connection would take longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)
        yield


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
