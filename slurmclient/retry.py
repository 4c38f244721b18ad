"""What is sent again, when, and for how long: decided here and nowhere else.

A request is repeated when its error class promises that repeating is harmless:

====================================  ========  ========================
error                                 reads     changes and creations
====================================  ========  ========================
ConnectError                          repeated  repeated (never sent)
TransportError                        repeated  arrives as OutcomeUnknownError, never repeated
ControllerUnreachedError              repeated  repeated (slurmctld never saw it)
ControllerUnavailableError            repeated  never
everything else                       never     never
====================================  ========  ========================

A refused token and an unknown path are answered by the client itself, once each, since something has to be learned
in between.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception
from tenacity.stop import stop_base

from slurmclient.classification import Effect
from slurmclient.errors import (
    ConnectError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    SlurmError,
    TransportError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient a client is.

    Attributes:
        deadline_s: a call ends within this, its tries and pauses together; a call may bring its own.
        attempts: at most so many tries.
        first_pause_s: the pause before the second try is random between 0 and this; the bound then doubles ...
        longest_pause_s: ... up to this.
    """

    deadline_s: float = 60.0
    attempts: int = 3
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0

    def __post_init__(self) -> None:
        if self.deadline_s <= 0 or self.attempts < 1 or not 0 <= self.first_pause_s <= self.longest_pause_s:
            raise ValueError(f"{self}: deadline_s > 0, attempts >= 1, 0 <= first_pause_s <= longest_pause_s")


def may_repeat(error: BaseException, effect: Effect) -> bool:
    """Tell whether a request that failed so may be sent again."""
    if isinstance(error, ConnectError | ControllerUnreachedError):
        return True
    return effect is Effect.READ and isinstance(error, TransportError | ControllerUnavailableError)


async def repeat(
    attempt: Callable[[], Awaitable[T]],
    *,
    effect: Effect,
    policy: RetryPolicy,
    deadline: float,
    clock: Callable[[], float],
    rng: random.Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Try until it succeeds, fails for good, or another pause would pass the deadline; the last error is raised.

    Args:
        attempt: one try.
        effect: what the request does.
        policy: bounds.
        deadline: on ``clock``; no try begins after it.
        clock: seconds, monotonic.
        rng: for the pauses, so that many clients do not come back together.
        sleep: waits.
    """

    try:
        return await attempt()  # nearly always all there is; tenacity's books would cost as much as the rest of a call
    except SlurmError as error:
        if not may_repeat(error, effect):
            raise
        first = error

    def pause(state: RetryCallState) -> float:
        # The first repetition is immediate: a kept-alive connection that slurmrestd had closed is the usual cause.
        if state.attempt_number == 1 and isinstance(_error_of(state), TransportError) and effect is Effect.READ:
            return 0.0
        bound: float = min(policy.longest_pause_s, policy.first_pause_s * 2 ** (state.attempt_number - 1))
        return rng.uniform(0, bound)

    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: may_repeat(error, effect)),
        wait=pause,
        stop=_Stop(policy.attempts, clock, deadline),
        sleep=sleep,
        reraise=True,
    )
    failed: list[Exception] = [first]

    async def again() -> T:
        if failed:
            raise failed.pop()
        return await attempt()

    return await retrying(again)


class _Stop(stop_base):
    """After so many attempts, or where the next one would be past the deadline."""

    def __init__(self, attempts: int, clock: Callable[[], float], deadline: float) -> None:
        self._attempts = attempts
        self._clock = clock
        self._deadline = deadline

    def __call__(self, retry_state: RetryCallState) -> bool:
        spent = retry_state.attempt_number >= self._attempts
        return spent or self._clock() + retry_state.upcoming_sleep >= self._deadline


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
