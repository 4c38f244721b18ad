"""Answers without end, of the wrong length, in pieces, or from elsewhere: each ends in the client's own error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from extender.kube.answers import ResponseLimits
from extender.kube.connection import ApiConnection, connect_plainly
from extender.kube.errors import AnswerTooLong, ApiError, ApiUnavailable, OutcomeUnknown, Throttled
from extender.kube.listing import list_all
from extender.kube.wire.stream import LONGEST_PAUSE_S, POD
from simulator.network.aiohttp_connector import MemoryConnector
from slurmclient.errors import TransportError
from slurmclient.exchange import Reply, Request
from slurmclient.transport import Transport
from tests.builders.hostile_server import URL, HostileServer, Script, answer, endlessly, memory_at_most

pytestmark = pytest.mark.looptime

MEBI = 2**20
BOUND = MEBI
MEMORY = 16 * MEBI
"""Of which aiohttp takes 4 MiB for what waits to be read."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + b"a" * 65536 + b"\r\n"
DEADLINE_S = 20.0

ENDLESS: dict[str, Script] = {
    "chunks": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
    "small chunks": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n", (b"20\r\n" + b"a" * 32 + b"\r\n") * 1024),
    "no length": endlessly(OK + b"\r\n", b"a" * 65536),
    "a declared length above the bound": endlessly(OK + b"Content-Length: 999999999999999\r\n\r\n", b"a" * 65536),
    "a declared length of 40 digits": endlessly(OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", b"a" * 65536),
    "header lines": endlessly(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 1000 + b"\r\n"),
    "one header line": endlessly(b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 65536),
    "a status line": endlessly(b"HTTP/1.1 200 ", b"O" * 65536),
    "interim answers": endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10),
    "trailers": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: " + b"a" * 1000 + b"\r\n"),
    "one trailer": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: ", b"a" * 65536),
    "an extension of a chunk": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n5;", b"a" * 65536),
    "digits of a chunk's size": endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65536),
    "empty lines": endlessly(b"", b"\r\n" * 4096),
}


def dripping() -> Iterator[bytes | float]:
    yield OK + b"Content-Length: 100000\r\n\r\n"
    while True:
        yield b"a"
        yield 1.0


UNUSABLE: dict[str, Script] = {
    "fewer bytes than declared": lambda: [answer(b"{}", length=1000)],
    "no answer": lambda: [],
    "a drip": dripping,
    "two lengths": lambda: [OK + b"Content-Length: 2\r\nContent-Length: 4\r\n\r\n{  }"],
    "a negative length": lambda: [answer(b"{}", length=-2)],
    "a length and chunks": lambda: [
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5\r\nhello\r\n0\r\n\r\n"
    ],
    "no HTTP": lambda: [b"SSH-2.0-OpenSSH_9.2\r\n"],
    "a zero byte in a header": lambda: [OK + b"X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}"],
    "a change of protocol": lambda: [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n{}"
    ],
}

ELSEWHERE = "http://elsewhere.test:1/x"


def redirect(status: int) -> bytes:
    return answer(b"", status=f"{status} Elsewhere", headers=f"Location: {ELSEWHERE}\r\n")


@asynccontextmanager
async def slurm(script: Script) -> AsyncIterator[tuple[HostileServer, Transport]]:
    server = HostileServer(script)
    transport = Transport([URL], dial=server.network.dial, longest_body=BOUND)
    try:
        yield server, transport
    finally:
        await transport.aclose()


async def get(transport: Transport, method: str = "GET") -> Reply:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    return await transport.send(Request(method, "/slurm/v0.0.45/jobs/"), {"X-SLURM-USER-TOKEN": "secret"}, deadline)


BOUNDS = ResponseLimits(answer=BOUND, line=BOUND, message=BOUND)


@asynccontextmanager
async def kubernetes(
    script: Script, bounds: ResponseLimits = BOUNDS
) -> AsyncIterator[tuple[HostileServer, ApiConnection]]:
    server = HostileServer(script)
    connection = connect_plainly(URL, lambda: "secret", lambda: MemoryConnector(server.network), bounds=bounds)
    try:
        yield server, connection
    finally:
        await connection.close()


async def lines_of(connection: ApiConnection, count: int) -> list[bytes]:
    async with connection.watch("/api/v1/pods", {}, silence_s=60) as lines:
        return [await anext(lines) for _ in range(count)]


@pytest.mark.parametrize("case", ENDLESS)
async def test_an_endless_answer_of_slurmrestd_is_read_up_to_the_bound(case: str) -> None:
    async with slurm(ENDLESS[case]) as (server, transport):
        with memory_at_most(MEMORY), pytest.raises(TransportError) as raised:
            await get(transport)
        assert raised.value.endpoint == "GET /slurm/v0.0.45/jobs/"
        assert server.sent <= 2 * BOUND


@pytest.mark.parametrize("case", ["chunks", "no length", "a declared length above the bound"])
async def test_the_error_names_the_bound_and_what_to_do(case: str) -> None:
    async with slurm(ENDLESS[case]) as (_, transport):
        with pytest.raises(TransportError, match=f"more than {BOUND} bytes; check that slurmrestd answers"):
            await get(transport)


