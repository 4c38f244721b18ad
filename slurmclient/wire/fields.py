"""Read single JSON values, and lists of which some entries may be unreadable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from slurmclient.errors import ProtocolError
from slurmclient.hostlist import expand
from slurmclient.models.listing import Listing, UnreadableEntry
from slurmclient.number import decode_integer, decode_time
from slurmclient.tres import Gres, TresError, parse_gres, parse_tres

T = TypeVar("T")
Raw = Mapping[str, object]

_NOTHING: Raw = {}


class ListEntry(dict[str, object]):
    """Hold one object of a large list, and its parsed form in `item`. The object is empty if `item` was cached."""

    __slots__ = ("digest", "item")

    def __init__(self, digest: bytes, raw: dict[str, object], item: object = None) -> None:
        super().__init__(raw)
        self.digest = digest
        self.item = item


def text(raw: Raw, key: str) -> str:
    """Return a text. Null, an empty object and a missing key give an empty one: releases differ in this."""
    value = raw.get(key)
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def flag(raw: Raw, key: str) -> bool:
    """Return a boolean; missing is False."""
    return raw.get(key) is True


def integer(raw: Raw, key: str, default: int = 0) -> int:
    """Return a whole number, plain or optional."""
    value = decode_integer(raw.get(key))
    return default if value is None else value


def mapping(raw: Raw, key: str) -> Raw:
    """Return a nested object; anything else is an empty one."""
    value = raw.get(key)
    return value if isinstance(value, dict) else _NOTHING


def words(raw: Raw, key: str) -> tuple[str, ...]:
    """Return an array of words; a text counts as comma-separated ones."""
    value = raw.get(key)
    if isinstance(value, str):
        return tuple(word for word in (part.strip() for part in value.split(",")) if word)
    if isinstance(value, list):
        return tuple(word for word in value if isinstance(word, str) and word)
    return ()


def names(raw: Raw, key: str) -> tuple[str, ...]:
    """Return the node names of a hostlist; arrays of hostlists are joined.

    Raises:
        HostlistError: the text is not a hostlist.
    """
    value = raw.get(key)
    if isinstance(value, list):
        return tuple(name for part in value if isinstance(part, str) for name in expand(part))
    return expand(value) if isinstance(value, str) else ()


def tres(raw: Raw, key: str) -> dict[str, int]:
    """Return the counts of a TRES string; an unreadable one is empty, since no decision depends on it alone."""
    try:
        return parse_tres(text(raw, key))
    except TresError:
        return {}


def gres(raw: Raw, key: str) -> tuple[Gres, ...]:
    """Return the resources of a GRES string; an unreadable one is empty."""
    try:
        return parse_gres(text(raw, key))
    except TresError:
        return ()


def listing(
    payload: Raw, key: str, read: Callable[[Raw], T], *, name: Callable[[Raw], str], endpoint: str
) -> Listing[T]:
    """Read the list of a reply; report entries that cannot be read in `unreadable`.

    Raises:
        ProtocolError: the list itself is missing; that is not the same as an empty list.
    """
    entries = payload.get(key)
    if not isinstance(entries, list):
        raise ProtocolError(f"the reply has no list {key!r}", endpoint=endpoint)
    items: list[T] = []
    unreadable: list[UnreadableEntry] = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            unreadable.append(UnreadableEntry(position, "", f"not an object but of type {type(entry).__name__}"))
            continue
        if isinstance(entry, ListEntry) and entry.item is not None:
            items.append(cast(T, entry.item))  # read by the same reader before
            continue
        try:
            item = read(entry)
        except (ValueError, TypeError, KeyError, ProtocolError) as error:
            unreadable.append(UnreadableEntry(position, name(entry), f"{type(error).__name__}: {error}"))
            continue
        items.append(item)
        if isinstance(entry, ListEntry):
            entry.item = item
    return Listing(tuple(items), tuple(unreadable), decode_time(payload.get("last_update")))


def require_text(raw: Raw, key: str) -> str:
    """Return a text that the object cannot be without.

    Raises:
        ProtocolError: it is missing or empty.
    """
    value = text(raw, key)
    if not value:
        raise ProtocolError(f"{key} is missing")
    return value


def require_id(raw: Raw, key: str) -> int:
    """Return an id greater than 0.

    Raises:
        ProtocolError: it is missing, 0 or not a number.
    """
    value = decode_integer(raw.get(key))
    if value is None or value <= 0:
        said = raw.get(key)
        shown = repr(said)[:80] if isinstance(said, str | int | float) else f"of type {type(said).__name__}"
        raise ProtocolError(f"{key} is {shown}, not an id")
    return value
