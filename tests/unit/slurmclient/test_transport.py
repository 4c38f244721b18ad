from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from slurmclient import ConnectError, JobDescription, OutcomeUnknownError, SlurmClient, StaticToken, TransportError
from slurmclient.connection import Connection
from slurmclient.exchange import Request, path_of
from slurmclient.tls import TlsOptions
from slurmclient.transport import Timeouts, Transport
from tests.builders.byte_server import Act, ByteServer, deaf_server, ok
from tests.builders.slurmrestd_fake import meta

A, B = "http://a.test:6820", "http://b.test:6820"
GET = Request("GET", "/slurm/v0.0.42/diag")
POST = Request("POST", "/slurm/v0.0.42/job/submit", (), b'{"job":{}}')
HEADERS = {"X-SLURM-USER-TOKEN": "t"}


def soon(seconds: float = 60) -> float:
    return asyncio.get_running_loop().time() + seconds


@asynccontextmanager
async def transport_to(server: ByteServer, *addresses: str, connections: int = 8) -> AsyncIterator[Transport]:
    transport = Transport(addresses or (A,), dial=server, connections=connections)
    try:
        yield transport
    finally:
        await transport.aclose()


@pytest.mark.parametrize(
    "address",
    [
        "", "restd:6820", "ftp://x", "http://", "http://h:0", "http://h:99999999", "unix://host/x", "unix:relative",
        "http://u@h", "http://h?x=1", "http://h\x00", "http://[::1",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_by_name(address: str) -> None:
    with pytest.raises(ValueError, match=r"http://host:port, https://host:port or unix:///path"):
        Transport([address])


def test_one_text_is_not_a_list_of_addresses() -> None:
    with pytest.raises(ValueError, match="give a list"):
        Transport("http://h:1")
    with pytest.raises(ValueError, match="give a list"):
        Transport([])


def test_more_connections_than_slurmrestd_can_spare_are_refused() -> None:
    with pytest.raises(ValueError, match=r"connections=9: between 1 and 8"):
        Transport([A], connections=9)


def test_a_read_timeout_shorter_than_slurmrestds_own_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 25"):
        Timeouts(read_s=10)
    for zero in ({"connect_s": 0}, {"acknowledged_s": 0}):
        with pytest.raises(ValueError, match="greater than 0"):
            Timeouts(**zero)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="tcp(7) of Linux")
async def test_bytes_that_are_not_taken_are_given_up_by_the_kernel() -> None:
    with deaf_server() as port:
        transport = Transport([f"http://127.0.0.1:{port}"], timeouts=Timeouts(acknowledged_s=0.3))
        with pytest.raises(TransportError, match=r"TimeoutError|timed out"):
            await transport.send(Request("POST", "/slurm", (), b"x" * (32 << 20)), HEADERS, soon())
        await transport.aclose()


def test_path_segments_are_encoded_whole() -> None:
    assert path_of("slurm", "v0.0.42", "node", "a+b,c/d e%") == "/slurm/v0.0.42/node/a%2Bb%2Cc%2Fd%20e%25"


async def test_a_request_is_exactly_what_slurmrestd_takes() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server) as transport:
        await transport.send(POST, HEADERS, soon())
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    assert line == b"POST /slurm/v0.0.42/job/submit HTTP/1.1"
    assert {name.lower(): value for name, value in (header.split(b": ", 1) for header in headers)} == {
        b"host": b"a.test:6820",
        b"accept": b"application/json",
        b"user-agent": b"slurmclient",
        b"x-slurm-user-token": b"t",
        b"content-type": b"application/json",
        b"content-length": b"10",
    }
    assert body == b'{"job":{}}'


async def test_a_list_in_a_query_is_a_repeated_key_and_everything_is_encoded() -> None:
    server = ByteServer(ok(b"{}"))
    query = (("job_id", "1"), ("job_id", "2"), ("x", "a,b+c d"))
    async with transport_to(server, "http://a.test:6820/prefix/") as transport:
        await transport.send(Request("GET", "/slurm/v0.0.42/jobs/state", query), HEADERS, soon())
    assert server.requests[0].startswith(
        b"GET /prefix/slurm/v0.0.42/jobs/state?job_id=1&job_id=2&x=a%2Cb%2Bc%20d HTTP/1.1\r\n"
    )


async def test_one_connection_serves_one_request_after_another() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server) as transport:
        for _ in range(5):
            await transport.send(GET, HEADERS, soon())
        assert len(server.connections) == 1
    assert server.closed == 1


async def test_no_more_connections_are_open_than_allowed() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server, connections=3) as transport:
        await asyncio.gather(*(transport.send(GET, HEADERS, soon()) for _ in range(20)))
    assert len(server.requests) == 20
    assert server.open_at_once == 3
    assert server.closed == len(server.connections)


async def test_the_answer_ends_at_its_content_length_whatever_follows() -> None:
    stray = b"HTTP/1.1 500 Internal\r\nContent-Length: 3\r\n\r\nbad"
    server = ByteServer(ok(b'{"a":1}', after=stray, close=True), ok(b'{"b":2}'))
    async with transport_to(server) as transport:
        first = await transport.send(GET, HEADERS, soon())
        second = await transport.send(GET, HEADERS, soon())
    assert (first.body, second.body) == (b'{"a":1}', b'{"b":2}')
    assert len(server.connections) == 2


