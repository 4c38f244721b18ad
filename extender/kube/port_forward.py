"""One question to a port of a Pod, asked through the API server as `kubectl port-forward` would.

kubelet connects to the port within the Pod's network, so that what listens on the loopback interface is reached, too.
The protocol is that of kubelet's WebSockets (`cri-streaming/pkg/streaming/portforward/websocket.go`): of each port
there are two channels, data and errors, and both begin with the number of the port.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
from dataclasses import dataclass
from typing import Any, cast

from extender.kube.channels import Channels
from extender.kube.connection import ApiConnection
from extender.kube.errors import ApiUnavailable

PROTOCOL = "v4.channel.k8s.io"
DATA, ERRORS = 0, 1
PORT_BYTES = 2
"""Bytes of the port's number, with which each channel begins."""

_DIGITS = 18
"""Of a Content-Length."""

_HEAD_ENDS = b"\r\n\r\n"
LONGEST_ANSWER = 64 * 2**20
"""Bytes; a longer answer of a port is an error."""


class NotConnected(Exception):
    """The way to the Pod is open, and nothing usable answers at its port."""


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a Pod."""

    namespace: str
    pod: str
    port: int


def path_of(pod_port: PodPort) -> str:
    """Return the path at which the API server opens the way to this port."""
    return f"/api/v1/namespaces/{pod_port.namespace}/pods/{pod_port.pod}/portforward"


async def get(connection: ApiConnection, pod_port: PodPort, path: str, *, within_s: float) -> tuple[int, bytes]:
    """Return status and body of an HTTP GET.

    Raises ApiError where the API server does not open the way, NotConnected where the port does not answer.
    """
    try:
        async with (
            asyncio.timeout(within_s),
            connection.channels(
                path_of(pod_port), {"ports": str(pod_port.port)}, PROTOCOL, open_timeout_s=within_s
            ) as channels,
        ):
            # HTTP/1.0: the answer is not chunked, and the other side closes behind it.
            question = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n"
            await channels.send(bytes([DATA]) + question.encode("ascii"))
            return _parsed(await _answer(channels), pod_port)
    except TimeoutError as error:
        raise ApiUnavailable(
            f"port {pod_port.port} of Pod {pod_port.pod} does not answer within {within_s:g} s"
        ) from error


async def _answer(channels: Channels) -> bytes:
    """Return all bytes up to the end that the head names. Raises NotConnected for more than LONGEST_ANSWER bytes."""
    data, errors = bytearray(), bytearray()
    length: int | None = None
    while (message := await channels.receive()) is not None:
        if not message or message[0] not in (DATA, ERRORS):
            continue
        into = data if message[0] == DATA else errors
        seen = len(into)
        into += message[1:]
        if len(errors) > PORT_BYTES:
            raise NotConnected(errors[PORT_BYTES:].decode("utf-8", "replace").strip())
        if len(data) > LONGEST_ANSWER:
            raise NotConnected(
                f"the answer has more than {LONGEST_ANSWER} bytes; does the extender listen at this port?"
            )
        if length is None:
            length = _length(data, max(PORT_BYTES, seen - len(_HEAD_ENDS)))
        if length is not None and len(data) >= length:
            break
    return bytes(data[PORT_BYTES:])


def _length(data: bytearray, start: int) -> int | None:
    """Return the length of the whole answer, if its head names one. `start`: the head ends at or after this."""
    end = data.find(_HEAD_ENDS, start)
    if end < 0:
        return None
    for line in bytes(data[PORT_BYTES:end]).split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        digits = value.strip()
        if name.strip().lower() == b"content-length" and digits.isdigit() and len(digits) <= _DIGITS:
            return end + len(_HEAD_ENDS) + int(digits)
    return None


def _parsed(answer: bytes, pod_port: PodPort) -> tuple[int, bytes]:
    found = http.client.HTTPResponse(cast("socket.socket", _SocketReader(answer)))
    try:
        found.begin()
        return found.status, found.read()
    except (http.client.HTTPException, OSError, ValueError) as error:
        text = (
            f"port {pod_port.port} of Pod {pod_port.pod} answers {answer[:40]!r}, which is not HTTP" if answer else ""
        )
        raise NotConnected(text or f"port {pod_port.port} of Pod {pod_port.pod} closes without an answer") from error


class _SocketReader:
    """The part of a socket that `http.client` needs to read an answer."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def makefile(self, *_: Any) -> io.BytesIO:
        """Return the bytes."""
        return io.BytesIO(self._answer)
