"""Parse the frame of every slurmrestd reply: `errors`, `warnings`, `meta` and the payload beside them.

HTTP 200 does not mean success: errors come with any status. The error number decides, not the status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from pydantic_core import from_json

from slurmclient.capabilities import Release
from slurmclient.classification import GATEWAY_ERRORS, Effect, error_for
from slurmclient.errors import OutcomeUnknownError, ProtocolError
from slurmclient.models.answer import SlurmWarning
from slurmclient.number import decode_integer
from slurmclient.wire.fields import Raw, mapping, text

LARGE_BYTES = 200_000
"""A larger reply is parsed in a thread: five thousand nodes would block the loop for a tenth of a second."""


@dataclass(frozen=True, slots=True)
class WireError:
    """Hold one entry of `errors`.

    Attributes:
        number: error number of Slurm; 0: none.
        description: text.
        source: function.
    """

    number: int
    description: str
    source: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """Hold a parsed reply, of which no error was raised yet.

    Attributes:
        endpoint: method and path of the request.
        status: HTTP status.
        payload: the whole JSON object; empty for a reply that has none.
        errors: as sent.
        warnings: as sent.
        spoken: the body is JSON of slurmrestd.
        excerpt: beginning of any other body.
    """

    endpoint: str
    status: int
    payload: Raw
    errors: tuple[WireError, ...] = ()
    warnings: tuple[SlurmWarning, ...] = ()
    spoken: bool = True
    excerpt: str = ""

    @property
    def unchanged(self) -> bool:
        """Return whether nothing has changed since the `update_time` of the request."""
        return self.status == 304

    @property
    def unrouted(self) -> bool:
        """Return whether this version has no such path: slurmrestd reports it in plain text, not in JSON."""
        return self.status == 404 and not self.spoken

    @property
    def from_gateway(self) -> bool:
        """Return whether a proxy replies that it has no slurmrestd, or lost it."""
        return self.status in GATEWAY_ERRORS and not self.spoken

    @property
    def failed(self) -> bool:
        """Return whether an error is reported, by status or by entry."""
        return bool(self.errors) or not (200 <= self.status < 300 or self.unchanged)

    @property
    def number(self) -> int:
        """Return the first error number that is not 0; 0 if there is none."""
        return next((error.number for error in self.errors if error.number), 0)

    @property
    def release(self) -> Release | None:
        """Return the release of slurmrestd, None if the reply does not contain it."""
        slurm = mapping(mapping(self.payload, "meta"), "slurm")
        version = mapping(slurm, "version")
        year, month, micro = (decode_integer(version.get(part)) for part in ("major", "minor", "micro"))
        if year is not None and month is not None and micro is not None:
            return Release(year, month, micro)
        release = text(slurm, "release")
        return Release.parse(release) if release else None

    @property
    def cluster(self) -> str:
        """Return the name of the cluster, empty if the reply does not contain it."""
        return text(mapping(mapping(self.payload, "meta"), "slurm"), "cluster")

    def free(self) -> None:
        """Free the lists of the payload entry by entry: freeing all at once would block other threads."""
        for entries in self.payload.values():
            if isinstance(entries, list):
                while entries:
                    entries.pop()

    def with_list(self, key: str, entries: Sequence[Raw]) -> Envelope:
        """Return a copy with this list under this key."""
        return replace(self, payload={**self.payload, key: entries})

    def check(self, effect: Effect, not_found: frozenset[int] = frozenset()) -> None:
        """Raise the error that the reply reports, if any.

        Args:
            effect: what the request would have done.
            not_found: numbers that mean "no such object" for this request.

        Raises:
            SlurmError: of the class that `classification` gives.
        """
        if self.failed or not self.spoken:
            self.fail(effect, not_found)

    def fail(self, effect: Effect, not_found: frozenset[int] = frozenset()) -> NoReturn:
        """Raise the error of a failed reply."""
        if 200 <= self.status < 300 and not self.spoken:
            kind = ProtocolError if effect is Effect.READ else OutcomeUnknownError
            raise kind(
                f"the reply is not slurmrestd's JSON but {self.excerpt!r}",
                endpoint=self.endpoint,
                http_status=self.status,
            )
        first = next((error for error in self.errors if error.number), self.errors[0] if self.errors else None)
        raise error_for(
            first.number if first else None,
            self.status,
            effect,
            endpoint=self.endpoint,
            description=first.description if first else self.excerpt,
            source=first.source if first else "",
            spoken=self.spoken,
            not_found=not_found,
        )


def open_envelope(endpoint: str, status: int, content_type: str, body: bytes) -> Envelope:
    """Parse a reply. Never raises: `spoken` is False for a body that cannot be parsed."""
    if status == 304:
        return Envelope(endpoint, status, {})
    excerpt = body[:200].decode("utf-8", "replace").strip()
    if not body or ("json" not in content_type and body.lstrip()[:1] != b"{"):
        return Envelope(endpoint, status, {}, spoken=False, excerpt=excerpt)
    try:
        payload = _read(body)
    except (ValueError, RecursionError):
        return Envelope(endpoint, status, {}, spoken=False, excerpt=excerpt)
    if not isinstance(payload, dict):
        return Envelope(endpoint, status, {}, spoken=False, excerpt=excerpt)
    return Envelope(endpoint, status, payload, _errors(payload), _warnings(payload))


def _read(body: bytes) -> object:
    # Both read NaN and Infinity, which some releases send; names may hold bytes that are not UTF-8.
    words = body.decode("utf-8", "replace")
    # The first is faster and never releases the interpreter; the second lets other threads run at each object.
    return from_json(words) if len(body) <= LARGE_BYTES else json.loads(words, object_hook=_as_it_is)


def _as_it_is(found: dict[str, object]) -> dict[str, object]:
    return found


def _errors(payload: Raw) -> tuple[WireError, ...]:
    entries = payload.get("errors")
    if not isinstance(entries, list):
        return ()
    return tuple(
        WireError(
            decode_integer(entry.get("error_number")) or 0,
            _words(entry),
            text(entry, "source"),
        )
        for entry in entries
        if isinstance(entry, dict)
    )


def _words(entry: Raw) -> str:
    """Return the text of an error: `description` names the request, `error` is the number as a text."""
    what, why = text(entry, "description"), text(entry, "error")
    if not why or why == "No error" or why in what:
        return what
    return f"{what}: {why}" if what else why


def _warnings(payload: Raw) -> tuple[SlurmWarning, ...]:
    entries = payload.get("warnings")
    if not isinstance(entries, list):
        return ()
    return tuple(
        SlurmWarning(text(entry, "description"), text(entry, "source")) for entry in entries if isinstance(entry, dict)
    )