async def test_a_connection_that_cannot_be_made_moves_on_and_the_next_address_stays_in_use() -> None:
    server = ByteServer(ok(b"{}"))
    server.refused.add("a.test:6820")
    async with transport_to(server, A, B) as transport:
        assert (await transport.send(POST, HEADERS, soon())).address == B
        server.refused.clear()
        assert (await transport.send(POST, HEADERS, soon())).address == B
        assert transport.address == B
    assert server.connections == ["b.test:6820"]


async def test_when_no_address_takes_a_connection_the_error_names_each() -> None:
    server = ByteServer(ok(b"{}"))
    server.refused |= {"a.test:6820", "b.test:6820"}
    async with transport_to(server, A, B) as transport:
        with pytest.raises(ConnectError, match=r"http://a\.test:6820: .*refused.*http://b\.test:6820: .*refused"):
            await transport.send(POST, HEADERS, soon())
    assert server.requests == []


@pytest.mark.looptime
async def test_an_address_that_swallows_connections_costs_the_connect_timeout_and_moves_on() -> None:
    server = ByteServer(ok(b"{}"))
    server.silent.add("a.test:6820")
    async with transport_to(server, A, B) as transport:
        began = asyncio.get_running_loop().time()
        assert (await transport.send(GET, HEADERS, soon())).address == B
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)


@pytest.mark.parametrize("act", [Act.RESET, Act.CLOSE])
async def test_a_broken_exchange_is_no_connect_error_and_the_next_request_uses_another_address(act: Act) -> None:
    server = ByteServer(act, ok(b"{}"))
    async with transport_to(server, A, B) as transport:
        with pytest.raises(TransportError) as caught:
            await transport.send(GET, HEADERS, soon())
        assert not isinstance(caught.value, ConnectError)
        assert (await transport.send(GET, HEADERS, soon())).address == B


@pytest.mark.looptime
async def test_a_server_that_never_answers_costs_the_read_timeout() -> None:
    server = ByteServer(Act.HANG)
    async with transport_to(server) as transport:
        began = asyncio.get_running_loop().time()
        with pytest.raises(TransportError, match="nothing came for 30 s"):
            await transport.send(GET, HEADERS, soon())
        assert asyncio.get_running_loop().time() - began == pytest.approx(30.0)


@pytest.mark.looptime
async def test_the_deadline_ends_an_exchange_whatever_its_part() -> None:
    server = ByteServer(Act.HANG)
    server.silent.add("b.test:6820")
    async with transport_to(server, A) as transport:
        with pytest.raises(TransportError, match="deadline") as sent:
            await transport.send(GET, HEADERS, soon(3))
    async with transport_to(server, B) as transport:
        with pytest.raises(ConnectError, match="deadline"):
            await transport.send(GET, HEADERS, soon(3))
    assert not isinstance(sent.value, ConnectError)
    assert asyncio.get_running_loop().time() == pytest.approx(6.0)


@pytest.mark.looptime
async def test_waiting_for_a_place_is_not_having_sent() -> None:
    server = ByteServer(Act.HANG)
    async with transport_to(server, connections=1) as transport:
        outcomes = await asyncio.gather(
            transport.send(POST, HEADERS, soon(10)), transport.send(POST, HEADERS, soon(10)), return_exceptions=True
        )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ConnectError", "TransportError"]
    assert len(server.requests) == 1


async def test_a_unix_socket_is_an_address_like_others() -> None:
    server = ByteServer(ok(b"{}"))
    server.refused.add("/run/restd.socket")
    async with transport_to(server, "unix:///run/restd.socket", B) as transport:
        assert (await transport.send(GET, HEADERS, soon())).address == B
        transport.leave(B)
        server.refused.clear()
        assert (await transport.send(GET, HEADERS, soon())).address == "unix:///run/restd.socket"
    assert server.connections == ["b.test:6820", "/run/restd.socket"]


async def test_after_closing_nothing_is_sent() -> None:
    server = ByteServer(ok(b"{}"))
    transport = Transport([A], dial=server)
    await transport.aclose()
    await transport.aclose()
    with pytest.raises(ConnectError, match="closed"):
        await transport.send(GET, HEADERS, soon())


async def test_a_cancelled_request_gives_its_connection_back() -> None:
    server = ByteServer(Act.HANG, ok(b"{}"))
    async with transport_to(server, connections=1) as transport:
        task = asyncio.create_task(transport.send(GET, HEADERS, soon()))
        await server.received.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await transport.send(GET, HEADERS, soon())).status == 200


