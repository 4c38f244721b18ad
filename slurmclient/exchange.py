"""One exchange with slurmrestd: the request, the reply, and the interface of a transport. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

#: Called after each exchange with method, path, and the status of the reply; 0: there was none.
Observe = Callable[[str, str, int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """Hold one HTTP request, without address and identity.

    Attributes:
        method: `GET`, `POST` or `DELETE`.
        path: percent-encoded, from `/slurm` on; see :func:`path_of`.
        query: keys and values, not encoded; a list is a repeated key (slurmrestd does not split commas).
        body: JSON; None: no body.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    @property
    def endpoint(self) -> str:
        """Return method and path, for messages."""
        return f"{self.method} {self.path}"

    @property
    def urgent(self) -> bool:
        """Return whether it overtakes waiting requests: before a late drain, Slurm may allocate the node again."""
        return "/node/" in self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold one complete HTTP reply.

    Attributes:
        status: HTTP status.
        content_type: as sent.
        body: the complete body.
        address: the address that answered.
    """

    status: int
    content_type: str
    body: bytes
    address: str


class Sender(Protocol):
    """Exchange requests for replies; see :class:`slurmclient.transport.Transport`."""

    observe: Observe

    @property
    def address(self) -> str:
        """Return the address in use."""
        ...

    def leave(self, address: str) -> None:
        """Prefer another address from now on if `address` is in use."""
        ...

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        """Exchange one request for one reply. Raises ConnectError if nothing was sent, else TransportError."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


def path_of(*segments: str | int) -> str:
    """Join path segments, each percent-encoded: a bare `+` or `,` has another meaning for slurmrestd."""
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)
