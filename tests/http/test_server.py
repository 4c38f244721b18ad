"""The server: over memory on virtual time and over sockets, ended in order, its certificates renewable."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvloop
from fastapi import APIRouter, FastAPI
from structlog.testing import capture_logs

from extender.certificates.tls.contexts import ReloadingTls, TlsError
from extender.config.serving import ServerTls
from extender.config.values import BindAddress
from extender.domain.verdict import Place
from extender.http.app import Endpoint, application
from extender.http.connections import ARRIVING_S, SILENT_S
from extender.http.handshakes import RefusedHandshakes
from extender.http.scheduling import router
from extender.http.server import CannotListen, serving
from extender.observability.metrics.registry import Metrics
from simulator.network.httpcore_backend import http_transport
from simulator.network.memory import Network
from tests.builders.services import FakeScheduling, FakeServices, StillClock, args

LOOPBACK = BindAddress("127.0.0.1", 0)
HERE = BindAddress("extender", 8080)
GENEROUS_S = 60.0
"""For a handshake, on a machine that has other work."""


def endpoint(app: FastAPI | None = None, bind: BindAddress = LOOPBACK, tls: ServerTls | None = None) -> Endpoint:
    clock = StillClock()
    scheduling = router(FakeServices(FakeScheduling(Place("n1"))), Metrics(clock), clock, 1 << 20)
    return Endpoint(bind, app or application([scheduling]), tls, ("http.bind",))


def slow(seconds: float) -> FastAPI:
    routes = APIRouter()

    @routes.get("/slow")
    async def answer() -> str:
        await asyncio.sleep(seconds)
        return "done"

    return application([routes])


@asynccontextmanager
async def raw(at: BindAddress) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(at.host, at.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


# Over memory, on virtual time.


@pytest.mark.looptime
async def test_the_whole_way_of_a_filter_call_needs_no_socket() -> None:
    network = Network()
    async with serving([endpoint(bind=HERE)], stop_within_s=1, listen=network.listen) as at:
        assert at == (HERE,)
        async with httpx.AsyncClient(transport=http_transport(network)) as http:
            reply = await http.post("http://extender:8080/scheduler/filter", json=args("n1", "n2"))
        assert reply.json()["NodeNames"] == ["n1"]
    async with httpx.AsyncClient(transport=http_transport(network)) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get("http://extender:8080/")


@pytest.mark.looptime
async def test_requests_under_way_may_finish() -> None:
    network = Network()
    async with httpx.AsyncClient(transport=http_transport(network), timeout=60) as http:
        async with serving([endpoint(slow(5), HERE)], stop_within_s=10, listen=network.listen):
            request = asyncio.create_task(http.get("http://extender:8080/slow"))
            await asyncio.sleep(1)
        assert (await request).json() == "done"
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.2)


@pytest.mark.looptime
async def test_what_does_not_finish_is_cut_off() -> None:
    network = Network()
    async with httpx.AsyncClient(transport=http_transport(network), timeout=3600) as http:
        async with serving([endpoint(slow(600), HERE)], stop_within_s=10, listen=network.listen):
            request = asyncio.create_task(http.get("http://extender:8080/slow"))
            await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() == pytest.approx(11, abs=0.2)
        with pytest.raises(httpx.TransportError):
            await request
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.looptime
async def test_idle_connections_do_not_hold_up_the_end() -> None:
    network = Network()
    async with httpx.AsyncClient(transport=http_transport(network)) as http:
        async with serving([endpoint(slow(0), HERE)], stop_within_s=100, listen=network.listen):
            await http.get("http://extender:8080/slow")
        assert asyncio.get_running_loop().time() < 1


class Ear(asyncio.Protocol):
    """Hears how long the other side keeps a connection."""

    def __init__(self) -> None:
        self.heard = b""
        self.closed_at: float | None = None

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def eof_received(self) -> None:
        self.closed_at = asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_an_idle_connection_outlives_the_90_s_of_a_go_client() -> None:
    network = Network()
    async with serving([endpoint(slow(0), HERE)], stop_within_s=1, listen=network.listen):
        transport, ear = await network.dial(Ear, "extender", 8080)
        transport.write(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        await asyncio.sleep(200)
    assert ear.heard.startswith(b"HTTP/1.1 200 ")
    assert ear.closed_at is not None
    assert 90 < ear.closed_at < 200


@pytest.mark.looptime
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /scheduler/filter HTTP/1.1\r\nHost: h\r\n",
        b"POST /scheduler/filter HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
        b"GET /none HTTP/1.1\r\nHost: h\r\n\r\nGET /none HTTP/1.1\r\n",
    ],
)
async def test_a_request_that_does_not_arrive_does_not_hold_a_connection(sent: bytes) -> None:
    network = Network()
    async with serving([endpoint(bind=HERE)], stop_within_s=1, listen=network.listen):
        transport, _ear = await network.dial(Ear, "extender", 8080)
        transport.write(sent)
        await asyncio.sleep(ARRIVING_S - 1 if sent else SILENT_S - 1)
        assert network.connections("extender", 8080) == 1
        await asyncio.sleep(3)
        assert network.connections("extender", 8080) == 0


@pytest.mark.looptime
async def test_a_long_answer_and_a_busy_connection_are_left_alone() -> None:
    network = Network()
    async with serving([endpoint(slow(250), HERE)], stop_within_s=1, listen=network.listen):
        transport, ear = await network.dial(Ear, "extender", 8080)
        for _ in range(2):
            transport.write(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
            await asyncio.sleep(300)
    assert ear.heard.count(b"HTTP/1.1 200 ") == 2


@pytest.mark.looptime
async def test_many_requests_in_one_go_end_their_connection_before_they_fill_the_memory() -> None:
    network, refused = Network(), list[str]()
    request = b"GET /slow HTTP/1.1\r\n\r\n"
    async with serving([endpoint(slow(5), HERE)], stop_within_s=1, listen=network.listen, refused=refused.append):
        few, few_heard = await network.dial(Ear, "extender", 8080)
        many, many_heard = await network.dial(Ear, "extender", 8080)
        few.write(request * 3)
        many.write(request * 10_000)
        await asyncio.sleep(1)
        assert network.connections("extender", 8080) == 1
        await asyncio.sleep(30)
    assert few_heard.heard.count(b"HTTP/1.1 200 ") == 3
    assert many_heard.heard == b""
    assert refused == ["too many requests"]


@pytest.mark.looptime
async def test_nothing_wakes_up_while_nothing_happens() -> None:
    loop = asyncio.get_running_loop()
    async with serving([endpoint(bind=HERE)], stop_within_s=1, listen=Network().listen):
        assert len(asyncio.all_tasks(loop)) == 1


# Over sockets.


async def test_an_address_that_is_taken_is_named_with_its_setting() -> None:
    async with serving([endpoint()], stop_within_s=1) as (taken,):
        with pytest.raises(CannotListen, match=rf"http\.bind: cannot listen on {taken}: .*in use"):
            async with serving([endpoint(), endpoint(bind=taken)], stop_within_s=1):
                pass


async def test_answers_come_in_one_piece_and_the_connection_is_kept() -> None:
    body = json.dumps(args("n1")).encode()
    head = (
        "POST /scheduler/filter HTTP/1.1\r\nHost: h\r\nUser-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    async with serving([endpoint()], stop_within_s=1) as (at,), raw(at) as (reader, writer):
        for _ in range(3):
            writer.write(head.encode() + body)
            headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert headers.startswith("http/1.1 200 ")
            [length] = [line for line in headers.split("\r\n") if line.startswith("content-length: ")]
            answer: dict[str, Any] = json.loads(await reader.readexactly(int(length.split(": ")[1])))
            assert answer["NodeNames"] == ["n1"]
            assert not {"transfer-encoding", "server", "connection", "content-encoding"} & {
                line.split(":")[0] for line in headers.split("\r\n")
            }


async def test_garbage_on_the_wire_is_refused_and_the_server_lives_on() -> None:
    async with serving([endpoint()], stop_within_s=1) as (at,):
        async with raw(at) as (reader, writer):
            writer.write(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
            assert b" 400 " in await reader.read()
        async with httpx.AsyncClient(timeout=GENEROUS_S) as http:
            reply = await http.post(f"http://{at}/scheduler/filter", json=args("n1"))
        assert reply.status_code == 200


# Certificates.


def write(certificate: trustme.LeafCert, folder: Path) -> ServerTls:
    """Put a certificate where the server looks, and trust nobody else's clients yet."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    (folder / "tls.key").write_bytes(certificate.private_key_pem.bytes())
    return ServerTls(certificate_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))


