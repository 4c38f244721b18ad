"""The exact sizes at which a listener refuses a request: the bytes of a head, an address and a body.

Over memory, so that a request arrives in the pieces in which the test sends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import pytest
from fastapi import APIRouter, FastAPI

from extender.config.values import BindAddress
from extender.domain.verdict import Place
from extender.http.admission import router as admission_router
from extender.http.app import Endpoint, application
from extender.http.bounded_protocol import LINGER, MOST_HEADERS
from extender.http.connections import DEFAULT_BOUNDS, ListenerLimits
from extender.http.health import router as health_router
from extender.http.scheduling import router as scheduling_router
from extender.http.server import serving
from extender.observability.metrics.registry import Metrics
from simulator.kube.objects import a_pod
from simulator.network.memory import Network
from tests.builders.hostile_server import memory_at_most
from tests.builders.services import FakeScheduling, FakeServices, StillClock

pytestmark = pytest.mark.looptime

HERE = BindAddress("extender", 8080)
HEAD_BYTES, URL_BYTES, BODY_BYTES = 64 * 1024, 16 * 1024, 64 * 1024
"""What a listener takes unless it says otherwise, in numbers, so that a larger default is a failure."""

HELD = 8 * 1024 * 1024
MEBIBYTE = 1024 * 1024
LARGE_BODY = 2 * MEBIBYTE
HALF = 32 * 1024
FITTING = 10
"""So many halves of a request does a small listener hold."""


class Peer(asyncio.Protocol):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.heard = b""

    def data_received(self, data: bytes) -> None:
        self.heard += data


@cache
def app() -> FastAPI:
    """The routes of probes and of the webhook, and one that reads no body for a while."""
    routes = APIRouter()

    @routes.post("/busy")
    async def busy() -> str:
        await asyncio.sleep(5)
        return "done"

    @routes.get("/{path:path}")
    async def found(path: str) -> int:
        return len(path)

    probes = health_router(lambda: True, lambda: [])
    webhook = admission_router(["slurm"], None, BODY_BYTES, StillClock())
    return application([probes, webhook, routes])


@cache
def large_app() -> FastAPI:
    """Routes that take larger bodies."""
    clock = StillClock()
    filtering = scheduling_router(FakeServices(FakeScheduling(Place("n1"))), Metrics(clock), clock, LARGE_BODY)
    return application([filtering, admission_router(["slurm"], None, LARGE_BODY, clock)])


@asynccontextmanager
async def listening(
    refused: list[str], limits: ListenerLimits = DEFAULT_BOUNDS, served: FastAPI | None = None
) -> AsyncIterator[Network]:
    network = Network()
    endpoint = Endpoint(HERE, served or app(), None, ("test",), bounds=limits)
    async with serving([endpoint], stop_within_s=1, listen=network.listen, refused=refused.append):
        yield network


async def answer_to(*pieces: bytes, refused: list[str] | None = None) -> int:
    """The status of the answer to a request in these pieces; 0: none has come after a second."""
    async with listening([] if refused is None else refused) as network:
        transport, peer = await network.dial(Peer, HERE.host, HERE.port)
        for piece in pieces:
            transport.write(piece)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        return int(peer.heard.split(b" ")[1]) if peer.heard else 0


def with_headers(size: int, count: int = 1) -> bytes:
    """A request with so many bytes of header lines, without the empty line at the end."""
    first = b"X: " + b"a" * (size - len("X: \r\n") * count) + b"\r\n"
    return b"GET /livez HTTP/1.1\r\n" + first + b"X: \r\n" * (count - 1)


def test_a_listener_has_these_bounds_unless_it_says_otherwise() -> None:
    limits = DEFAULT_BOUNDS
    assert (limits.head_bytes, limits.url_bytes, limits.body_bytes) == (HEAD_BYTES, URL_BYTES, BODY_BYTES)
    assert limits.held_bytes == HELD


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES, 200), (HEAD_BYTES + 1, 431)])
@pytest.mark.parametrize("lines", [1, MOST_HEADERS])
async def test_a_head_has_at_most_its_bytes(size: int, lines: int, status: int) -> None:
    assert await answer_to(with_headers(size, lines) + b"\r\n") == status


@pytest.mark.parametrize(("lines", "status"), [(MOST_HEADERS, 200), (MOST_HEADERS + 1, 431)])
async def test_a_head_has_at_most_its_lines(lines: int, status: int) -> None:
    assert await answer_to(with_headers(1000, lines) + b"\r\n") == status


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES, 0), (HEAD_BYTES + 1, 431)])
@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_head_without_an_end_is_refused_at_its_bytes(size: int, pieces: int, status: int) -> None:
    begun = b"GET /livez HTTP/1.1\r\nX: "
    sent = begun + b"a" * (size - len(begun))
    step = -(-len(sent) // pieces)
    refused: list[str] = []
    assert await answer_to(*(sent[at : at + step] for at in range(0, len(sent), step)), refused=refused) == status
    assert refused == (["head too large"] if status else [])


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES, 0), (HEAD_BYTES + 1, 431)])
async def test_the_head_of_a_later_request_has_the_same_bound(size: int, status: int) -> None:
    begun = b"GET /livez HTTP/1.1\r\nX: "
    async with listening([]) as network:
        transport, peer = await network.dial(Peer, HERE.host, HERE.port)
        transport.write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(0.1)
        assert peer.heard.startswith(b"HTTP/1.1 200 ")
        peer.heard = b""
        transport.write(begun + b"a" * (size - len(begun)))
        await asyncio.sleep(1)
        assert (int(peer.heard.split(b" ")[1]) if peer.heard else 0) == status


@pytest.mark.parametrize(("size", "status"), [(URL_BYTES, 200), (URL_BYTES + 1, 414)])
@pytest.mark.parametrize("pieces", [1, 3])
async def test_an_address_has_at_most_its_bytes(size: int, pieces: int, status: int) -> None:
    sent = b"GET /" + b"a" * (size - 1) + b" HTTP/1.1\r\nHost: h\r\n\r\n"
    step = -(-len(sent) // pieces)
    assert await answer_to(*(sent[at : at + step] for at in range(0, len(sent), step))) == status


def review(size: int) -> bytes:
    """A review of a new Pod, of so many bytes."""
    whole = {"request": {"uid": "u", "operation": "CREATE", "namespace": "default", "object": a_pod("web")}}
    text = json.dumps(whole).encode()
    return text + b" " * (size - len(text))


def posted(path: str, body: bytes, *, chunked: bool = False, announced: int | None = None) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n".encode()
    if chunked:
        return head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % (announced or len(body)) + body


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(BODY_BYTES, 200), (BODY_BYTES + 1, 413)])
@pytest.mark.parametrize("route", ["mutate", "opt-in"])
async def test_a_review_of_a_pod_has_at_most_its_bytes(route: str, size: int, status: int, chunked: bool) -> None:
    assert await answer_to(posted(f"/admission/{route}", review(size), chunked=chunked)) == status


@pytest.mark.parametrize(("size", "status"), [(BODY_BYTES + LINGER, 0), (BODY_BYTES + LINGER + 1, 413)])
async def test_a_body_that_no_route_reads_ends_its_connection_a_while_above_the_bound(size: int, status: int) -> None:
    refused: list[str] = []
    sent = posted("/busy", b"a" * size, announced=10 * size)
    assert await answer_to(sent, refused=refused) == status
    assert refused == (["body too large"] if status else [])


@pytest.mark.parametrize(("more", "status"), [(0, 0), (1, 413)])
async def test_what_stands_around_chunks_has_at_most_the_bytes_of_a_head(more: int, status: int) -> None:
    head = b"POST /busy HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    begun = head + b"1;" + b"a" * (HEAD_BYTES + more - len(head) - 2)
    refused: list[str] = []
    assert await answer_to(begun, refused=refused) == status
    assert refused == (["body too large"] if status else [])


KINDS = {
    "ended while it arrives": (b"a" * MEBIBYTE, 2 * MEBIBYTE),
    "too long": (b"a" * (LARGE_BODY + 1), None),
    "no JSON": (b"a" * MEBIBYTE, None),
    "an unfinished text": (b'{"request": "' + b"a" * MEBIBYTE, None),
    "another model": (b'{"a": "' + b"a" * MEBIBYTE + b'"}', None),
    "a wrong field": (b'{"request": {"uid": 5, "object": "' + b"a" * MEBIBYTE + b'"}}', None),
    "a review": (review(MEBIBYTE), None),
}


@pytest.mark.parametrize("path", ["/scheduler/filter", "/admission/mutate"])
@pytest.mark.parametrize("kind", KINDS)
async def test_no_body_stays_in_memory_until_a_search_for_cycles(kind: str, path: str) -> None:
    """A search comes after thousands of objects, and a body is one: the limits of a listener would mean nothing."""
    body, announced = KINDS[kind]
    sent = posted(path, body, announced=announced)
    limits = ListenerLimits(held_bytes=4 * MEBIBYTE, body_bytes=LARGE_BODY)
    async with listening([], limits, large_app()) as network:
        await answered(network, sent)
        gc.collect()
        gc.disable()
        try:
            with memory_at_most(12 * MEBIBYTE):
                for _ in range(20):
                    await answered(network, sent)
        finally:
            gc.enable()


async def answered(network: Network, sent: bytes) -> None:
    transport, peer = await network.dial(Peer, HERE.host, HERE.port)
    transport.write(sent)
    await asyncio.sleep(0.1)
    if peer.heard:
        transport.abort()
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("begun", ["head", "body"])
async def test_what_is_held_of_requests_that_do_not_end_is_bounded_by_ending_the_slowest(begun: str) -> None:
    half = posted("/admission/mutate", b"a" * HALF, announced=2 * HALF) if begun == "body" else b"GET /" + b"a" * HALF
    size = HALF if begun == "body" else len(half)
    refused: list[str] = []
    async with listening(refused, ListenerLimits(held_bytes=FITTING * size, url_bytes=2 * HALF)) as network:
        for number in range(2 * FITTING):
            transport, _ = await network.dial(Peer, HERE.host, HERE.port)
            transport.write(half)
            await asyncio.sleep(0.1)
            assert network.connections(HERE.host, HERE.port) == min(number + 1, FITTING)
        assert refused == ["too many bytes held"] * FITTING