@pytest.mark.parametrize("case", UNUSABLE)
async def test_an_unusable_answer_of_slurmrestd_is_a_transport_error_before_the_deadline(case: str) -> None:
    async with slurm(UNUSABLE[case]) as (_, transport):
        began = asyncio.get_running_loop().time()
        with memory_at_most(MEMORY), pytest.raises(TransportError):
            await get(transport)
        assert asyncio.get_running_loop().time() - began <= DEADLINE_S


async def test_an_answer_of_exactly_the_bound_is_read() -> None:
    async with slurm(lambda: [answer(b"a" * BOUND)]) as (_, transport):
        assert len((await get(transport)).body) == BOUND
    async with kubernetes(lambda: [answer(b"a" * BOUND)]) as (_, connection):
        assert len((await connection.request("GET", "/x")).body) == BOUND


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_redirect_of_slurmrestd_is_an_error_that_names_the_address(method: str, status: int) -> None:
    async with slurm(lambda: [redirect(status)]) as (server, transport):
        with pytest.raises(TransportError, match=f"{status} is a redirect to '{ELSEWHERE}', which is not followed"):
            await get(transport, method)
        assert len(server.requests) == 1


@pytest.mark.parametrize("case", ENDLESS)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_an_endless_answer_of_an_api_server_is_read_up_to_the_bound(case: str, method: str) -> None:
    async with kubernetes(ENDLESS[case]) as (_, connection):
        expected = ApiUnavailable if method == "GET" else OutcomeUnknown
        with memory_at_most(MEMORY), pytest.raises(expected, match=f"{method} /api/v1/pods"):
            await connection.request(method, "/api/v1/pods", body=None if method == "GET" else {"x": 1})


async def test_an_endless_page_of_a_list_is_read_up_to_the_bound_of_a_page_and_requested_down_to_one_object() -> None:
    async with kubernetes(ENDLESS["chunks"], ResponseLimits(page=BOUND)) as (server, connection):
        with memory_at_most(MEMORY), pytest.raises(AnswerTooLong, match=f"more than {BOUND} bytes"):
            await list_all(connection, "/api/v1/pods", POD, lambda view: view)
        assert len(server.requests) == 7


@pytest.mark.parametrize("case", UNUSABLE)
async def test_an_unusable_answer_of_an_api_server_is_its_error_in_time(case: str) -> None:
    async with kubernetes(UNUSABLE[case]) as (_, connection):
        began = asyncio.get_running_loop().time()
        with memory_at_most(MEMORY), pytest.raises(ApiError):
            await connection.request("PATCH", "/api/v1/pods", body={"x": 1}, timeout_s=DEADLINE_S)
        assert asyncio.get_running_loop().time() - began <= DEADLINE_S


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_a_redirect_of_an_api_server_is_an_error_that_names_the_address(method: str, status: int) -> None:
    async with kubernetes(lambda: [redirect(status)]) as (server, connection):
        with pytest.raises(ApiError, match=f"{URL} answers {status}, a redirect to '{ELSEWHERE}'"):
            await connection.request(method, "/api/v1/pods", body=None if method == "GET" else {"x": 1})
        assert len(server.requests) == 1


async def test_a_watch_and_a_websocket_are_not_redirected() -> None:
    async with kubernetes(lambda: [redirect(302)]) as (server, connection):
        with pytest.raises(ApiUnavailable, match=f"a redirect to '{ELSEWHERE}'"):
            async with connection.watch("/api/v1/pods", {}, silence_s=60):
                pass
        with pytest.raises(ApiUnavailable, match=f"a redirect to '{ELSEWHERE}'"):
            async with connection.channels("/api/v1/pods/x/portforward", {}, "v4.channel.k8s.io"):
                pass
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "script",
    [
        endlessly(OK + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
        endlessly(OK + b"\r\n", b"a" * 65536),
        lambda: [OK + b"\r\n" + b"a" * (BOUND + 1) + b"\n"],
    ],
)
async def test_a_line_of_a_watch_is_read_up_to_the_bound(script: Script) -> None:
    async with kubernetes(script) as (_, connection):
        with memory_at_most(MEMORY), pytest.raises(ApiUnavailable, match=f"the line of {URL} has more than {BOUND}"):
            await lines_of(connection, 1)


async def test_lines_of_a_watch_come_whole_however_they_are_cut() -> None:
    texts = [b"first", b"", b"x" * 3_000, b"last"]
    whole = b"".join(text + b"\n" for text in texts) + b"incomplete"
    for size in (1, 7, 1000, 65536):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        async with kubernetes(partial(list, [OK + b"\r\n", *parts])) as (_, connection):
            assert await lines_of(connection, len(texts)) == texts


async def test_a_packed_answer_is_not_unpacked() -> None:
    packed = answer(b"\x1f\x8b" + b"\0" * 100, headers="Content-Encoding: gzip\r\n")
    async with kubernetes(lambda: [packed]) as (_, connection):
        assert (await connection.request("GET", "/x")).body.startswith(b"\x1f\x8b")


@pytest.mark.parametrize("said", ["9" * 5000, "\u00b2", "-1", "1e400", "soon", "9" * 9])
async def test_a_pause_of_any_form_ends_in_the_errors_own_bounded_pause(said: str) -> None:
    refusal = answer(b"{}", status="429 Slowly", headers=f"Retry-After: {said}\r\n")
    async with kubernetes(lambda: [refusal]) as (_, connection):
        with pytest.raises(Throttled) as raised:
            await connection.request("GET", "/api/v1/pods")
        assert 0.0 <= raised.value.retry_after_s <= LONGEST_PAUSE_S
