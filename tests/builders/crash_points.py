"""Faults in the middle of an operation: the process ends, or gets a false answer, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from simulator.network.request_tap import DROPPED, Interception, RequestTap, TappedRequest
from tests.builders.actions import CHECK, CURRENT_OPERATIONS, READS, WATCH


class Moment(StrEnum):
    """Name a moment within an operation."""

    BEFORE = "before it is sent"
    SENT = "after it is sent"
    """The server executes the request, and its answer never arrives."""

    ANSWERED = "after its answer and before it is recorded"


def moments_of(operation: str) -> list[Moment]:
    """Return the moments of an operation: one without requests gets no answer, and a decision takes no time."""
    if operation == CHECK:
        return [Moment.BEFORE]
    return [Moment.BEFORE, Moment.ANSWERED] if operation == WATCH else list(Moment)


def counts(operation: str, sent: TappedRequest) -> bool:
    """Return whether this request is the purpose of the operation, and not a read before it."""
    return sent.method != "GET" or operation in READS


class ProcessKiller:
    """End the process in one moment of the next operation of a kind, once armed. `end_process` does it."""

    def __init__(self, operation: str, moment: Moment) -> None:
        self.operation = operation
        self.moment = moment
        self.end_process: Callable[[], None] = lambda: None
        self.fired = False
        self.armed = False
        self.tap = RequestTap(self._on_request, self._intercept)
        self._own_requests: set[TappedRequest] = set()

    def arm(self) -> None:
        """Start to wait for the operation."""
        self.armed, self.fired = True, False
        self._own_requests.clear()

    async def on_start(self, operation: str) -> None:
        if self._is_it(operation, Moment.BEFORE):
            await self._fire()

    async def on_answer(self, operation: str) -> None:
        if self._is_it(operation, Moment.ANSWERED) and (self._own_requests or operation == WATCH):
            await self._fire()

    def on_decision(self, operation: str) -> None:
        if self.armed and operation == self.operation:
            self._kill()

    def _on_request(self, sent: TappedRequest) -> Interception | None:
        if self.operation in CURRENT_OPERATIONS.get() and counts(self.operation, sent):
            self._own_requests.add(sent)
        return None

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        if sent in self._own_requests and self._is_it(self.operation, Moment.SENT):
            self._kill()
            return DROPPED
        return None

    def _is_it(self, operation: str, moment: Moment) -> bool:
        return self.armed and operation == self.operation and moment is self.moment

    async def _fire(self) -> None:
        self._kill()
        await asyncio.get_running_loop().create_future()

    def _kill(self) -> None:
        self.armed, self.fired = False, True
        self.end_process()


class GracefulStopper(ProcessKiller):
    """Ask the process to end in that moment. The operation continues, and gets its answer."""

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        super()._intercept(sent)
        return None

    async def _fire(self) -> None:
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
"""Sent to the process in place of the answer."""


class ResponseFaker:
    """Answer the next requests of an operation with a false response. `done`: the server still executes them."""

    def __init__(self, operation: str, answer: str, *, done: bool, times: int = 1) -> None:
        self.operation = operation
        self.left = 0
        self.tap = RequestTap(self._on_request, self._intercept)
        self._instead = ANSWERS[answer]
        self._done = done
        self._times = times
        self._own_requests: set[TappedRequest] = set()

    def arm(self) -> None:
        """Start to wait for the operation."""
        self.left = self._times

    @property
    def used(self) -> bool:
        """Return whether at least one request got the false response."""
        return self.left < self._times

    async def on_start(self, operation: str) -> None:
        """Ignore the call."""

    async def on_answer(self, operation: str) -> None:
        """Ignore the call."""

    def on_decision(self, operation: str) -> None:
        """Ignore the call."""

    def _on_request(self, sent: TappedRequest) -> Interception | None:
        if not self.left or self.operation not in CURRENT_OPERATIONS.get() or not counts(self.operation, sent):
            return None
        self.left -= 1
        if self._done:
            self._own_requests.add(sent)
            return None
        return self._instead

    def _intercept(self, sent: TappedRequest) -> Interception | None:
        return self._instead if sent in self._own_requests else None
