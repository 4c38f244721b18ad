from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from slurmclient import (
    AuthenticationError,
    CapacityError,
    ConnectError,
    ControllerUnavailableError,
    ControllerUnreachedError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    RefusedError,
    RetryPolicy,
    SlurmError,
    TransportError,
    UnsupportedError,
)
from slurmclient.classification import Effect
from slurmclient.retry import Attempts, may_repeat


class World:
    """A clock that only pauses move, and an operation that fails as it is told."""

    def __init__(self, *failures: SlurmError, tries_take_s: float = 0.0) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.tries = 0
        self._failures = list(failures)
        self._tries_take_s = tries_take_s

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def attempt(self) -> str:
        self.tries += 1
        self.now += self._tries_take_s
        if self._failures:
            raise self._failures.pop(0)
        return "done"

    async def run(self, effect: Effect = Effect.READ, policy: RetryPolicy | None = None, deadline: float = 60.0) -> str:
        attempts = Attempts(
            policy or RetryPolicy(), effect, deadline, clock=lambda: self.now, rng=random.Random(1), sleep=self.sleep
        )
        while True:
            try:
                return await self.attempt()
            except SlurmError as error:
                await attempts.pause_after(error)


REPEATED_ALWAYS = [ConnectError, ControllerUnreachedError]
REPEATED_FOR_READS = [TransportError, ControllerUnavailableError]
NEVER: list[type[SlurmError]] = [
    OutcomeUnknownError,
    AuthenticationError,
    CapacityError,
    RefusedError,
    NotFoundError,
    UnsupportedError,
    ProtocolError,
]


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("kind", [*REPEATED_ALWAYS, *REPEATED_FOR_READS, *NEVER])
def test_the_class_of_the_error_decides_what_is_repeated(kind: type[SlurmError], effect: Effect) -> None:
    expected = kind in REPEATED_ALWAYS or (kind in REPEATED_FOR_READS and effect is Effect.READ)
    assert may_repeat(kind("x"), effect) is expected


async def test_a_success_is_not_repeated() -> None:
    world = World()
    assert await world.run() == "done"
    assert (world.tries, world.pauses) == (1, [])


async def test_a_read_is_repeated_at_once_the_first_time_and_after_pauses_then() -> None:
    world = World(TransportError("a"), TransportError("b"))
    assert await world.run() == "done"
    assert world.tries == 3
    assert world.pauses[0] == 0.0
    assert 0 < world.pauses[1] <= 0.4


async def test_after_the_last_try_the_last_error_is_raised_itself() -> None:
    world = World(*(ConnectError(f"no {number}") for number in range(9)))
    with pytest.raises(ConnectError, match="no 2"):
        await world.run()
    assert world.tries == 3


async def test_pauses_double_up_to_the_longest() -> None:
    world = World(*(ControllerUnreachedError("x") for _ in range(12)))
    policy = RetryPolicy(attempts=10, first_pause_s=1, longest_pause_s=4, deadline_s=1000)
    with pytest.raises(ControllerUnreachedError):
        await world.run(Effect.CREATE, policy, deadline=1000)
    bounds = [1, 2, 4, 4, 4, 4, 4, 4, 4]
    assert len(world.pauses) == 9
    assert all(0 <= pause <= bound for pause, bound in zip(world.pauses, bounds, strict=True))
    assert len(set(world.pauses)) == 9


async def test_no_try_begins_after_the_deadline() -> None:
    world = World(*(ControllerUnavailableError("x") for _ in range(9)), tries_take_s=10)
    with pytest.raises(ControllerUnavailableError):
        await world.run(policy=RetryPolicy(attempts=99), deadline=25)
    assert world.tries == 3
    assert world.now <= 31


@pytest.mark.parametrize(
    "make",
    [
        lambda: RetryPolicy(deadline_s=0),
        lambda: RetryPolicy(attempts=0),
        lambda: RetryPolicy(first_pause_s=-1),
        lambda: RetryPolicy(first_pause_s=9, longest_pause_s=1),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_its_values(make: Callable[[], RetryPolicy]) -> None:
    with pytest.raises(ValueError, match="attempts"):
        make()
