"""The relay that tests put before a server lets exactly as many requests through as a test limits."""

from __future__ import annotations

import asyncio
from functools import partial
from urllib.parse import urlsplit

import pytest

from tests.builders.crashes import RequestPattern
from tests.builders.relay import Relay, RequestLimit

SENT = 8
SLOWLY_S = 0.05
"""In which the server answers, so that all requests are on their way at one time."""


async def post(url: str, number: int) -> bytes:
    """Send a request on a connection of its own; return what comes back."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(f"POST /pods/ring-{number}/binding HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    await writer.drain()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("count", [1, 4, 7])
async def test_requests_beyond_a_limit_never_reach_the_server(count: int) -> None:
    reached: list[str] = []
    at_the_limit: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        reached.append(head.split(b" ")[1].decode())
        await asyncio.sleep(SLOWLY_S)
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        limit = RequestLimit(RequestPattern("POST", "/binding"), count, lambda: at_the_limit.append(len(reached)))
        with Relay(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as relay:
            relay.limit = limit
            answers = await asyncio.gather(*map(partial(post, relay.url), range(SENT)))
        assert limit.reached.is_set()
        assert at_the_limit == [count]
        assert len(reached) == count
        assert sum(answer.startswith(b"HTTP/1.1 201") for answer in answers) == count - 1
