"""The in-memory network shows asyncio what TCP would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from looptime import LoopTimeProxy

from simulator.network.memory import HIGH_WATER, Network

pytestmark = pytest.mark.looptime

HOST, PORT = "api", 6443


class Recorder(asyncio.Protocol):
    """Writes down what happens to it."""

    def __init__(self, keep_open: bool = False) -> None:
        self.data = b""
        self.events: list[str] = []
        self.keep_open = keep_open
        self.lost = asyncio.Event()
        self.error: Exception | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.lost.set()

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def connect(
    network: Network, server: Callable[[], Recorder] = Recorder, client: Callable[[], Recorder] = Recorder
) -> tuple[Recorder, Recorder]:
    """A connected (client, server) pair."""
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(server())
        return made[-1]

    listener = network.listen(HOST, PORT, factory)
    _, dialled = await network.dial(client, HOST, PORT)
    listener.close()
    return dialled, made[0]


async def test_bytes_arrive_in_order_both_ways() -> None:
    client, server = await connect(Network())
    client.transport.write(b"ab")
    client.transport.write(b"cd")
    server.transport.write(b"12")
    await turns()
    assert (server.data, client.data) == (b"abcd", b"12")


async def test_nothing_arrives_within_the_call_that_writes() -> None:
    client, server = await connect(Network())
    client.transport.write(b"ab")
    assert server.data == b""


async def test_each_side_knows_the_other() -> None:
    client, server = await connect(Network())
    assert client.transport.get_extra_info("peername") == (HOST, PORT)
    assert client.transport.get_extra_info("sockname") == server.transport.get_extra_info("peername")


async def test_dialling_where_no_server_listens_is_refused() -> None:
    with pytest.raises(ConnectionRefusedError, match="api:6443"):
        await Network().dial(Recorder, HOST, PORT)


async def test_two_cannot_listen_at_one_address() -> None:
    network = Network()
    network.listen(HOST, PORT, Recorder)
    with pytest.raises(OSError, match="the address is in use"):
        network.listen(HOST, PORT, Recorder)


async def test_a_closed_listener_refuses_but_its_connections_live_on() -> None:
    network = Network()
    client, server = await connect(network)
    with pytest.raises(ConnectionRefusedError):
        await network.dial(Recorder, HOST, PORT)
    client.transport.write(b"x")
    await turns()
    assert server.data == b"x"


async def test_close_lets_written_bytes_arrive_and_then_ends_both_sides() -> None:
    network = Network()
    client, server = await connect(network)
    client.transport.write(b"last words")
    client.transport.close()
    await turns()
    assert server.data == b"last words"
    assert server.events == ["eof"]
    assert (client.error, server.error) == (None, None)
    assert client.lost.is_set()
    assert server.lost.is_set()
    assert network.connections(HOST, PORT) == 0


async def test_a_half_closed_connection_still_returns_the_answer() -> None:
    client, server = await connect(Network(), server=lambda: Recorder(keep_open=True))
    client.transport.write(b"question")
    client.transport.write_eof()
    await turns()
    server.transport.write(b"answer")
    await turns()
    assert client.data == b"answer"
    with pytest.raises(RuntimeError):
        client.transport.write(b"more")


async def test_an_abort_resets_the_other_side_and_drops_what_was_under_way() -> None:
    client, server = await connect(Network())
    client.transport.write(b"never seen")
    client.transport.abort()
    await turns()
    assert server.data == b""
    assert isinstance(server.error, ConnectionResetError)
    assert client.error is None


async def test_writing_to_a_side_that_is_gone_ends_in_a_reset() -> None:
    client, server = await connect(Network(), server=lambda: Recorder(keep_open=True))
    client.transport.close()
    await turns()
    server.transport.write(b"anybody there?")
    await turns()
    assert isinstance(server.error, ConnectionResetError)


async def test_a_reader_that_pauses_stops_the_writer_and_lets_it_go_on_later() -> None:
    client, server = await connect(Network())
    server.transport.pause_reading()
    client.transport.write(b"x" * (HIGH_WATER + 1))
    await turns()
    assert client.events == ["pause"]
    assert server.data == b""
    server.transport.resume_reading()
    await turns()
    assert client.events == ["pause", "resume"]
    assert len(server.data) == HIGH_WATER + 1


async def test_a_paused_writer_is_let_go_when_its_reader_is_lost() -> None:
    client, server = await connect(Network(), client=lambda: Recorder(keep_open=True))
    server.transport.pause_reading()
    client.transport.write(b"x" * (HIGH_WATER + 1))
    server.transport.close()
    await turns()
    assert client.events == ["pause", "eof", "resume"]


async def test_latency_delays_and_keeps_the_order(looptime: LoopTimeProxy) -> None:
    delays = iter([0.0, 3.0, 1.0])
    network = Network(latency=lambda: next(delays))
    client, server = await connect(network)
    client.transport.write(b"slow ")
    client.transport.write(b"then quick")
    await asyncio.sleep(2.9)
    assert server.data == b""
    await asyncio.sleep(0.2)
    assert server.data == b"slow then quick"
    assert looptime == 3.1


async def test_bytes_can_be_made_to_arrive_in_pieces() -> None:
    class Pieces(Recorder):
        def data_received(self, data: bytes) -> None:
            self.events.append(data.decode())

    client, server = await connect(Network(segment=3), server=Pieces)
    client.transport.write(b"abcdefgh")
    await turns()
    assert server.events == ["abc", "def", "gh"]


async def test_a_refusing_address_accepts_again_when_requested() -> None:
    network = Network()
    network.listen(HOST, PORT, Recorder)
    network.refuse(HOST, PORT)
    with pytest.raises(ConnectionRefusedError):
        await network.dial(Recorder, HOST, PORT)
    network.refuse(HOST, PORT, refused=False)
    await network.dial(Recorder, HOST, PORT)
    assert network.connections(HOST, PORT) == 1


async def test_a_cut_is_a_reset_at_both_ends() -> None:
    network = Network()
    client, server = await connect(network)
    network.cut(HOST, PORT)
    await turns()
    assert isinstance(client.error, ConnectionResetError)
    assert isinstance(server.error, ConnectionResetError)


async def test_a_cut_after_some_bytes_lets_exactly_those_pass_and_acts_once() -> None:
    network = Network()
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    network.listen(HOST, PORT, factory)
    network.cut_after(HOST, PORT, 5)
    _, first = await network.dial(Recorder, HOST, PORT)
    made[0].transport.write(b"1234")
    made[0].transport.write(b"5678")
    await turns()
    assert first.data == b"12345"
    assert isinstance(first.error, ConnectionResetError)
    _, second = await network.dial(Recorder, HOST, PORT)
    made[1].transport.write(b"12345678")
    await turns()
    assert second.data == b"12345678"


async def test_a_cut_after_no_bytes_delivers_the_request_but_not_the_answer() -> None:
    network = Network()
    client, server = await connect(network)
    network.cut_after(HOST, PORT, 0)
    client.transport.write(b"do it")
    await turns()
    server.transport.write(b"done")
    await turns()
    assert server.data == b"do it"
    assert client.data == b""
    assert isinstance(client.error, ConnectionResetError)


async def test_a_stall_holds_bytes_and_dials_until_it_ends() -> None:
    network = Network()
    client, server = await connect(network)
    network.listen(HOST, PORT, Recorder)
    network.stall(HOST, PORT)
    client.transport.write(b"held")
    dial = asyncio.create_task(network.dial(Recorder, HOST, PORT))
    await asyncio.sleep(3600)
    assert server.data == b""
    assert not dial.done()
    network.resume(HOST, PORT)
    await turns()
    assert server.data == b"held"
    assert dial.done()


async def test_a_close_during_a_stall_is_not_reported() -> None:
    network = Network()
    client, server = await connect(network)
    network.stall(HOST, PORT)
    server.transport.abort()
    await asyncio.sleep(60)
    assert server.lost.is_set()
    assert not client.lost.is_set()
