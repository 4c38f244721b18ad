"""The connections on real sockets, on the loop of the process that serves and on asyncio's own."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import cast

import pytest
import trustme
import uvloop

from slurmclient import ConnectError, TransportError
from slurmclient.exchange import Request
from slurmclient.tls import TlsOptions
from slurmclient.transport import Timeouts, Transport
from tests.builders.byte_server import ok

GET = Request("GET", "/x")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

on_both_loops = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
Loop = Callable[[], asyncio.AbstractEventLoop]


def soon(seconds: float = 60) -> float:
    return asyncio.get_running_loop().time() + seconds


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readuntil(b"\r\n\r\n"):
        writer.write(ok(b"{}"))


class Server:
    """A port or path that is served, and how many of its connections are open."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.taken = self.open = 0
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        self.open += 1
        try:
            await self.serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self.open -= 1


@asynccontextmanager
async def served(
    serve: Serve, host: str = "127.0.0.1", context: ssl.SSLContext | None = None, path: Path | None = None
) -> AsyncIterator[Server]:
    """Serve, and see to it that no connection and no task is left in the end, and that the loop heard no complaint."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: complaints.append(told))
    server = Server(serve)
    if path is None:
        listener = await asyncio.start_server(server, host, 0, ssl=context)
        server.port = listener.sockets[0].getsockname()[1]
    else:
        listener = await asyncio.start_unix_server(server, path)
    before = asyncio.all_tasks()
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()
    async with asyncio.timeout(30):  # the server's ends end with the client's
        while asyncio.all_tasks() - before:
            await asyncio.wait(asyncio.all_tasks() - before)
    assert server.open == 0
    assert [told for told in complaints if "incoming" not in str(told["message"])] == []


@on_both_loops
@pytest.mark.parametrize("kind", ["tcp", "name", "ipv6", "unix", "tls"])
@pytest.mark.parametrize("way", ["cancelled", "closed"])
def test_an_exchange_that_is_ended_at_any_moment_leaves_no_connection(
    loop: Loop, kind: str, way: str, tmp_path: Path
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    path = tmp_path / "restd.socket"

    async def run() -> None:
        host = "::1" if kind == "ipv6" else "127.0.0.1"
        try:
            entered = served(answer, host, context if kind == "tls" else None, path if kind == "unix" else None)
            server = await entered.__aenter__()
        except OSError:
            pytest.skip("this machine has no IPv6")
        address = {
            "tcp": f"http://127.0.0.1:{server.port}",
            "name": f"http://localhost:{server.port}",
            "ipv6": f"http://[::1]:{server.port}",
            "unix": f"unix://{path}",
            "tls": f"https://127.0.0.1:{server.port}",
        }[kind]
        for turns in range(15):
            transport = Transport([address], tls=TlsOptions(str(tmp_path / "ca.pem")))
            task = asyncio.create_task(transport.send(GET, {}, soon()))
            for _ in range(turns):
                await asyncio.sleep(0)
            if way == "cancelled":
                task.cancel()
            else:
                await transport.aclose()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            assert way == "closed" or not isinstance(outcome, Exception)
            await transport.aclose()
        await entered.__aexit__(None, None, None)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@on_both_loops
def test_a_server_that_closes_a_kept_connection_costs_no_request(loop: Loop) -> None:
    gone = asyncio.Queue[None]()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"{}"))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        gone.put_nowait(None)

    async def run() -> None:
        async with served(once) as server:
            transport = Transport([f"http://127.0.0.1:{server.port}"])
            for _ in range(5):
                assert (await transport.send(GET, {}, soon())).status == 200
                await gone.get()
            await transport.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@on_both_loops
def test_a_refusal_that_comes_before_a_long_request_is_out_is_its_answer(loop: Loop) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        cast("asyncio.Transport", writer.transport).pause_reading()
        writer.write(ok(b"{}").replace(b"200 OK", b"413 Too Large"))
        await writer.drain()
        closed = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.2, closed.set_result, None)
        await closed

    async def run() -> None:
        async with served(refuse) as server:
            transport = Transport([f"http://127.0.0.1:{server.port}"])
            for _ in range(2):
                sent = Request("POST", "/x", (), b"x" * (8 << 20))
                assert (await transport.send(sent, {}, soon())).status == 413
            await transport.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@on_both_loops
def test_proxies_of_the_environment_are_not_used(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def run() -> None:
        async with served(answer) as server:
            transport = Transport([f"http://127.0.0.1:{server.port}"])
            assert (await transport.send(GET, {}, soon())).status == 200
            await transport.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@on_both_loops
def test_a_certificate_for_another_name_gets_nothing(loop: Loop, tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    names = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def run() -> None:
        async with served(answer, context=context) as server:
            options = TlsOptions(str(tmp_path / "ca.pem"))
            addresses = [f"HTTPS://localhost:{server.port}", f"https://127.0.0.1:{server.port}"]
            for address, fits in zip(addresses, [True, False], strict=True):
                transport = Transport([address], tls=options, timeouts=Timeouts(acknowledged_s=5))
                if fits:
                    assert (await transport.send(GET, {}, soon())).status == 200
                else:
                    with pytest.raises(ConnectError, match="certificate"):
                        await transport.send(GET, {}, soon())
                await transport.aclose()
        assert names == ["localhost", None]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@on_both_loops
def test_a_connection_that_breaks_within_a_request_leaves_it_unknown(loop: Loop) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async def run() -> None:
        async with served(cut) as server:
            transport = Transport([f"http://127.0.0.1:{server.port}"])
            for size in (10, 8 << 20):
                with pytest.raises(TransportError) as caught:
                    await transport.send(Request("POST", "/x", (), b"x" * size), {}, soon())
                assert not isinstance(caught.value, ConnectError)
            await transport.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@contextmanager
def swallowing(host: str, port: int) -> Iterator[None]:
    """An address that answers no attempt to connect: its queue is full."""
    with socket.socket() as listener, socket.socket() as one, socket.socket() as two:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(0)
        for client in (one, two):
            client.setblocking(False)
            client.connect_ex((host, port))
        yield


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of loopback, as a rule")
async def test_an_address_of_a_name_that_swallows_connections_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = socket.getaddrinfo

    def find(host: str, *args: object, **named: object) -> list[object]:
        hosts = ["127.0.0.2", "127.0.0.1"] if host == "two.test" else [host]
        return [found for one in hosts for found in real(one, *args, **named)]  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    async with served(answer) as server:
        with swallowing("127.0.0.2", server.port):
            transport = Transport([f"http://two.test:{server.port}"], timeouts=Timeouts(connect_s=2))
            assert (await transport.send(GET, {}, soon())).status == 200
            await transport.aclose()


@on_both_loops
def test_each_address_of_a_name_that_takes_no_connection_is_reported(loop: Loop) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]

        async def run() -> None:
            transport = Transport([f"http://localhost:{port}"])
            with pytest.raises(ConnectError, match=r"(127\.0\.0\.1|refused)"):
                await transport.send(GET, {}, soon())
            await transport.aclose()

        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(run())


@on_both_loops
def test_an_unknown_name_took_nothing(loop: Loop) -> None:
    async def run() -> None:
        transport = Transport(["http://restd.invalid:6820"])
        with pytest.raises(ConnectError):
            await transport.send(GET, {}, soon())
        await transport.aclose()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
