"""TLS connections that are kept: a test looks often, and a handshake costs both sides more than most requests."""

import atexit
import select
import ssl
import threading
from collections.abc import Mapping
from functools import cache
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

Place = tuple[str, Path]
"""Host and port, and the authority that signed who is there."""


class Connections:
    """Keep idle connections, by place. Threads may share them."""

    def __init__(self) -> None:
        self._idle: dict[Place, list[HTTPSConnection]] = {}
        self._lock = threading.Lock()

    def exchange(
        self, method: str, url: str, *, headers: Mapping[str, str], data: bytes | None, ca_file: Path, timeout_s: float
    ) -> tuple[int, bytes]:
        """Send one request; return status and body. Raises OSError or http.client.HTTPException without an answer.

        Nothing is sent twice: what the other side has closed meanwhile is not used, and any other request may arrive.
        """
        parts = urlsplit(url)
        place = parts.netloc, ca_file
        connection = self._take(place)
        try:
            connection.timeout = timeout_s
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
            connection.request(method, target, body=data, headers=dict(headers))
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.setdefault(place, []).append(connection)
        return answer.status, body

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            for connections in self._idle.values():
                for connection in connections:
                    connection.close()
            self._idle.clear()

    def _take(self, place: Place) -> HTTPSConnection:
        with self._lock:
            idle = self._idle.get(place, [])
            while idle:
                connection = idle.pop()
                if not _ended(connection):
                    return connection
                connection.close()
        return HTTPSConnection(place[0], context=_trusting(place[1]))


KEPT = Connections()
atexit.register(KEPT.close)


def _ended(connection: HTTPSConnection) -> bool:
    """Return whether there is something to read although nothing was requested: the server has closed it."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


@cache
def _trusting(ca_file: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca_file))
