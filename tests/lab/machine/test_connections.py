"""Connections of the lab to an API server are kept between requests, and a dead one is never used."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from lab.connections import Connections


class Server(ThreadingHTTPServer):
    """Counts the connections that it was asked over."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, authority: trustme.CA) -> None:
        self.connections = 0
        self.said: list[bytes] = []
        super().__init__(("127.0.0.1", port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:
        self.server.said.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201)

    def do_GET(self) -> None:
        self._answer(404 if self.path == "/none?all=1" else 200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "2")
        if self.path == "/last":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving(authority: trustme.CA, port: int = 0) -> Iterator[Server]:
    server = Server(port, authority)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def connections() -> Iterator[Connections]:
    found = Connections()
    yield found
    found.close()


def status_of(connections: Connections, server: Server, ca_file: Path, path: str, data: bytes | None = None) -> int:
    url = f"https://127.0.0.1:{server.server_port}{path}"
    method = "GET" if data is None else "POST"
    status, body = connections.exchange(method, url, headers={}, data=data, ca_file=ca_file, timeout_s=10)
    assert body == b"{}"
    return status


def test_requests_share_a_connection_whatever_they_are_answered(
    connections: Connections, authority: trustme.CA, ca_file: Path
) -> None:
    with serving(authority) as server:
        codes = [status_of(connections, server, ca_file, path) for path in ("/", "/none?all=1", "/")]
        codes.append(status_of(connections, server, ca_file, "/new", b"body"))
        assert codes == [200, 404, 200, 201]
        assert server.said == [b"body"]
        assert server.connections == 1
        connections.close()


def test_one_that_the_server_ends_is_not_used_again(
    connections: Connections, authority: trustme.CA, ca_file: Path
) -> None:
    with serving(authority) as server:
        assert [status_of(connections, server, ca_file, "/last") for _ in range(2)] == [200, 200]
        assert server.connections == 2


def test_a_server_that_was_started_again_is_called_on_a_new_one(
    connections: Connections, authority: trustme.CA, ca_file: Path
) -> None:
    with serving(authority) as server:
        status_of(connections, server, ca_file, "/")
        port = server.server_port
        for one in connections._idle.values():  # as the kernel does for a process that has ended
            assert one[0].sock is not None
            one[0].sock.shutdown(2)
    with pytest.raises(OSError, match="refused"):
        status_of(connections, server, ca_file, "/")
    with serving(authority, port) as again:
        status_of(connections, again, ca_file, "/")
        assert again.connections == 1
