"""Define a call: a function that writes the request for any API version, and one that reads the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from slurmclient.capabilities import Capabilities
from slurmclient.classification import Effect
from slurmclient.errors import InvalidRequestError, ProtocolError, UnsupportedError
from slurmclient.exchange import Request, path_of
from slurmclient.models.listing import Listing
from slurmclient.wire.codec import Codec
from slurmclient.wire.envelope import Envelope
from slurmclient.wire.fields import Raw, listing, text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Hold the result of a negotiation.

    Attributes:
        codec: of the API version.
        capabilities: of the API version and the release.
        cluster: name; empty if the release does not report it.
    """

    codec: Codec
    capabilities: Capabilities
    cluster: str

    def path(self, *segments: str | int) -> str:
        """Return the path of segments under slurmctld's part of this version."""
        return path_of("slurm", self.codec.label, *segments)

    def database_path(self, *segments: str | int) -> str:
        """Return the path of segments under slurmdbd's part of this version."""
        return path_of("slurmdb", self.codec.label, *segments)

    def need(self, capable: bool, what: str) -> None:
        """Reject a request that this Slurm does not support.

        Raises:
            UnsupportedError: it is not capable.
        """
        if not capable:
            raise UnsupportedError(f"{what}; this is {self.codec.label} of Slurm {self.capabilities.release}")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Define one request to slurmrestd and its answer.

    Attributes:
        effect: what the request does to Slurm.
        write: returns the request; raises UnsupportedError if this Slurm does not support it.
        read: returns the answer, from a reply without errors or one that `accept` accepted.
        accept: accepts a reply although it reports errors, e.g. because it has a job id.
        not_found: error numbers that mean "no such object" for this call.
        missing: the message if slurmrestd does not know the path.
        listed: the key of a list of which unchanged entries, in a large reply, are not parsed again.
    """

    effect: Effect
    write: Callable[[Agreement], Request]
    read: Callable[[Agreement, Envelope], T]
    accept: Callable[[Envelope], bool] = lambda envelope: False
    not_found: frozenset[int] = frozenset()
    missing: str = "this slurmrestd does not serve it"
    listed: str = ""


def request(
    method: str, path: str, *, query: tuple[tuple[str, str], ...] = (), body: Mapping[str, object] | None = None
) -> Request:
    """Return a request; the body as compact ASCII JSON.

    Raises:
        InvalidRequestError: a value in the body cannot be JSON (NaN, for instance).
    """
    if body is None:
        return Request(method, path, query)
    try:
        written = json.dumps(body, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"the request cannot be written as JSON: {error}", endpoint=f"{method} {path}"
        ) from error
    return Request(method, path, query, written.encode("ascii"))


def read_listing(key: str, read: Callable[[Raw], T], name_key: str) -> Callable[[Agreement, Envelope], Listing[T]]:
    """Return a reader for a reply's list under `key`, whose objects have their name under `name_key`."""

    def read_all(agreement: Agreement, envelope: Envelope) -> Listing[T]:
        return listing(envelope.payload, key, read, name=lambda raw: text(raw, name_key), endpoint=envelope.endpoint)

    return read_all


def read_nothing(agreement: Agreement, envelope: Envelope) -> None:
    """Read nothing: the success is the whole answer."""


def check_job_id(job_id: int) -> None:
    """Reject a value that cannot be a job id.

    Raises:
        InvalidRequestError: not a number greater than 0.
    """
    # Not "5_1" either: up to 24.05 a DELETE of one task of an array cancelled the whole array.
    if type(job_id) is not int or not 0 < job_id < 2**32:
        raise InvalidRequestError(f"job id {job_id!r}: a number from 1 to {2**32 - 1}")


def missing_object(what: str, envelope: Envelope) -> ProtocolError:
    """Return the error for a reply without the requested object and without an error."""
    return ProtocolError(
        f"the reply contains neither {what} nor an error",
        endpoint=envelope.endpoint,
        http_status=envelope.status,
    )
