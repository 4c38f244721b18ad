"""kubelet's end of a port-forward by WebSocket, for one question: `v4.channel.k8s.io`, as Kubernetes speaks it."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

PROTOCOL = "v4.channel.k8s.io"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 2, 8


def serve_port(
    handler: BaseHTTPRequestHandler, answer: Callable[[str], bytes] | None, *, pieces: int = 7, port: int = 8083
) -> None:
    """Take the connection over. `answer` gets the path of a GET; `None`: nothing listens at the port."""
    assert PROTOCOL in handler.headers["Sec-WebSocket-Protocol"]
    key = base64.b64encode(hashlib.sha1((handler.headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest())
    head = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {key.decode()}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    )
    handler.wfile.write(head.encode())
    for channel in (0, 1):
        _send(handler, bytes([channel]) + struct.pack("<H", port))
    if answer is None:
        _send(handler, b"\x01error forwarding port 8083: connection refused")
    else:
        question = _receive(handler)
        assert question[:1] == b"\x00"
        method, path, _ = question[1:].split(b"\r\n")[0].decode().split(" ")
        assert method == "GET"
        said = answer(path)
        for at in range(0, len(said), pieces):
            _send(handler, b"\x00" + said[at : at + pieces])
    _send(handler, b"", _CLOSE)
    handler.close_connection = True


def _send(handler: BaseHTTPRequestHandler, message: bytes, kind: int = _BINARY) -> None:
    assert len(message) < 126
    handler.wfile.write(bytes([0x80 | kind, len(message)]) + message)


def _receive(handler: BaseHTTPRequestHandler) -> bytes:
    length = handler.rfile.read(2)[1] & 0x7F
    if length == 126:
        (length,) = struct.unpack(">H", handler.rfile.read(2))
    mask = handler.rfile.read(4)
    return bytes(byte ^ mask[at % 4] for at, byte in enumerate(handler.rfile.read(length)))
