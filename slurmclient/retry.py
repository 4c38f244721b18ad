"""Decide which failed requests are sent again, when, and for how long. Nothing else in the package repeats a request.

A request is repeated if the class of its error promises that this is harmless:

====================================  ========  ========================
error                                 reads     changes and creations
====================================  ========  ========================
ConnectError                          repeated  repeated (never sent)
TransportError                        repeated  never; raised as OutcomeUnknownError
ControllerUnreachedError              repeated  repeated (slurmctld never received it)
ControllerUnavailableError            repeated  never
all others                            never     never
====================================  ========  ========================

The session itself handles a refused token and an unknown path, once each: it has to read a new token or negotiate the
API version before it sends the request again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slurmclient.classification import Effect
from slurmclient.errors import (
    ConnectError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    SlurmError,
    TransportError,
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limit the attempts of one call and the pauses between them.

    Attributes:
        deadline_s: seconds for a whole call, attempts and pauses together; a call may set its own.
        attempts: the largest number of attempts.
        first_pause_s: the pause before the second attempt is random between 0 and this bound, which then doubles ...
        longest_pause_s: ... up to this one.
    """

    deadline_s: float = 60.0
    attempts: int = 3
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0

    def __post_init__(self) -> None:
        if self.deadline_s <= 0 or self.attempts < 1 or not 0 <= self.first_pause_s <= self.longest_pause_s:
            raise ValueError(f"{self}: deadline_s > 0, attempts >= 1, 0 <= first_pause_s <= longest_pause_s")


def may_repeat(error: SlurmError, effect: Effect) -> bool:
    """Return whether a request that failed with `error` may be sent again."""
    if isinstance(error, ConnectError | ControllerUnreachedError):
        return True
    return effect is Effect.READ and isinstance(error, TransportError | ControllerUnavailableError)


class Attempts:
    """Count the failed attempts of one call, and pause between them.

    Args:
        policy: the limits.
        effect: what the request does to Slurm.
        deadline: on `clock`; no attempt begins after it.
        clock: monotonic seconds.
        rng: for the pauses: random ones keep many clients from returning together.
        sleep: pauses.
    """

    __slots__ = ("_clock", "_deadline", "_effect", "_failed", "_policy", "_rng", "_sleep")

    def __init__(
        self,
        policy: RetryPolicy,
        effect: Effect,
        deadline: float,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._policy = policy
        self._effect = effect
        self._deadline = deadline
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._failed = 0

    async def pause_after(self, error: SlurmError) -> None:
        """Wait until the next attempt.

        Raises:
            SlurmError: `error` itself, if the request may not be repeated, the attempts are used up, or the pause would
                pass the deadline.
        """
        policy = self._policy
        self._failed += 1
        if self._failed >= policy.attempts or not may_repeat(error, self._effect):
            raise error
        pause = 0.0
        # A read is repeated at once the first time: a kept connection that slurmrestd had closed is the usual cause.
        if self._failed > 1 or self._effect is not Effect.READ or not isinstance(error, TransportError):
            bound = min(policy.longest_pause_s, policy.first_pause_s * 2 ** (self._failed - 1))
            pause = self._rng.uniform(0, bound)
        if self._clock() + pause >= self._deadline:
            raise error
        await self._sleep(pause)
