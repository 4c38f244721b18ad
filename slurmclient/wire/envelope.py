"""The frame of every slurmrestd reply: ``errors``, ``warnings``, ``meta`` and the payload beside them.

HTTP 200 does not mean success: errors may come with any status, and numbers, not statuses, tell what happened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from pydantic_core import from_json

from slurmclient.capabilities import Release
from slurmclient.classification import Effect, error_for
from slurmclient.errors import OutcomeUnknownError, ProtocolError
from slurmclient.models.answer import SlurmWarning
from slurmclient.number import decode_integer
from slurmclient.wire.fields import Raw, mapping, text

LARGE_BYTES = 200_000
"""A reply of more is read in a thread: five thousand nodes would hold the loop up for a tenth of a second."""


@dataclass(frozen=True, slots=True)
class WireError:
    """One entry of ``errors``.

    Attributes:
        number: Slurm's; 0 if none was given.
        description: words.
        source: function.
    """

    number: int
    description: str
    source: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A reply taken apart, errors not yet raised.

    Attributes:
        endpoint: method and path of the request.
        status: HTTP status.
        payload: the whole JSON object; empty for a reply that has none.
        errors: as sent.
        warnings: as sent.
        spoken: whether the body was slurmrestd's JSON.
        excerpt: beginning of a body that was not.
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
        """The answer to an ``update_time`` after which nothing changed."""
        return self.status == 304

    @property
    def unrouted(self) -> bool:
        """Nothing is bound to the path in this version: slurmrestd says so in plain text, not in JSON."""
        return self.status == 404 and not self.spoken

    @property
    def failed(self) -> bool:
        """An error is reported, by status or by entry."""
        return bool(self.errors) or not (200 <= self.status < 300 or self.unchanged)

    @property
    def number(self) -> int:
        """Slurm's error number: the first that is not 0; 0 if there is none."""
        return next((error.number for error in self.errors if error.number), 0)

    @property
    def release(self) -> Release | None:
        """The release of slurmrestd that answered, None if the reply does not say."""
        slurm = mapping(mapping(self.payload, "meta"), "slurm")
        version = mapping(slurm, "version")
        year, month, micro = (decode_integer(version.get(part)) for part in ("major", "minor", "micro"))
        if year is not None and month is not None and micro is not None:
            return Release(year, month, micro)
        release = text(slurm, "release")
        return Release.parse(release) if release else None

    @property
    def cluster(self) -> str:
        """The cluster's name, empty if the reply does not say."""
        return text(mapping(mapping(self.payload, "meta"), "slurm"), "cluster")

    def free(self) -> None:
        """Let go of what the payload lists, one entry after the other: to free all in one go keeps others waiting."""
        for entries in self.payload.values():
            if isinstance(entries, list):
                while entries:
                    entries.pop()

    def with_list(self, key: str, entries: Sequence[Raw]) -> Envelope:
        """The same with this list under this key."""
        return replace(self, payload={**self.payload, key: entries})

    def check(self, effect: Effect, not_found: frozenset[int] = frozenset()) -> None:
        """Raise what the reply reports.

        Args:
            effect: what the request would have done.
            not_found: numbers that mean "no such object" for this request.

        Raises:
            SlurmError: of the class that ``classification`` gives.
        """
        if self.failed or not self.spoken:
            self.fail(effect, not_found)

    def fail(self, effect: Effect, not_found: frozenset[int] = frozenset()) -> NoReturn:
        """Raise the error of a reply that is one."""
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
    """Take a reply apart. Never raises: what cannot be understood is told by ``spoken``."""
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
    # The first is quicker and holds the interpreter all the while; the second lets others run at each object.
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
    """What failed, and why: ``description`` names the request, ``error`` is the number in words."""
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
