"""The machine's clock, read here and nowhere else in the lab: real daemons run on real time."""

import time
from collections.abc import Callable

from lab.errors import LabError

SHORTEST_S, LONGEST_S = 0.05, 0.5
"""Between two looks at something that is waited for."""


def now() -> float:
    """Return seconds since the epoch, for token claims."""
    return time.time()  # noqa: TID251 - slurmctld compares the claims of a token with its own wall clock


def elapsed() -> float:
    """Return seconds on a clock that never goes back, for durations."""
    return time.monotonic()  # noqa: TID251 - real processes are waited for in real time


def pause(seconds: float) -> None:
    """Sleep between two looks at a real process."""
    time.sleep(seconds)


def pace(waited_s: float) -> float:
    """Return seconds until the next check, after a wait of so many: longer waits are checked less often.

    A look is a process (squeue) or a connection with TLS, here and in the daemon that answers: twenty a second are a
    third of a core, which the daemons that are waited for need themselves.
    """
    return min(max(SHORTEST_S, waited_s / 12), LONGEST_S)


def wait_until(
    condition: Callable[[], bool],
    what: str,
    *,
    timeout_s: float,
    every_s: float | None = None,
    detail: Callable[[], str] = str,
) -> None:
    """Look at ``condition`` until it holds: every ``every_s`` seconds, or less and less often (:func:`pace`).

    Raises LabError after ``timeout_s`` seconds; the text is ``what`` followed by ``detail()``.
    """
    began = elapsed()
    while not condition():
        waited = elapsed() - began
        if waited > timeout_s:
            raise LabError(f"{what}: not within {timeout_s:g} s. {detail()}".rstrip())
        pause(pace(waited) if every_s is None else every_s)