def trusting(authority: trustme.CA, own: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if own is not None:
        own.configure_cert(context)
    return context


async def status_of(at: BindAddress, context: ssl.SSLContext) -> int:
    async with httpx.AsyncClient(verify=context, timeout=GENEROUS_S) as http:
        reply = await http.post(f"https://{at}/scheduler/filter", json=args("n1"))
        return reply.status_code


@pytest.fixture
def refused() -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError))


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    tls = write(old.issue_cert("127.0.0.1"), tmp_path)
    async with serving([endpoint(tls=tls)], stop_within_s=1) as (at,):
        assert await status_of(at, trusting(old)) == 200
        write(new.issue_cert("127.0.0.1"), tmp_path)
        assert await status_of(at, trusting(new)) == 200
        with pytest.raises(httpx.ConnectError):
            await status_of(at, trusting(old))


async def test_every_subscriber_receives_each_certificate(tmp_path: Path) -> None:
    tls = write(trustme.CA().issue_cert("127.0.0.1"), tmp_path)
    told: dict[str, ReloadingTls] = {}
    async with serving([endpoint(tls=tls), endpoint()], stop_within_s=1, certified=told.__setitem__):
        assert list(told) == ["http.bind"]
        assert told["http.bind"].expires_at is not None


async def test_a_half_written_pair_never_replaces_a_good_one(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = write(authority.issue_cert("127.0.0.1"), tmp_path)
    async with serving([endpoint(tls=tls)], stop_within_s=1) as (at,):
        (tmp_path / "tls.key").write_bytes(trustme.CA().issue_cert("x").private_key_pem.bytes())
        assert await status_of(at, trusting(authority)) == 200
        (tmp_path / "tls.key").unlink()
        assert await status_of(at, trusting(authority)) == 200
        write(authority.issue_cert("127.0.0.1"), tmp_path)
        assert await status_of(at, trusting(authority)) == 200


async def test_only_clients_of_the_authority_are_served_and_a_new_one_replaces_it(
    tmp_path: Path, refused: Callable[[BaseException], bool]
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    tls = write(ours.issue_cert("127.0.0.1"), tmp_path).model_copy(update={"client_ca_file": str(tmp_path / "ca.crt")})
    (tmp_path / "ca.crt").write_bytes(ours.cert_pem.bytes())
    client, stranger = ours.issue_cert("slurm-scheduler"), theirs.issue_cert("slurm-scheduler")
    async with serving([endpoint(tls=tls)], stop_within_s=1) as (at,):
        assert await status_of(at, trusting(ours, client)) == 200
        for context in (trusting(ours), trusting(ours, stranger)):
            with pytest.raises(httpx.TransportError) as caught:
                await status_of(at, context)
            assert refused(caught.value)
        (tmp_path / "ca.crt").write_bytes(theirs.cert_pem.bytes())
        assert await status_of(at, trusting(ours, stranger)) == 200
        with pytest.raises(httpx.TransportError):
            await status_of(at, trusting(ours, client))


@pytest.mark.parametrize("broken", ["missing", "garbage", "ca"])
async def test_certificates_that_cannot_be_used_at_the_start_are_named(tmp_path: Path, broken: str) -> None:
    tls = write(trustme.CA().issue_cert("127.0.0.1"), tmp_path)
    if broken == "missing":
        (tmp_path / "tls.key").unlink()
    elif broken == "garbage":
        (tmp_path / "tls.crt").write_text("no certificate")
    else:
        (tmp_path / "ca.crt").write_text("no certificate")
        tls = tls.model_copy(update={"client_ca_file": str(tmp_path / "ca.crt")})
    file = {"missing": "tls.key", "garbage": "tls.crt", "ca": "ca.crt"}[broken]
    with pytest.raises(TlsError, match=rf"{file}.* cannot be (read|used)"):
        async with serving([endpoint(tls=tls)], stop_within_s=1):
            pass


@pytest.mark.parametrize(
    ("caller", "reason", "said"),
    [
        ("plain", "HTTP_REQUEST", "urlPrefix has to begin with https://"),
        ("nobody", "PEER_DID_NOT_RETURN_A_CERTIFICATE", "its tlsConfig needs certFile and keyFile"),
        ("stranger", "CERTIFICATE_VERIFY_FAILED", "not signed by an authority of clientCaFile"),
        ("distrusting", "TLSV1_ALERT_UNKNOWN_CA", "its tlsConfig needs that authority as caFile"),
    ],
)
@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_caller_that_fails_before_its_first_request_is_logged_with_what_helps(
    tmp_path: Path, caller: str, reason: str, said: str, loops: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    tls = write(ours.issue_cert("127.0.0.1"), tmp_path).model_copy(update={"client_ca_file": str(tmp_path / "ca.crt")})
    (tmp_path / "ca.crt").write_bytes(ours.cert_pem.bytes())

    async def call(at: BindAddress) -> None:
        if caller == "plain":
            async with httpx.AsyncClient(timeout=GENEROUS_S) as http:
                await http.post(f"http://{at}/scheduler/filter", json=args("n1"))
        elif caller == "distrusting":
            # asyncio's client goes without saying why; this one sends its alert, as Go's does.
            connection = HTTPSConnection(at.host, at.port, timeout=GENEROUS_S, context=trusting(theirs))
            try:
                await asyncio.to_thread(connection.connect)
            finally:
                connection.close()
        else:
            await status_of(at, trusting(ours, theirs.issue_cert("x") if caller == "stranger" else None))

    async def calls() -> None:
        async with serving([endpoint(tls=tls)], stop_within_s=1) as (at,):
            for _ in range(3):
                with pytest.raises((httpx.TransportError, OSError)):
                    await call(at)
            assert await status_of(at, trusting(ours, ours.issue_cert("slurm-scheduler"))) == 200

    with capture_logs() as logs, asyncio.Runner(loop_factory=loops) as runner:
        runner.run(calls())
    [line] = [one for one in logs if one["event"] == "tls_handshake_failed"]
    assert (line["reason"], line["times"], line["serves"]) == (reason, 1, ["http.bind"])
    assert said in line["why"]


@pytest.mark.looptime
async def test_failing_handshakes_are_reported_once_a_minute_with_their_number() -> None:
    told = RefusedHandshakes(["127.0.0.1:8080"], ["http.bind"])
    with capture_logs() as logs:
        for _ in range(130):
            told("HTTP_REQUEST")
            await asyncio.sleep(1)
    assert [line["times"] for line in logs] == [1, 60, 60]
