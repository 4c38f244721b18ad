"""Repeating requests that may be repeated: reads, and writes whose preconditions make a second one harmless."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from extender.domain.backoff import Backoff
from extender.kube.errors import ApiError, ApiUnavailable, OutcomeUnknown, Throttled

ResultT = TypeVar("ResultT")

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0


async def repeated(
    send: Callable[[float], Awaitable[ResultT]],
    *,
    within_s: float,
    once_s: float,
    rng: random.Random,
    wait_when_throttled: bool = True,
) -> ResultT:
    """Call `send(timeout_s)` until the API server answers, for `within_s` seconds in all, `once_s` for one request.

    ApiUnavailable, OutcomeUnknown and, if `wait_when_throttled`, Throttled are repeated, with full jitter and never
    before the API server's own Retry-After; whatever came last is raised when the time is over. All else is raised at
    once.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        retry_after_s = error.retry_after_s if isinstance(error, Throttled) else 0.0
        longest = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S).after(state.attempt_number)
        return retry_after_s + rng.uniform(0, longest)

    def past_deadline(state: RetryCallState) -> bool:
        return loop.time() + state.upcoming_sleep >= deadline

    passing = (ApiUnavailable, OutcomeUnknown) + ((Throttled,) if wait_when_throttled else ())
    failed: list[ApiError] = []
    try:
        return await send(max(0.001, min(once_s, within_s)))  # nearly always all there is; tenacity's books are dear
    except passing as error:
        failed.append(error)
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type(passing),
        wait=wait,
        stop=past_deadline,
        sleep=asyncio.sleep,
        reraise=True,
    ):
        with attempt:
            if failed:
                raise failed.pop()
            return await send(max(0.001, min(once_s, deadline - loop.time())))
    raise AssertionError("unreachable: tenacity returns or raises")
