"""Check the permission to write just before the bytes of a write are handed over to their connection."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import aiohttp

MayWrite = Callable[[], bool]
"""Returns whether a write may be sent; called just before its bytes are handed over."""

LEASES = "/apis/coordination.k8s.io/"
"""Path of Leases. Writing them does not need the permission to write, since it gives that permission."""


T = TypeVar("T")


class ShieldWrite(Protocol):
    """Await a write; a cancelled caller does not cancel the write."""

    async def __call__(self, request: Coroutine[Any, Any, T], /) -> T:
        """Return the answer."""
        ...


async def _unshielded(request: Coroutine[Any, Any, T]) -> T:
    """Await a write that ends with its caller."""
    return await request


@dataclass(frozen=True, slots=True)
class WriteCheck:
    """Configure the check of writes in a process that shares them with other replicas. The default checks nothing."""

    may_write: MayWrite = lambda: True
    answer_within_s: Callable[[], float] = lambda: math.inf
    """The largest number of seconds to wait for an answer."""

    acknowledged_s: float | None = None
    """Seconds for which the machine of the API server may leave bytes unacknowledged before they are given up. `None`:
    the default of the kernel, about a quarter of an hour (`tcp_retries2` of tcp(7))."""

    shield: ShieldWrite = _unshielded
    """Awaits each write."""


class NotAllowed(aiohttp.ClientError):
    """Report a write that was not sent, since `may_write` returned False."""


def needs_permission(method: str, path: str) -> bool:
    """Return whether this request needs the permission to write."""
    return method != "GET" and not path.startswith(LEASES)


def check_writes(trace: aiohttp.TraceConfig, may_write: MayWrite, prefix: str = "") -> None:
    """Call `may_write` before the bytes of a write are handed over. `prefix`: the path of the address itself.

    aiohttp holds the head until the body follows, and calls both functions just before it writes, without an await in
    between (`client_reqrep.py`, `http_writer.py`). An error raised there closes the connection.
    """

    async def check(
        _session: aiohttp.ClientSession,
        _context: object,
        params: aiohttp.TraceRequestHeadersSentParams | aiohttp.TraceRequestChunkSentParams,
    ) -> None:
        if needs_permission(params.method, params.url.path.removeprefix(prefix)) and not may_write():
            raise NotAllowed("this process may not write now")

    trace.on_request_headers_sent.append(check)
    trace.on_request_chunk_sent.append(check)


def was_not_allowed(error: BaseException | None) -> bool:
    """Return whether NotAllowed is among the causes: aiohttp wraps errors raised while it writes a body."""
    while error is not None:
        if isinstance(error, NotAllowed):
            return True
        error = error.__cause__
    return False
