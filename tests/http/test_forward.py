"""Calls passed on to the leader over TLS, each side holding the other to its authorities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
import trustme
from fastapi import APIRouter, FastAPI

from extender.certificates.tls.contexts import CallerTls
from extender.config.serving import ServerTls
from extender.config.values import BindAddress
from extender.domain.verdict import Place
from extender.http import forward
from extender.http.app import Endpoint, application
from extender.http.connections import ListenerLimits
from extender.http.forward import Forwarding, Peers
from extender.http.scheduling import router
from extender.http.server import serving
from extender.observability.metrics.registry import Metrics
from tests.builders.services import FakeScheduling, FakeServices, StillClock, args

LOOPBACK = BindAddress("127.0.0.1", 0)
GENEROUS_S = 60.0
"""For a handshake and an answer, on a machine that has other work."""


POOL_OF_HTTPX = 100
"""Connections of a client of httpx, unless it is told another number."""


class Elsewhere:
    """The leader is at `url`."""

    here = False

    def __init__(self, url: str) -> None:
        self.url = url

    def address(self, _endpoint: str) -> str:
        return self.url

    async def changes(self) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.fixture(autouse=True)
def _no_call_is_held_for_long_and_a_handshake_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "HOLD_S", 0.3)
    monkeypatch.setattr(forward, "CONNECT_S", GENEROUS_S)


def scheduling(node: str) -> Endpoint:
    clock = StillClock()
    service = FakeScheduling(Place(node))
    return Endpoint(
        LOOPBACK, application([router(FakeServices(service), Metrics(clock), clock, 1 << 20)]), None, ("http.bind",)
    )


def files(authority: trustme.CA, folder: Path, name: str = "127.0.0.1") -> ServerTls:
    folder.mkdir(exist_ok=True)
    leaf = authority.issue_cert(name)
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    (folder / "tls.key").write_bytes(leaf.private_key_pem.bytes())
    (folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    return ServerTls(
        certificate_file=str(folder / "tls.crt"),
        key_file=str(folder / "tls.key"),
        client_ca_file=str(folder / "ca.crt"),
    )


def spoil(own: ServerTls, how: str) -> None:
    if how == "missing":
        Path(own.key_file).unlink()
    else:
        Path(own.certificate_file).write_text("no certificate")


@asynccontextmanager
async def two_replicas(leader_tls: ServerTls, caller: CallerTls, name: str | None = None) -> AsyncIterator[str]:
    """A leader that says `there` and serves with TLS, and a follower that would say `here` by itself."""
    lead, follow = scheduling("there"), scheduling("here")
    peers = Peers(caller, name, None)
    async with serving([Endpoint(LOOPBACK, lead.app, leader_tls, lead.names)], stop_within_s=1) as (at,):
        elsewhere = Elsewhere(f"https://{at}")
        app = Forwarding(
            follow.app,
            {"/scheduler": "scheduling"},
            elsewhere,
            peers,
            longest_s={"scheduling": GENEROUS_S},
            max_body=1 << 20,
        )
        async with serving([Endpoint(LOOPBACK, follow.app, None, follow.names, app)], stop_within_s=1) as (near,):
            try:
                yield f"http://{near}/scheduler/filter"
            finally:
                await peers.close()


async def placed(url: str) -> str:
    async with httpx.AsyncClient(timeout=2 * GENEROUS_S) as http:
        names: list[str] = (await http.post(url, json=args("here", "there"))).json()["NodeNames"]
        return names[0]


async def test_a_call_reaches_a_leader_that_requires_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = files(authority, tmp_path)
    async with two_replicas(tls, CallerTls(tls.client_ca_file, tls)) as url:
        assert await placed(url) == "there"


async def test_renewed_certificates_are_called_with_from_the_next_call_on(tmp_path: Path) -> None:
    tls = files(trustme.CA(), tmp_path)
    async with two_replicas(tls, CallerTls(tls.client_ca_file, tls)) as url:
        assert await placed(url) == "there"
        files(trustme.CA(), tmp_path)
        assert await placed(url) == "there"


async def test_a_leader_of_another_authority_is_not_given_the_call(tmp_path: Path) -> None:
    tls = files(trustme.CA(), tmp_path / "leader")
    stranger = files(trustme.CA(), tmp_path / "caller")
    async with two_replicas(tls, CallerTls(stranger.client_ca_file, stranger)) as url:
        assert await placed(url) == "here"


async def test_a_certificate_is_held_to_the_name_that_was_configured(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = files(authority, tmp_path, "slurm-extender.slurm-extender.svc")
    for name, answers in (("slurm-extender.slurm-extender.svc", "there"), ("other.svc", "here"), (None, "here")):
        async with two_replicas(tls, CallerTls(tls.client_ca_file, tls), name) as url:
            assert await placed(url) == answers


@pytest.mark.parametrize("broken", ["missing", "garbage"])
async def test_certificates_that_cannot_be_used_pass_nothing_on_and_harm_no_call(tmp_path: Path, broken: str) -> None:
    authority = trustme.CA()
    tls, own = files(authority, tmp_path / "leader"), files(authority, tmp_path / "caller")
    spoil(own, broken)
    async with two_replicas(tls, CallerTls(own.client_ca_file, own)) as url:
        assert await placed(url) == "here"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * (forward.LONGEST_ANSWER + 1),
    ],
    ids=["redirect", "too long"],
)
async def test_an_answer_that_is_a_redirect_or_too_long_is_not_passed_back(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    peers = Peers(CallerTls(None, None), None, None)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(httpx.RemoteProtocolError, match=f"http://127.0.0.1:{port}/ answers with"):
            await peers.call("GET", f"http://127.0.0.1:{port}/", [], b"", GENEROUS_S)
    await peers.close()


@pytest.mark.parametrize(
    "address",
    [
        "http://[::1]:99999", "http://xn--zzzzzzzzz-:1", "http://a:b", "http://a:-1", "http://" + "a" * 70_000,
        "http://a\x00b", "http://\udc80", "http://\u202e.x", "ftp://x", "unix:///tmp/x", "//x", "javascript:1",
    ],
)  # fmt: skip
async def test_an_address_in_the_lease_that_is_none_is_answered_like_a_leader_that_is_not_there(address: str) -> None:
    async with a_follower(address) as http:
        answer = await http.post("/scheduler/ask")
    assert answer.status_code in {404, 503}, "the follower answers by itself"


async def test_hooks_that_wait_at_the_leader_keep_no_call_of_kube_scheduler_from_it() -> None:
    waiting, released = asyncio.Semaphore(0), asyncio.Event()
    routes = APIRouter()

    @routes.post("/hooks/wait")
    async def wait() -> str:
        waiting.release()
        await released.wait()
        return "released"

    @routes.post("/scheduler/ask")
    async def forward_one() -> str:
        return "there"

    many = ListenerLimits(connections=1000, per_address=1000)
    leader = Endpoint(LOOPBACK, application([routes]), None, ("http.bind",), bounds=many)
    async with serving([leader], stop_within_s=1) as (at,), a_follower(f"http://{at}") as http:
        hooks = [asyncio.create_task(http.post("/hooks/wait")) for _ in range(POOL_OF_HTTPX + 50)]
        for _ in range(POOL_OF_HTTPX):
            await waiting.acquire()
        answer = await http.post("/scheduler/ask")
        released.set()
        assert (answer.status_code, answer.text) == (200, '"there"')
        assert {(await hook).text for hook in hooks} == {'"released"'}


@asynccontextmanager
async def a_follower(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """One that answers nothing itself."""
    peers = Peers(CallerTls(None, None), None, None)
    prefixes = {"/scheduler": "scheduling", "/hooks": "hooks"}
    longest = {"scheduling": 2.0, "hooks": GENEROUS_S}
    app = Forwarding(FastAPI(), prefixes, Elsewhere(url), peers, longest_s=longest, max_body=1000)
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://follower", timeout=GENEROUS_S
        ) as http:
            yield http
    finally:
        await peers.close()


async def test_connections_made_with_certificates_of_long_ago_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[httpx.AsyncBaseTransport] = []
    closed: list[httpx.AsyncBaseTransport] = []

    class Counted(httpx.AsyncBaseTransport):
        def __init__(self, **_options: object) -> None:
            opened.append(self)

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, request=request, stream=httpx.ByteStream(b"there"))

        async def aclose(self) -> None:
            closed.append(self)

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", Counted)
    authority = tmp_path / "ca.crt"
    authority.write_bytes(trustme.CA().cert_pem.bytes())
    peers = Peers(CallerTls(str(authority), None), None, None)
    for renewed_at in range(20):
        os.utime(authority, ns=(renewed_at, renewed_at))
        answer = await peers.call("GET", "https://127.0.0.1:1/", [], b"", GENEROUS_S)
        assert answer.content == b"there"
    assert (len(opened), closed) == (20, opened[: -forward.KEPT_CLIENTS])
    await peers.close()
    assert sorted(map(id, closed)) == sorted(map(id, opened))
