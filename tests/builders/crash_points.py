"""What befalls a process in the middle of a deed: it dies, or it is answered wrongly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from simulator.network.request_tap import DROPPED, Interception, RequestTap, TappedRequest
from tests.builders.actions import CHECK, DOING, READS, WATCH


class Moment(StrEnum):
    """When."""

    BEFORE = "before it is sent"
    SENT = "after it is sent"
    """The other side carries it out, and its answer never arrives."""

    ANSWERED = "after its answer and before it is recorded"


def moments_of(deed: str) -> list[Moment]:
    """The moments that a deed has: one that sends nothing is not answered, and a thought takes no time."""
    if deed == CHECK:
        return [Moment.BEFORE]
    return [Moment.BEFORE, Moment.ANSWERED] if deed == WATCH else list(Moment)


def counts(deed: str, sent: TappedRequest) -> bool:
    """Whether this request is what the deed is about, and not a look before it."""
    return sent.method != "GET" or deed in READS


class Killer:
    """Kills the process in one moment of the next deed of a kind, once armed. `nth` counts requests of one deed."""

    def __init__(self, deed: str, moment: Moment) -> None:
        self.deed = deed
        self.moment = moment
        self.die: Callable[[], None] = lambda: None
        self.struck = False
        self.armed = False
        self.tap = RequestTap(self._asks, self._intercept)
        self._mine: set[TappedRequest] = set()

    def arm(self) -> None:
        """From now on."""
        self.armed, self.struck = True, False
        self._mine.clear()

    async def begins(self, deed: str) -> None:
        if self._is_it(deed, Moment.BEFORE):
            await self._strike()

    async def ends(self, deed: str) -> None:
        if self._is_it(deed, Moment.ANSWERED) and (self._mine or deed == WATCH):
            await self._strike()

    def thinks(self, deed: str) -> None:
        if self.armed and deed == self.deed:
            self._kill()

    def _asks(self, sent: TappedRequest) -> Interception | None:
        if self.deed in DOING.get() and counts(self.deed, sent):
            self._mine.add(sent)
        return None

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        if sent in self._mine and self._is_it(self.deed, Moment.SENT):
            self._kill()
            return DROPPED
        return None

    def _is_it(self, deed: str, moment: Moment) -> bool:
        return self.armed and deed == self.deed and moment is self.moment

    async def _strike(self) -> None:
        self._kill()
        await asyncio.get_running_loop().create_future()

    def _kill(self) -> None:
        self.armed, self.struck = False, True
        self.die()


class Orderly(Killer):
    """Tells the process to end in that moment. The deed goes on, and is answered."""

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        super()._intercept(sent)
        return None

    async def _strike(self) -> None:
        self._kill()


def _answer(status: str, body: bytes, kind: str = "application/json", length: int | None = None) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body) if length is None else length}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body


ANSWERS: dict[str, Interception] = {
    "nothing": DROPPED,
    "a cut connection": Interception(cut=True),
    "500": Interception(_answer("500 Internal Server Error", b"{}"), cut=True),
    "503": Interception(_answer("503 Service Unavailable", b"upstream is away", "text/plain"), cut=True),
    "504": Interception(_answer("504 Gateway Timeout", b"<html>time-out</html>", "text/html"), cut=True),
    "garbage": Interception(_answer("200 OK", b"\x00\xff<nonsense>"), cut=True),
    "half an answer": Interception(_answer("200 OK", b'{"job_id": 1, "kind": "St', length=4000), cut=True),
}
"""What is heard in place of the answer."""


class Liar:
    """Answers the next requests of a deed itself. `done`: they are carried out all the same."""

    def __init__(self, deed: str, answer: str, *, done: bool, times: int = 1) -> None:
        self.deed = deed
        self.left = 0
        self.tap = RequestTap(self._asks, self._intercept)
        self._instead = ANSWERS[answer]
        self._done = done
        self._times = times
        self._mine: set[TappedRequest] = set()

    def arm(self) -> None:
        """From now on."""
        self.left = self._times

    @property
    def met(self) -> bool:
        """It was asked at least once."""
        return self.left < self._times

    async def begins(self, deed: str) -> None:
        """Nothing."""

    async def ends(self, deed: str) -> None:
        """Nothing."""

    def thinks(self, deed: str) -> None:
        """Nothing."""

    def _asks(self, sent: TappedRequest) -> Interception | None:
        if not self.left or self.deed not in DOING.get() or not counts(self.deed, sent):
            return None
        self.left -= 1
        if self._done:
            self._mine.add(sent)
            return None
        return self._instead

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        return self._instead if sent in self._mine else None