async def test_a_whole_client_works_on_bytes_in_memory() -> None:
    ping = json.dumps({"pings": [], "meta": meta(45, "26.05.5"), "errors": [], "warnings": []}).encode()
    made = json.dumps({"job_id": 7, "meta": meta(45, "26.05.5"), "errors": [], "warnings": []}).encode()
    server = ByteServer(ok(ping), ok(made))
    async with SlurmClient([A], StaticToken("t"), dial=server) as slurm:
        result = await slurm.submit(JobDescription(name="x", external=True))
    assert result.job_id == 7
    assert [request.split(b" HTTP")[0] for request in server.requests] == [
        b"GET /slurm/v0.0.45/ping",
        b"POST /slurm/v0.0.45/job/submit",
    ]


@pytest.mark.looptime
async def test_a_lost_answer_to_a_submission_is_an_unknown_outcome_and_is_not_sent_again() -> None:
    ping = json.dumps({"pings": [], "meta": meta(45, "26.05.5"), "errors": [], "warnings": []}).encode()
    server = ByteServer(ok(ping), Act.HANG)
    async with SlurmClient([A, B], StaticToken("t"), dial=server) as slurm:
        with pytest.raises(OutcomeUnknownError, match="may have been carried out"):
            await slurm.submit(JobDescription(name="x", external=True))
    assert len(server.requests) == 2


@asynccontextmanager
async def https_server(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"{}"))
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def certificates(folder: Path) -> tuple[ssl.SSLContext, TlsOptions]:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    client = ca.issue_cert("client.test")
    client.cert_chain_pems[0].write_to_path(str(folder / "client.pem"))
    client.private_key_pem.write_to_path(str(folder / "client.key"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    options = TlsOptions(str(folder / "ca.pem"), str(folder / "client.pem"), str(folder / "client.key"))
    return context, options


async def test_https_with_an_own_authority_and_a_client_certificate(tmp_path: Path) -> None:
    context, options = certificates(tmp_path)
    async with https_server(context) as port:
        transport = Transport([f"https://127.0.0.1:{port}"], tls=options)
        answer = await transport.send(GET, HEADERS, soon())
        await transport.aclose()
    assert answer.status == 200


async def test_a_server_that_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    context, _ = certificates(tmp_path)
    async with https_server(context) as port:
        transport = Transport([f"https://127.0.0.1:{port}"])
        with pytest.raises(ConnectError, match="certificate"):
            await transport.send(GET, HEADERS, soon())
        await transport.aclose()


@pytest.mark.parametrize("options", [TlsOptions(ca_file="/nowhere/ca.pem"), TlsOptions(key_file="/nowhere/key.pem")])
def test_tls_files_that_cannot_be_used_are_named(options: TlsOptions) -> None:
    with pytest.raises(ValueError, match="/nowhere/"):
        Transport(["https://h:1"], tls=options)


def test_a_ready_tls_context_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert TlsOptions(context=context).ssl_context() is context


async def test_a_real_unix_socket_is_reached(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"{}"))
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()

    path = tmp_path / "restd.socket"
    server = await asyncio.start_unix_server(serve, path)
    transport = Transport([f"unix://{path}"])
    answer = await transport.send(GET, HEADERS, soon())
    await transport.aclose()
    server.close()
    await server.wait_closed()
    assert answer.status == 200


@pytest.mark.looptime
async def test_a_connection_unused_for_a_minute_is_closed_and_one_that_is_used_is_not() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server) as transport:
        await asyncio.gather(transport.send(GET, HEADERS, soon()), transport.send(GET, HEADERS, soon()))
        assert (len(server.connections), server.closed) == (2, 0)
        for _ in range(2):
            await asyncio.sleep(40)
            await transport.send(GET, HEADERS, soon())
        assert (len(server.connections), server.closed) == (2, 1)


async def test_another_address_takes_the_place_of_connections_to_the_one_before() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server, A, B) as transport:
        await transport.send(GET, HEADERS, soon())
        transport.leave(A)
        await transport.send(GET, HEADERS, soon())
        assert (server.connections, server.closed) == (["a.test:6820", "b.test:6820"], 1)


async def test_a_deadline_that_has_passed_sends_nothing() -> None:
    server = ByteServer(ok(b"{}"))
    async with transport_to(server) as transport:
        await transport.send(GET, HEADERS, soon())
        with pytest.raises(ConnectError, match="deadline"):
            await transport.send(POST, HEADERS, soon(0))
    assert len(server.requests) == 1


async def test_closing_keeps_back_what_waits_for_a_place_or_for_its_connection() -> None:
    server = ByteServer(ok(b"{}"))
    reached, go = asyncio.Event(), asyncio.Event()

    async def dial(
        protocol_factory: Callable[[], Connection], host: str, port: int, /
    ) -> tuple[asyncio.BaseTransport, Connection]:
        reached.set()
        await go.wait()
        return await server(protocol_factory, host, port)

    transport = Transport([A], dial=dial, connections=1)
    waiting = [asyncio.create_task(transport.send(POST, HEADERS, soon())) for _ in range(2)]
    await reached.wait()
    await transport.aclose()
    go.set()
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, ConnectError)
        assert "closed" in str(error)
    await asyncio.sleep(0)
    assert (server.requests, server.closed) == ([], len(server.connections))


def test_the_scheme_of_an_address_is_read_in_any_case(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        Transport(["HTTPS://h"], tls=TlsOptions(ca_file="/nowhere/ca.pem"))
