"""Time and count each request to Slurm, and translate its errors into those of the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from extender.domain.ports import Clock, PortError
from slurmclient import SlurmError

ObserveRequest = Callable[[str, float, str], None]
"""Called for every request with its name, its seconds, and `ok` or the class of its error."""


def unobserved(request: str, seconds: float, outcome: str) -> None:
    """Do nothing: the caller does not count requests."""


@asynccontextmanager
async def timed(request: str, clock: Clock, observe: ObserveRequest) -> AsyncIterator[None]:
    """Report the duration of the block to `observe`."""
    began = clock.now()
    outcome = "ok"
    try:
        yield
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        observe(request, clock.now() - began, outcome)


@asynccontextmanager
async def as_port_error(request: str) -> AsyncIterator[None]:
    """Turn every error of slurmclient into a `PortError` that names the request."""
    try:
        yield
    except SlurmError as error:
        raise PortError(f"Slurm could not be asked for {request}: {error}") from error
