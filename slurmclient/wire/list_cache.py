"""Parse only those entries of a large list whose text has changed since the last reply.

Five thousand nodes are 17 MB of text, of which little changes from one poll to the next. slurmrestd writes all entries
of a list in one form, each beginning with the same key, so that the text can be split where they begin without being
parsed (`data_parser` plugins, fields in the order of the parser). A text that cannot be split is parsed as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from pydantic_core import from_json

from slurmclient.wire.envelope import Envelope, open_envelope
from slurmclient.wire.fields import ListEntry

_AFTER = re.compile(r"\s*\]")


@dataclass(frozen=True, slots=True)
class _SplitReply:
    rest: bytes
    """The reply, with an empty list."""

    entries: list[bytes]


class ListCache:
    """Cache the parsed entries of the list under one key, in the replies to one request."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._first = re.compile(rb'"%s"\s*:\s*\[\s*(\{\s*"[^"\\]*"\s*:)' % re.escape(key.encode()))
        self._items: dict[bytes, object] = {}

    def open(self, endpoint: str, status: int, content_type: str, body: bytes) -> Envelope:
        """Parse a reply as `open_envelope` does, except for the entries that are cached."""
        try:
            split = self._split(body)
            entries = None if split is None else list(self._entries(split.entries))
        except (ValueError, RecursionError):
            split = entries = None
        if split is None or entries is None:
            return open_envelope(endpoint, status, content_type, body)
        envelope = open_envelope(endpoint, status, content_type, split.rest)
        if envelope.payload.get(self._key) != []:
            return open_envelope(endpoint, status, content_type, body)
        return envelope.with_list(self._key, entries)

    def keep(self, envelope: Envelope) -> None:
        """Cache the entries of this reply; drop all others."""
        entries = envelope.payload.get(self._key)
        found = entries if isinstance(entries, list) else []
        self._items = {one.digest: one.item for one in found if isinstance(one, ListEntry) and one.item is not None}

    def _entries(self, texts: list[bytes]) -> Iterator[ListEntry]:
        for text in texts:
            digest = blake2b(text, digest_size=16).digest()
            if (item := self._items.get(digest)) is not None:
                yield ListEntry(digest, {}, item)
                continue
            yield ListEntry(digest, from_json(text.decode("utf-8", "replace")))

    def _split(self, body: bytes) -> _SplitReply | None:
        """Split the list into its entries. Raises ValueError if an entry does not end as expected."""
        found = self._first.search(body)
        if found is None:
            return None
        first, begins = found.start(1), found.group(1)
        entries: list[bytes] = []
        at = first
        while (following := body.find(begins, at + 1)) >= 0:
            text = body[at:following].rstrip()
            if not text.endswith(b","):
                raise ValueError("no comma between two entries")
            entries.append(text[:-1])
            at = following
        last = body[at:].decode("utf-8", "replace")
        end = json.JSONDecoder().raw_decode(last)[1]
        if not _AFTER.match(last, end):
            raise ValueError("the list does not end after its last entry")
        entries.append(last[:end].encode())
        return _SplitReply(body[:first] + last[end:].encode(), entries)
