"""One exchange with slurmrestd: what is sent, what comes back, and what carries both. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, without address and identity.

    Attributes:
        method: ``GET``, ``POST`` or ``DELETE``.
        path: percent-encoded, from ``/slurm`` on; see :func:`path_of`.
        query: keys and values as they are; a list is a repeated key (slurmrestd does not split commas).
        body: JSON, None for no body at all.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    @property
    def endpoint(self) -> str:
        """Method and path, for people."""
        return f"{self.method} {self.path}"

    @property
    def first(self) -> bool:
        """Whether it is sent before others that wait: a drain that comes late lets Slurm give the node away."""
        return "/node/" in self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, read to its end.

    Attributes:
        status: HTTP's.
        content_type: as sent.
        body: whole.
        address: that it came from.
    """

    status: int
    content_type: str
    body: bytes
    address: str


class Sender(Protocol):
    """What a session needs of a transport; see :class:`Transport`."""

    @property
    def address(self) -> str:
        """The address in use."""
        ...

    def leave(self, address: str) -> None:
        """Prefer another address than this from now on."""
        ...

    async def send(self, request: Request, headers: Mapping[str, str], deadline: float) -> Reply:
        """Exchange one request for one reply."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


def path_of(*segments: str | int) -> str:
    """Join path segments, each percent-encoded whole: slurmrestd takes a bare ``+`` or ``,`` for something else."""
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)
