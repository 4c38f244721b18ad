from __future__ import annotations

import asyncio

import pytest

from slurmclient.connection import LONGEST_HEAD, Broken, CannotConnect, Connection, HttpResponse

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n"
OK = HttpResponse(200, "application/json", b"{}")


class Wire(asyncio.Transport):
    """A transport whose other side is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.unsent = 0
        self.closed = False

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


@pytest.fixture
async def wire() -> Wire:
    return Wire()


@pytest.fixture
async def connection(wire: Wire) -> Connection:
    made = Connection("origin")
    made.connection_made(wire)
    return made


async def exchange(connection: Connection) -> asyncio.Task[HttpResponse]:
    task = asyncio.create_task(connection.exchange(b"GET / HTTP/1.1\r\n\r\n", lambda: None, write_s=5, read_s=30))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_an_answer_is_the_same_however_it_is_cut(connection: Connection, wire: Wire, size: int) -> None:
    for _ in range(2):
        task = await exchange(connection)
        whole = HEAD + b"{}"
        for at in range(0, len(whole), size):
            connection.data_received(whole[at : at + size])
        assert await task == OK
        assert connection.usable
    assert not wire.closed


@pytest.mark.parametrize("stray", [b"\r\nerror", b"HTTP/1.1 200 OK\r\n\r\n", b"{}"])
@pytest.mark.parametrize("apart", [False, True])
async def test_what_stands_behind_an_answer_costs_the_connection_alone(
    connection: Connection, wire: Wire, stray: bytes, apart: bool
) -> None:
    task = await exchange(connection)
    if apart:
        connection.data_received(HEAD + b"{}")
        connection.data_received(stray)
    else:
        connection.data_received(HEAD + b"{}" + stray)
    assert await task == OK
    assert not connection.usable
    assert wire.closed


async def test_unrequested_bytes_close_the_connection(connection: Connection, wire: Wire) -> None:
    connection.data_received(HEAD)
    assert wire.closed
    assert not connection.usable


async def test_an_answer_that_announces_another_is_skipped(connection: Connection) -> None:
    task = await exchange(connection)
    connection.data_received(b"HTTP/1.1 100 Continue\r\nContent-Type: text/plain\r\n\r\n")
    connection.data_received(HEAD + b"{}")
    assert await task == OK


async def test_an_answer_without_a_length_ends_with_the_connection(connection: Connection) -> None:
    task = await exchange(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}")
    connection.eof_received()
    assert await task == OK
    assert not connection.usable


async def test_an_answer_that_ends_too_early_is_none(connection: Connection) -> None:
    task = await exchange(connection)
    connection.data_received(HEAD + b"{")
    connection.eof_received()
    connection.connection_lost(None)
    with pytest.raises(Broken, match="before the answer was complete"):
        await task


@pytest.mark.parametrize(("status", "kept"), [(200, True), (304, True), (404, False), (500, False)])
async def test_a_connection_is_kept_after_the_answers_after_which_slurmrestd_keeps_it(
    connection: Connection, wire: Wire, status: int, kept: bool
) -> None:
    task = await exchange(connection)
    body = b"" if status == 304 else b"{}"
    head = b"HTTP/1.1 %d X\r\n" % status
    connection.data_received(head + (b"\r\n" if status == 304 else b"Content-Length: 2\r\n\r\n" + body))
    assert (await task).status == status
    assert (connection.usable, wire.closed) == (kept, not kept)


async def test_what_is_not_http_and_a_head_without_end_are_no_answers() -> None:
    for nonsense in (b"slurmrestd: fatal", b"HTTP/1.1 200 OK\r\nX: " + b"x" * LONGEST_HEAD):
        connection = Connection("origin")
        connection.connection_made(Wire())
        task = await exchange(connection)
        connection.data_received(nonsense)
        with pytest.raises(Broken):
            await task


async def test_what_may_not_be_sent_is_not_sent(connection: Connection, wire: Wire) -> None:
    def refuse() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        await connection.exchange(b"POST", refuse, write_s=5, read_s=30)
    assert wire.sent == b""
    assert wire.closed


@pytest.mark.looptime
async def test_an_answer_may_take_long_as_long_as_it_continues(connection: Connection) -> None:
    task = await exchange(connection)
    for at in range(len(HEAD)):
        await asyncio.sleep(29)
        connection.data_received(HEAD[at : at + 1])
    await asyncio.sleep(31)
    with pytest.raises(Broken, match="nothing came for 30 s"):
        await task


@pytest.mark.looptime
async def test_a_request_that_no_server_takes_is_given_up_sooner(connection: Connection, wire: Wire) -> None:
    wire.unsent = 1
    began = asyncio.get_running_loop().time()
    with pytest.raises(Broken, match="no byte of the request was sent for 5 s"):
        await connection.exchange(b"x", lambda: None, write_s=5, read_s=30)
    assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)


@pytest.mark.looptime
async def test_a_long_request_is_not_given_up_while_some_of_it_is_taken(connection: Connection, wire: Wire) -> None:
    wire.unsent = 60
    task = await exchange(connection)
    while wire.unsent:
        await asyncio.sleep(4)
        wire.unsent -= 1
    await asyncio.sleep(29)
    connection.data_received(HEAD + b"{}")
    assert await task == OK


async def test_an_answer_that_comes_before_its_request_is_out_costs_the_connection(
    connection: Connection, wire: Wire
) -> None:
    task = await exchange(connection)
    wire.unsent = 1
    connection.data_received(HEAD + b"{}")
    assert await task == OK
    assert wire.closed


@pytest.mark.parametrize("ended", ["closing", "said something", "said its last", "lost"])
async def test_what_had_ended_before_anything_was_sent_took_nothing(
    connection: Connection, wire: Wire, ended: str
) -> None:
    match ended:
        case "closing":
            wire.closed = True
        case "said something":
            connection.data_received(b"HTTP/1.1 503 Busy\r\n\r\n")
        case "said its last":
            connection.eof_received()
        case _:
            connection.connection_lost(None)
    called = []
    with pytest.raises(CannotConnect):
        await connection.exchange(b"x", lambda: called.append(1), write_s=5, read_s=30)
    assert (wire.sent, called, wire.closed) == (b"", [], True)


@pytest.mark.parametrize("headers", [b"", b"Connection: upgrade\r\nUpgrade: h2c\r\n"])
async def test_another_protocol_is_no_answer(connection: Connection, headers: bytes) -> None:
    task = await exchange(connection)
    connection.data_received(b"HTTP/1.1 101 Switching Protocols\r\n" + headers + b"\r\n")
    with pytest.raises(Broken, match="not HTTP"):
        await task
