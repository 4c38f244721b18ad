"""What a large list said before, entry by entry: one whose text has not changed is not read again.

Five thousand nodes are 17 MB of text, of which little changes from one poll to the next. slurmrestd writes the entries
of a list alike, each of them beginning with the same key, so that the text can be cut where they begin without being
read (`data_parser` plugins, fields in the order of the parser). A text that cannot be cut so is read as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from pydantic_core import from_json

from slurmclient.wire.entry import ListEntry
from slurmclient.wire.envelope import Envelope, open_envelope

_AFTER = re.compile(r"\s*\]")


@dataclass(frozen=True, slots=True)
class _Cut:
    rest: bytes
    """The reply with an empty list."""

    entries: list[bytes]


class Recall:
    """Of the list under one key, in the replies to one request."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._first = re.compile(rb'"%s"\s*:\s*\[\s*(\{\s*"[^"\\]*"\s*:)' % re.escape(key.encode()))
        self._items: dict[bytes, object] = {}

    def open(self, endpoint: str, status: int, content_type: str, body: bytes) -> Envelope:
        """Take a reply apart, like `open_envelope`; what is known of its list is not read."""
        try:
            cut = self._cut(body)
            entries = None if cut is None else list(self._entries(cut.entries))
        except (ValueError, RecursionError):
            cut = entries = None
        if cut is None or entries is None:
            return open_envelope(endpoint, status, content_type, body)
        envelope = open_envelope(endpoint, status, content_type, cut.rest)
        if envelope.payload.get(self._key) != []:
            return open_envelope(endpoint, status, content_type, body)
        return envelope.with_list(self._key, entries)

    def keep(self, envelope: Envelope) -> None:
        """Remember what the entries were read as, and nothing else."""
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

    def _cut(self, body: bytes) -> _Cut | None:
        """Raises ValueError where an entry does not end as it should."""
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
        return _Cut(body[:first] + last[end:].encode(), entries)
