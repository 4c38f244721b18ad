"""Exchange one request for one answer over one HTTP/1.1 connection. httptools parses.

slurmrestd closes a connection after each answer that is neither 2xx nor 304. From 25.11 on it sends a second answer
behind most of these, in the same segment. Bytes behind an answer are dropped, and their connection is closed.
`docs/decisions/0025-http-client.md` says why no HTTP library is used here.
"""

from __future__ import annotations

import asyncio
import io
import select
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools

#: Bytes of an answer before its body; slurmrestd's are a few hundred.
LONGEST_HEAD: Final = 65_536

#: Bytes of the body of an answer if no other limit is set; 100,000 jobs are about 200 MiB.
LONGEST_BODY: Final = 256 * 2**20

#: Bytes of the header Location that an error message quotes.
LONGEST_LOCATION: Final = 200

_DIGITS: Final = 20
"""Digits of a Content-Length; 2**64 has as many."""

#: Seconds between two checks of how much of a long request was sent; transports report only the end of it.
CHECK_S: Final = 1.0


class CannotConnect(Exception):
    """Report that nothing was sent."""


class Broken(Exception):
    """Report that something may have been sent, and no complete answer came."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Hold one answer: status, the headers Content-Type and Location, and the complete body."""

    status: int
    content_type: str
    body: bytes
    location: str = ""


def too_long(longest_body: int) -> str:
    """Return the error message for a body above the limit."""
    return (
        f"the answer has more than {longest_body} bytes; check that slurmrestd answers at this address, "
        "or give the client a larger longest_body"
    )


class Connection(asyncio.Protocol):
    """Connect to `origin`, for one exchange at a time. An answer with more than `longest_body` bytes is an error."""

    def __init__(self, origin: object, longest_body: int = LONGEST_BODY) -> None:
        self.origin = origin
        self._longest_body = longest_body
        self.closed = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._write_s = self._read_s = 0.0
        self._active_at = 0.0
        """When bytes came, or a part of a long request was sent."""

        self._unsent = 0
        """Bytes of the request that were not sent at the last check."""

        self._answer: asyncio.Future[HttpResponse] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._timer: asyncio.TimerHandle
        self._reusable = True
        self._content_type = self._location = ""
        self._head = self._received = 0
        self._body: io.BytesIO
        self._begin()

    @property
    def usable(self) -> bool:
        """Return whether another request may be sent: it is in order, and no bytes came since the last answer."""
        return self._sound and not self._readable()

    @property
    def _sound(self) -> bool:
        return self._reusable and not self.closed.done() and not self._transport.is_closing()

    async def exchange(
        self, request: bytes, sending: Callable[[], None], *, write_s: float, read_s: float
    ) -> HttpResponse:
        """Send `request` and return its answer. Calls `sending` just before; if that raises, no byte is sent.

        The exchange fails if no byte moves for `write_s` seconds while the request is sent, or for `read_s` seconds
        after that. A failed or cancelled exchange closes the connection.

        Raises:
            CannotConnect: the connection was closed before anything was sent.
            Broken: no complete answer came.
        """
        if not self._sound:
            self.abort()
            raise CannotConnect("the server closed the connection before anything was sent")
        self._parser = httptools.HttpResponseParser(self)
        self._begin()
        self._head = self._received = 0
        self._answer = self._loop.create_future()
        self._write_s, self._read_s = write_s, read_s
        self._reusable = False
        try:
            sending()
            self._transport.write(request)
            self._active_at = self._loop.time()
            self._unsent = self._transport.get_write_buffer_size()
            self._timer = self._loop.call_later(self._until_check(self._limit_s), self._check)
            try:
                return await self._answer
            finally:
                self._timer.cancel()
        finally:
            self._answer = None
            if not self._reusable:
                self.abort()

    def abort(self) -> None:
        """Close the connection without waiting."""
        self._transport.abort()

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the answer. Close the connection if none is expected."""
        if self._answer is None or self._answer.done():
            self._reusable = False
            self.abort()
            return
        self._active_at = self._loop.time()
        self._received += len(data)
        body = self._body.tell()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reusable = False
            self._fail(f"the answer is not HTTP: {error}")
        # Bytes that add nothing to the body belong to a head, a chunk or trailers; the parser keeps some of them.
        self._head = self._head + len(data) if self._body.tell() <= body else 0
        if self._head > LONGEST_HEAD:
            self._fail(f"the head of the answer has more than {LONGEST_HEAD} bytes")
        if self._received > self._longest_body + LONGEST_HEAD:
            self._fail_for_length()

    def eof_received(self) -> None:
        """End a body of unknown length: the other side sends nothing more."""
        if self._in_body and not self._framed:
            self.on_message_complete()
        self._reusable = False

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the exchange that is under way."""
        self._reusable = False
        if not self.closed.done():
            self.closed.set_result(None)
        why = f"{type(error).__name__}: {error}" if error is not None else "the server closed the connection"
        self._fail(f"{why} before the answer was complete")

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Begin an answer. One behind the expected answer is ignored, and the connection is not used again."""
        if self._answer is not None and self._answer.done():
            self._reusable = False
        else:
            self._begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that are needed."""
        match name.lower():
            case b"content-type" if not self._content_type:
                self._content_type = value.decode("latin-1")
            case b"location" if not self._location:
                self._location = value[:LONGEST_LOCATION].decode("latin-1")
            case b"content-length":
                self._framed = True
                if value.isdigit() and (len(value) > _DIGITS or int(value) > self._longest_body):
                    self._fail_for_length()
            case b"transfer-encoding":
                self._framed = True

    def on_headers_complete(self) -> None:
        """Note that the body follows."""
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        if self._answer is None or self._answer.done():
            return
        self._body.write(body)
        if self._body.tell() > self._longest_body:
            self._fail_for_length()

    def on_message_complete(self) -> None:
        """Finish the exchange. An answer below 200 announces another one."""
        status = self._parser.get_status_code()
        if status < 200 or self._answer is None or self._answer.done():
            return
        framed = self._framed or status in (204, 304)
        sent = self._transport.get_write_buffer_size() == 0
        self._reusable = framed and sent and (status < 300 or status == 304) and self._parser.should_keep_alive()
        self._answer.set_result(HttpResponse(status, self._content_type, self._body.getvalue(), self._location))
        self._body = io.BytesIO()

    def _begin(self) -> None:
        self._content_type = self._location = ""
        self._body = io.BytesIO()
        self._framed = self._in_body = False

    def _fail(self, text: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(text))
            self._body = io.BytesIO()

    def _fail_for_length(self) -> None:
        self._fail(too_long(self._longest_body))

    @property
    def _limit_s(self) -> float:
        return self._write_s if self._unsent else self._read_s

    def _until_check(self, left: float) -> float:
        return min(left, CHECK_S) if self._unsent else left

    def _check(self) -> None:
        """Fail the exchange if no byte moved for too long."""
        now, unsent = self._loop.time(), self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._active_at = now
        self._unsent = unsent
        limit_s = self._limit_s
        left = self._active_at + limit_s - now
        if left > 0:
            self._timer = self._loop.call_later(self._until_check(left + 1e-3), self._check)
            return
        self._fail(f"{'no byte of the request was sent' if unsent else 'nothing came'} for {limit_s:g} s")

    def _readable(self) -> bool:
        """Return whether the kernel has bytes or an end of the stream that the loop has not reported yet."""
        connected = self._transport.get_extra_info("socket")
        if connected is None or connected.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(connected.fileno(), select.POLLIN)
        return bool(poll.poll(0))
