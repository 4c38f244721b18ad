"""The right to write, asked for in the instant in which the bytes of a write are handed over to their connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp

MayWrite = Callable[[], bool]
"""Asked in the instant in which a write is handed over to its connection."""

LEASES = "/apis/coordination.k8s.io/"
"""Where Leases are: what is written there gives the right to write, and does not need it."""


T = TypeVar("T")


class ShieldWrite(Protocol):
    """Awaits a write; who waits for it may be cancelled, the write is not."""

    async def __call__(self, request: Coroutine[Any, Any, T], /) -> T:
        """Its answer."""
        ...


async def _unshielded(request: Coroutine[Any, Any, T]) -> T:
    """A write that ends with who asked."""
    return await request


@dataclass(frozen=True, slots=True)
class Guard:
    """The conditions for writes of a process that is one of several; without arguments: none."""

    may_write: MayWrite = lambda: True
    answer_within_s: Callable[[], float] = lambda: math.inf
    """For how many seconds from now an answer is waited for at most."""

    acknowledged_s: float | None = None
    """How long the machine of the API server may not have acknowledged bytes before they are given up; `None`: as long
    as the kernel likes, which is a quarter of an hour (`tcp_retries2` of tcp(7))."""

    shield: ShieldWrite = _unshielded
    """By which each write is sent and its answer awaited."""


class NotAllowed(aiohttp.ClientError):
    """The write was not sent: `may_write` returned False."""


def guarded(method: str, path: str) -> bool:
    """Return whether this request needs the right to write."""
    return method != "GET" and not path.startswith(LEASES)


def guarded_by(may_write: MayWrite, prefix: str = "") -> aiohttp.TraceConfig:
    """Asks before the bytes of a write are handed over. `prefix`: the path that the API server's own address has.

    aiohttp keeps the head back until the body comes, and calls both of these just before it writes, with nothing in
    between that waits (`client_reqrep.py`, `http_writer.py`). A fault raised there closes the connection.
    """

    async def ask(
        _session: aiohttp.ClientSession,
        _context: object,
        params: aiohttp.TraceRequestHeadersSentParams | aiohttp.TraceRequestChunkSentParams,
    ) -> None:
        if guarded(params.method, params.url.path.removeprefix(prefix)) and not may_write():
            raise NotAllowed("this process may not write now")

    guard = aiohttp.TraceConfig()
    guard.on_request_headers_sent.append(ask)
    guard.on_request_chunk_sent.append(ask)
    return guard


def was_not_allowed(error: BaseException | None) -> bool:
    """aiohttp wraps what is raised while it writes a body."""
    while error is not None:
        if isinstance(error, NotAllowed):
            return True
        error = error.__cause__
    return False
