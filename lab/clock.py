"""The machine's clock, read here and nowhere else in the lab: real daemons run on real time."""

import time
from collections.abc import Callable

from lab.errors import LabError


def now() -> float:
    """Seconds since the epoch, for token claims."""
    return time.time()  # noqa: TID251 - slurmctld compares the claims of a token with its own wall clock


def elapsed() -> float:
    """Seconds on a clock that never goes back, for durations."""
    return time.monotonic()  # noqa: TID251 - real processes are waited for in real time


def pause(seconds: float) -> None:
    """Sleep between two looks at a real process."""
    time.sleep(seconds)


def wait_until(
    condition: Callable[[], bool],
    what: str,
    *,
    timeout_s: float,
    every_s: float = 0.05,
    detail: Callable[[], str] = str,
) -> None:
    """Look at ``condition`` every ``every_s`` seconds until it holds.

    Raises LabError after ``timeout_s`` seconds; the text is ``what`` followed by ``detail()``.
    """
    deadline = elapsed() + timeout_s
    while not condition():
        if elapsed() > deadline:
            raise LabError(f"{what}: not within {timeout_s:g} s. {detail()}".rstrip())
        pause(every_s)
