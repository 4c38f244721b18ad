"""One watch: from a resource version until the stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from extender.kube.connection import ApiConnection
from extender.kube.wire.stream import ResourceKind, StreamEvent, ViewT

SILENCE_S = 180.0
"""Seconds without data after which a watch is begun again: its connection may be half-open.

The API server sends a bookmark about once a minute, but only if there is a new version: on a quiet cluster this costs
one request every three minutes. Waiting for the end of the watch instead would leave a stalled cache unnoticed for ten
minutes.
"""

BREATHE_EVERY = 64
"""Changes after which the loop may do something else: about 3 ms of decoding."""


@asynccontextmanager
async def watch_from(
    connection: ApiConnection, path: str, kind: ResourceKind[ViewT], resource_version: str, timeout_s: int
) -> AsyncIterator[AsyncIterator[StreamEvent[ViewT]]]:
    """Yield the changes after `resource_version`, for `timeout_s` seconds or until the API server ends the stream.

    Entering and iterating raise ApiError, and wire.Unreadable for a line that cannot be decoded. Leaving the context
    closes the connection.
    """
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout_s),
    }
    async with (
        connection.watch(path, query, silence_s=SILENCE_S) as lines,
        aclosing(_changes(lines, kind)) as changes,
    ):
        yield changes


async def _changes(lines: AsyncIterator[bytes], kind: ResourceKind[ViewT]) -> AsyncGenerator[StreamEvent[ViewT]]:
    count = 0
    async for line in lines:
        yield kind.change(line)
        count += 1
        if count % BREATHE_EVERY == 0:
            await asyncio.sleep(0)
