"""What is repeated, when, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from looptime import LoopTimeProxy

from extender.kube.errors import ApiError, ApiUnavailable, Conflict, OutcomeUnknown, Throttled
from extender.kube.repeat import repeated
from extender.kube.wire.stream import Refusal
from tests.builders.fake_api import a_rng

pytestmark = pytest.mark.looptime


class Sender:
    """Fails as told, then answers; remembers when it was called and with how much time."""

    def __init__(self, *faults: ApiError, takes_s: float = 0) -> None:
        self.faults = list(faults)
        self.takes_s = takes_s
        self.calls: list[tuple[float, float]] = []

    async def __call__(self, timeout_s: float) -> str:
        self.calls.append((asyncio.get_running_loop().time(), timeout_s))
        await asyncio.sleep(min(self.takes_s, timeout_s))
        if self.faults:
            raise self.faults.pop(0)
        return "answer"


def throttled(retry_after_s: float) -> Throttled:
    return Throttled("GET /", Refusal(429, "TooManyRequests", "later", retry_after_s))


async def test_an_answer_ends_it() -> None:
    send = Sender()
    assert await repeated(send, within_s=10, once_s=3, rng=a_rng()) == "answer"
    assert send.calls == [(0, 3)]


@pytest.mark.parametrize("fault", [ApiUnavailable, OutcomeUnknown])
async def test_what_may_pass_is_repeated(fault: Callable[[str], ApiError]) -> None:
    send = Sender(fault("1"), fault("2"), fault("3"))
    assert await repeated(send, within_s=10, once_s=3, rng=a_rng()) == "answer"
    assert len(send.calls) == 4


async def test_a_refusal_is_not_repeated() -> None:
    send = Sender(Conflict("POST /", Refusal(409, "Conflict", "no")))
    with pytest.raises(Conflict):
        await repeated(send, within_s=10, once_s=3, rng=a_rng())
    assert len(send.calls) == 1


async def test_a_throttled_request_waits_as_long_as_requested() -> None:
    send = Sender(throttled(4))
    await repeated(send, within_s=10, once_s=3, rng=a_rng())
    assert 4 <= send.calls[1][0] <= 4.1


async def test_it_does_not_wait_beyond_its_time(looptime: LoopTimeProxy) -> None:
    with pytest.raises(Throttled):
        await repeated(Sender(throttled(60)), within_s=10, once_s=3, rng=a_rng())
    assert looptime == 0


async def test_a_throttled_request_can_be_left_to_the_caller() -> None:
    with pytest.raises(Throttled):
        await repeated(Sender(throttled(1)), within_s=10, once_s=3, rng=a_rng(), wait_when_throttled=False)


async def test_attempts_share_the_time_there_is(looptime: LoopTimeProxy) -> None:
    send = Sender(*(ApiUnavailable(str(number)) for number in range(100)), takes_s=3)
    with pytest.raises(ApiUnavailable):
        await repeated(send, within_s=10, once_s=3, rng=a_rng())
    assert looptime <= 10
    assert len(send.calls) == 4
    assert send.calls[-1][1] < 3
