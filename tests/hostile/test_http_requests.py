"""Requests that are no HTTP, or that two readers would take differently: refused, and the next caller is served."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from fastapi import APIRouter
from hypothesis import given
from hypothesis import strategies as st

from extender.config.values import BindAddress
from extender.domain.verdict import Wait
from extender.http.admission import router as admission_router
from extender.http.app import Endpoint, application
from extender.http.health import router as health_router
from extender.http.hooks import router as hooks_router
from extender.http.scheduling import router as scheduling_router
from extender.http.server import serving
from extender.observability.metrics.registry import Metrics
from tests.builders.flooder import connected
from tests.builders.listeners import every_route, requests_of
from tests.builders.services import FakeScheduling, FakeServices, StillClock

MAX_BODY = 64 * 1024
LOOPBACK = BindAddress("127.0.0.1", 0)
POST = b"POST /scheduler/filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
EMPTY = b'{"Pod":{"metadata":{"name":"a"}}}'


def endpoint() -> Endpoint:
    clock = StillClock()
    metrics = Metrics(clock)
    routers: list[APIRouter] = [
        scheduling_router(FakeServices(FakeScheduling(Wait("waits"))), metrics, clock, MAX_BODY),
        hooks_router(FakeServices(), metrics, 1.0),
        admission_router(["slurm"], None, MAX_BODY, clock),
        health_router(lambda: True, lambda: []),
    ]
    return Endpoint(LOOPBACK, application(routers), None, ("test",))


async def answered(at: BindAddress, *parts: bytes) -> bytes:
    """Everything that comes back, the connection closed behind the last part."""
    async with connected(at) as (reader, writer):
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            writer.write_eof()
            return await reader.read()
        except OSError:
            return b""


async def is_served(at: BindAddress) -> bool:
    return b" 200 " in await answered(at, b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")


def statuses(said: bytes) -> list[int]:
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


AMBIGUOUS = {
    "a length and chunks": POST
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 33\r\n\r\n" + EMPTY,
    "two lengths in one": POST + b"Content-Length: 1, 33\r\n\r\n" + EMPTY,
    "a length below nothing": POST + b"Content-Length: -1\r\n\r\n" + EMPTY,
    "a length with a sign": POST + b"Content-Length: +33\r\n\r\n" + EMPTY,
    "a length that is no number": POST + b"Content-Length: 0x21\r\n\r\n" + EMPTY,
    "a length of thousands of digits": POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + EMPTY,
    "blank before the colon": POST + b"Content-Length : 33\r\n\r\n" + EMPTY,
    "a line that goes on": POST + b"X: a\r\n b\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "an encoding twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "an encoding that nobody knows": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a NUL in a header": POST + b"X: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "a CR in a header": POST + b"X: a\rb\r\nContent-Length: 0\r\n\r\n",
    "a size of a chunk below nothing": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a size of a chunk of many digits": POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 60,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9": b"GET /livez HTTP/9.9\r\nHost: h\r\n\r\n",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_what_two_readers_would_take_differently_is_refused_and_the_connection_ends(name: str) -> None:
    async with serving([endpoint()], stop_within_s=0.1) as (at,):
        said = statuses(await answered(at, AMBIGUOUS[name]))
        assert len(said) <= 1, "nothing of the body is taken for a request"
        assert said == [] or 400 <= said[0] < 600
        assert await is_served(at)


@pytest.mark.parametrize(
    "target",
    [
        b"http://elsewhere/debug/config",
        b"/debug/config",
        b"/scheduler/../debug/config",
        b"/scheduler/%2e%2e/debug/config",
        b"//debug/config",
        b"/%64ebug/config",
        b"/hooks/../../etc/passwd",
        b"/openapi.json",
        b"/docs",
        b"*",
        b"/hooks/jobs/" + b"9" * 5000 + b"/started",
        b"/hooks/nodes/" + b"%00" * 50 + b"/empty",
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"POST", b"OPTIONS", b"TRACE", b"CONNECT", b"PUT"])
async def test_no_spelling_of_an_address_reaches_what_is_not_served_there(method: bytes, target: bytes) -> None:
    async with serving([endpoint()], stop_within_s=0.1) as (at,):
        sent = method + b" " + target + b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        assert all(400 <= status < 500 for status in statuses(await answered(at, sent)))
        assert await is_served(at)


REQUESTS = requests_of(every_route(LOOPBACK))


def test_every_listener_of_the_extender_is_tried() -> None:
    faces = {address.split("/")[1] for _, address in REQUESTS}
    assert faces == {"scheduler", "admission", "hooks", "livez", "healthz", "readyz", "metrics", "debug"}
    assert ("GET", "/debug/console/state?search=a") in REQUESTS


HOSTILE_TEXTS = {
    "zero bytes": "a\0b",
    "half a character": "\ud800",
    "another direction": "a\u202eb",
    "ends of lines": "a\r\nX: y\r\n\r\n",
    "a script": "<script>alert(1)</script>",
    "dots": "../../etc/passwd",
    "a long text": "x" * 8000,
    "a number": "9" * 5000,
}
heads = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from([b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"Authorization"]),
            st.binary(min_size=1, max_size=20),
        ),
        st.one_of(st.sampled_from([b"chunked", b"close", b"100-continue", b"0", b"7"]), st.binary(max_size=40)),
    ),
    max_size=6,
)


@given(
    request=st.sampled_from(REQUESTS),
    method=st.one_of(st.none(), st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS"])),
    host=st.sampled_from([b"h", b"localhost", b"[::1", b"127.0.0.1:8083"]),
    more=st.binary(max_size=20),
    headers=heads,
    body=st.one_of(
        st.binary(max_size=200), st.just(EMPTY), st.recursive(st.none(), st.lists).map(json.dumps).map(str.encode)
    ),
    cut=st.floats(0, 1),
)
async def test_any_request_is_answered_or_ended_and_no_failure_is_the_servers(
    request: tuple[str, str],
    method: str | None,
    host: bytes,
    more: bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    cut: float,
) -> None:
    """`more` goes behind the address of the route."""
    head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
    first = f"{method or request[0]} {request[1]}".encode() + more + b" HTTP/1.1\r\nHost: " + host + b"\r\n"
    whole = first + head + b"\r\n" + body
    at_byte = int(len(whole) * cut)
    async with serving([every_route(LOOPBACK)], stop_within_s=0.1) as (at,):
        said = statuses(await answered(at, whole[:at_byte], whole[at_byte:]))
        assert not [status for status in said if status >= 500 and status != 503]
        assert await is_served(at)


@pytest.mark.parametrize("request_of", [one for one in REQUESTS if "/debug" in one[1] or "/metrics" in one[1]])
@pytest.mark.parametrize("name", HOSTILE_TEXTS)
async def test_no_text_in_an_address_of_the_operators_pages_is_a_failure(
    request_of: tuple[str, str], name: str
) -> None:
    method, address = request_of
    text = quote(HOSTILE_TEXTS[name], safe="", errors="surrogatepass")
    spellings = [address.replace("u1", text), address + text, f"{address}{'&' if '?' in address else '?'}{text}={text}"]
    async with serving([every_route(LOOPBACK)], stop_within_s=0.1) as (at,):
        for spelled in spellings:
            sent = f"{method} {spelled} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            (status,) = statuses(await answered(at, sent))
            assert status < 500
        assert await is_served(at)
