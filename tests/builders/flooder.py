"""Floods a listener: `python -m tests.builders.flooder NAME PORT CONNECTIONS` goes on until it is ended.

A process of its own, so that what it costs to attack does not count as what it costs to be attacked. It comes from
another address of the loopback interface than the probes of the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvloop

from extender.config.values import BindAddress

ATTACKER = "127.0.0.2"
MOST_SENT = 8 * 1024 * 1024
"""More than the buffers of both sockets of a connection take while the listener does not read."""

PAUSE_S = 0.1
"""Between two connections of one attacker."""

HELD_S = 0.5
"""How long a connection is kept after its handshake."""

HALF = 50_000
"""Bytes of a head or body that never ends: more than half of what a listener of the tests takes of one request."""

Send = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(at: BindAddress) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(at.host, at.port, local_addr=(ATTACKER, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def endless_header(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /livez HTTP/1.1\r\nX: ")
    await _endlessly(writer, b"a" * 65536)


async def endless_headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /livez HTTP/1.1\r\n")
    await _endlessly(writer, b"X: y\r\n" * 8192)


async def endless_url(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /")
    await _endlessly(writer, b"a" * 65536)


async def endless_body(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Content-Length: 999999999\r\n\r\n")
    await _endlessly(writer, b"a" * 65536)


async def endless_chunk_extension(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Transfer-Encoding: chunked\r\n\r\n1;")
    await _endlessly(writer, b"a" * 65536)


async def endless_trailers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
    await _endlessly(writer, b"X: y\r\n" * 8192)


async def endless_second_head(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\nGET /livez HTTP/1.1\r\nX: ")
    await _endlessly(writer, b"a" * 65536)


async def half_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET /livez HTTP/1.1\r\nHost: h\r\nX: " + b"a" * HALF)
    await reader.read()


async def half_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Content-Length: 60000\r\n\r\n" + b"a" * HALF)
    await reader.read()


async def half_review(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the webhook the beginning of a Pod with many annotations."""
    head = (
        b"POST /admission/mutate HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    )
    pod = b'{"request":{"uid":"u","operation":"CREATE","object":{"metadata":{"annotations":{' + b'"a":"b",' * HALF
    writer.write(head + pod[:HALF])
    await reader.read()


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def slow_reader(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    _reader._transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
    await asyncio.sleep(60)


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff garbage\r\n\r\n" * 100)
    await reader.read()


async def aborted_post(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_POST + b"Content-Length: 100\r\n\r\n{")
    await writer.drain()


_POST = b"POST /scheduler/filter HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"


async def _endlessly(writer: asyncio.StreamWriter, piece: bytes) -> None:
    for _ in range(MOST_SENT // len(piece)):
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)  # a listener of the same loop reads what fits into the sockets
    raise AssertionError(f"{MOST_SENT} bytes were taken")


ENDLESS = (
    endless_header,
    endless_headers,
    endless_url,
    endless_body,
    endless_chunk_extension,
    endless_trailers,
    endless_second_head,
)
HOLDING = (half_head, half_body, half_review)
"""Their bytes are held until the rest of the request comes."""

FLOODS = (*ENDLESS, *HOLDING, silence, slow_reader, garbage, aborted_post)


async def half_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the beginning of a ClientHello."""
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await reader.read()


async def full_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Make the handshake, and send nothing then."""
    await writer.start_tls(_ANY_SERVER)
    await asyncio.wait_for(reader.read(), HELD_S)


def _any_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


_ANY_SERVER = _any_server()
HANDSHAKES = (half_handshake, full_handshake)


async def attack(at: BindAddress, send: Send) -> None:
    """Open one connection after the other, without an end."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with connected(at) as (reader, writer):
                await send(reader, writer)
        await asyncio.sleep(PAUSE_S)


async def main(name: str, port: int, count: int) -> None:
    """Attack with so many connections at a time."""
    every = {send.__name__: send for send in (*FLOODS, *HANDSHAKES)}
    at = BindAddress("127.0.0.1", port)
    attackers = [asyncio.create_task(attack(at, every[name])) for _ in range(count)]
    await asyncio.sleep(0.2)
    print("flooding", flush=True)
    await asyncio.gather(*attackers)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
