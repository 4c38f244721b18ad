"""uvicorn's HTTP protocol with bounds: bytes of a head, of a URL and of a body, and time for each of them.

uvicorn's own keeps what it is sent: a header line without an end filled the memory at 100 MiB a second.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.http.connections import ConnectionPhase, ListenerConnections, ServedConnection

LINGER = 256 * 1024
"""Bytes of a body that is too long which are read and dropped, so that the answer about it arrives."""

MOST_HEADERS = 100
"""Header lines of a request, trailers included; Go's client and the API server send about ten."""


MOST_PIPELINED = 4
"""Requests of one connection that wait while another one is answered; no supported caller sends any. 250 KB of one
segment held 11,000, which took 50 times as much memory."""


class _TooLarge(Exception):
    """Ends the parsing of a request; `status` is the answer."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class BoundedProtocol(HttpToolsProtocol):
    """One connection of a listener."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        connections: ListenerConnections,
        known: ServedConnection | None = None,
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={}, _loop=loop)
        self._connections = connections
        self._known = known
        self._bounds = connections.bounds
        self._head = 0
        """Bytes of the head of the present request, of its trailers too."""

        self._headers = 0
        """Their number."""

        self._body = 0
        """Bytes of its body."""

        self._message = 0
        """Bytes of the present request as they came, chunks and their extensions included."""

        self._begun = False
        """A head has begun and is not complete."""

        self._refusal: HTTPStatus | None = None

    # From the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection up, unless there are too many."""
        super().connection_made(transport)
        if self._known is None:
            address = self.client[0] if self.client else ""
            self._known = self._connections.open(address, transport.abort, ConnectionPhase.SILENT)
            if self._known is None:
                transport.abort()
                return
        else:
            self._known.end_by(transport.abort)
            self._connections.enter(self._known, ConnectionPhase.SILENT)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._known is not None:
            self._connections.closed(self._known)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, within the bounds."""
        if self._known is None or self._known.ended or self.transport.is_closing():
            return
        if self._known.phase in {ConnectionPhase.SILENT, ConnectionPhase.IDLE}:
            self._enter(ConnectionPhase.HEAD)
        self._unset_keepalive_if_required()
        self._message += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(HTTPStatus.BAD_REQUEST, "upgrade asked for")
            return
        except httptools.HttpParserError:
            status, self._refusal = self._refusal or HTTPStatus.BAD_REQUEST, None
            self._refuse(status, "malformed request" if status is HTTPStatus.BAD_REQUEST else status.phrase.lower())
            return
        self._check_what_arrived(len(data))

    def pause_writing(self) -> None:
        """Note that the peer does not read the bytes that it is sent."""
        super().pause_writing()
        self._enter(ConnectionPhase.STALLED)

    def resume_writing(self) -> None:
        """Note that the peer reads again."""
        super().resume_writing()
        self._enter_next()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, whatever of the last answer has not been read."""
        super().timeout_keep_alive_handler()
        self._enter(ConnectionPhase.CLOSING)

    # From the parser.

    def on_message_begin(self) -> None:
        """Reset the counters, unless too many requests wait already."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop(HTTPStatus.TOO_MANY_REQUESTS)
        super().on_message_begin()
        self._head = self._headers = self._body = 0
        self._begun = True

    def on_url(self, url: bytes) -> None:
        """Keep the URL unless it is too long."""
        if len(self.url) + len(url) > self._bounds.url_bytes:
            self._stop(HTTPStatus.REQUEST_URI_TOO_LONG)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, or a trailer, unless there are too many bytes of them."""
        self._head += len(name) + len(value) + len(": \r\n")
        self._headers += 1
        if self._head > self._bounds.head_bytes or self._headers > MOST_HEADERS:
            self._stop(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        super().on_headers_complete()
        self._begun = False
        self._enter_next()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body while there is room."""
        self._body += len(body)
        if self._known is not None and not self.cycle.response_complete:
            self._hold(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Continue after uvicorn's part."""
        super().on_message_complete()
        self._message = 0
        self._enter_next()

    def on_response_complete(self) -> None:
        """Let go of what the request brought."""
        if self._known is not None:
            self._connections.release(self._known)
        super().on_response_complete()
        self._enter_next()

    def _check_what_arrived(self, size: int) -> None:
        """Limit what the parser buffers: the beginning of a line, and chunks with all that is about them."""
        if self._known is None or self._known.ended:
            return
        if self._known.phase is ConnectionPhase.BODY:
            too_long = self._body > self._bounds.body_bytes + LINGER
            if too_long or self._message > 2 * self._body + self._bounds.head_bytes:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body too large")
        elif self._message > self._bounds.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head too large")
        elif self._known.phase is ConnectionPhase.HEAD:
            self._hold(size)

    def _enter_next(self) -> None:
        """Enter the phase that follows from the present request."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            self._enter(ConnectionPhase.CLOSING)
        elif self.flow.write_paused:
            self._enter(ConnectionPhase.STALLED)
        elif self.pipeline:
            self._enter(ConnectionPhase.ANSWER)  # reading is paused until the request before is answered
        elif cycle is not None and cycle.more_body:
            self._enter(ConnectionPhase.BODY)
        elif cycle is not None and not cycle.response_complete:
            self._enter(ConnectionPhase.ANSWER)
        elif cycle is not None:
            self._enter(ConnectionPhase.HEAD if self._begun else ConnectionPhase.IDLE)

    def _enter(self, phase: ConnectionPhase) -> None:
        if self._known is not None:
            self._connections.enter(self._known, phase)

    def _hold(self, size: int) -> bool:
        return self._known is None or self._connections.hold(self._known, size)

    def _stop(self, status: HTTPStatus) -> None:
        self._refusal = status
        raise _TooLarge(status)

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer and close; where an answer is under way already, only close."""
        self._connections.notify(reason)
        cycle: RequestResponseCycle | None = self.cycle
        first = not self.pipeline  # else the answer would be taken for that of a request before
        if first and (cycle is None or cycle.response_complete or not cycle.response_started):
            text = status.phrase.encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
                % (status.value, text, len(text), text)
            )
            if cycle is not None:
                cycle.disconnected = True  # its handler sends nothing more
                cycle.message_event.set()
        self.transport.close()
        self._enter(ConnectionPhase.CLOSING)
