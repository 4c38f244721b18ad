"""Reads the fields of JSON objects of Kubernetes one by one, and says where a value is not of its form.

Tolerant where the API is: unknown fields are ignored, `null` stands for an absent value (Go writes nil slices and maps
so), numbers may be strings and strings numbers. Each field costs time in proportion to its own size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from extender.kube.wire.json_text import parse_json


class MalformedObject(ValueError):
    """A JSON object that is not of the form its kind has. The text names the field that is wrong and its value."""

    def __init__(self, fault: str, value: str = "") -> None:
        super().__init__(f"{fault}, got {value}" if value else fault)
        self.fault = fault
        """The text without the value, which may be a secret."""


class Unreadable(ValueError):
    """Bytes that are not what the API server sends there at all."""


MOST = 100
"""Entries of a list or map of a Pod that are looked at for each node. A Pod may have 250,000 tolerations (a request of
3 MB), each of which would be compared with the taints of each node."""

LARGEST = 2**63
"""Go's clients send whole numbers below it."""

LONGEST_INSTANT = 64
"""Characters of a time."""

SHOWN = 80
"""Characters of a wrong value that are shown."""

_TEXT = frozenset({str})
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


class Fields:
    """The fields of one JSON object. Each method raises MalformedObject where the value is not of the wanted form."""

    __slots__ = ("_above", "_at", "_given", "_name")

    def __init__(self, name: str, given: object, above: Fields | None = None, at: int | None = None) -> None:
        """Read `given`, which is field `name` of the object `above`, or entry `at` of that field.

        Without `above` it is the whole object, and `name` its kind.
        """
        self._name = name
        self._above = above
        self._at = at
        if type(given) is not dict and not isinstance(given, Mapping):
            raise MalformedObject(f"{self._place()}: it must be a map", _shortened(given))
        self._given: Mapping[str, Any] = given

    def __contains__(self, key: str) -> bool:
        """Return whether the field is given."""
        return self._given.get(key) is not None

    def text(self, key: str) -> str:
        """Return text, "" where it is absent; a number becomes text."""
        value = self._given.get(key)
        if type(value) is str:
            return value
        return "" if value is None else self._as_text(key, value)

    def required_text(self, key: str) -> str:
        """Return text that may not be absent."""
        if key not in self:
            raise self._fault(key, "given", None)
        return self.text(key)

    def number(self, key: str) -> int | None:
        """Return a whole number of 64 bits; `None` where it is absent."""
        value = self._given.get(key)
        if value is None:
            return None
        if (isinstance(value, str) and _NUMBER.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        if type(value) is not int or not -LARGEST <= value < LARGEST:
            raise self._fault(key, "a whole number of 64 bits", value)
        return value

    def flag(self, key: str) -> bool:
        """Return true or false, false where it is absent."""
        value = self._given.get(key)
        if value is None or value is False:
            return False
        if value is not True:
            raise self._fault(key, "true or false", value)
        return True

    def instant(self, key: str) -> float | None:
        """Return a time as seconds since the epoch; `None` where it is absent. One without a zone is in UTC."""
        value = self._given.get(key)
        if value is None:
            return None
        try:
            if not isinstance(value, str) or len(value) > LONGEST_INSTANT:
                raise self._fault(key, "a time", value)
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise self._fault(key, "a time", value) from error
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()

    def inner(self, key: str) -> Fields:
        """Return the fields of an object within this one; one that is absent has none."""
        value = self._given.get(key)
        return NOTHING if value is None else Fields(key, value, self)

    def map(self, key: str) -> Mapping[str, Any]:
        """Return an object within this one as it is; it may not be absent."""
        return Fields(key, self._given.get(key), self)._given

    def maps(self, key: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects of a list as they are."""
        return [one._given for one in self.each(key)]

    def value(self, key: str) -> object:
        """Return the value as it is, of any form."""
        return self._given.get(key)

    def each(self, key: str, most: int | None = None) -> Sequence[Fields]:
        """Return the fields of each object of a list, of the first `most` and one more if `most` is given."""
        found = self._given.get(key)
        if found is None:
            return ()
        found = self._list(key, found)
        if most is not None and len(found) > most:
            found = found[: most + 1]
        return [Fields(key, one, self, at) for at, one in enumerate(found)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of text."""
        found = self._list(key, self._given.get(key))
        return tuple([one if type(one) is str else self._as_text(key, one) for one in found])

    def strings(self, key: str) -> dict[str, str]:
        """Return a copy of a map of text."""
        found = self._given.get(key)
        if found is None:
            return {}
        if (type(found) is not dict and not isinstance(found, Mapping)) or not _TEXT.issuperset(map(type, found)):
            raise self._fault(key, "a map of text", found)
        if _TEXT.issuperset(map(type, found.values())):
            return dict(found)
        there = Fields(key, found, self)
        return {name: there.required_text(name) for name in found}

    def count(self, key: str) -> int:
        """Return how many entries a list or a map has."""
        found = self._given.get(key)
        if found is None:
            return 0
        return len(found) if type(found) is dict or isinstance(found, Mapping) else len(self._list(key, found))

    def given(self) -> list[str]:
        """Return the names of the fields that are given."""
        return [name for name, value in self._given.items() if value is not None]

    def _list(self, key: str, found: Any) -> Sequence[Any]:
        if type(found) is list:
            return found
        if found is None:
            return ()
        if not isinstance(found, (list, tuple)):
            raise self._fault(key, "a list", found)
        return found

    def _as_text(self, key: str, value: object) -> str:
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(ValueError):  # Python writes no number of more than 4,300 digits
                return str(value)
        raise self._fault(key, "text", value)

    def _fault(self, key: str, wanted: str, value: object) -> MalformedObject:
        return MalformedObject(f"{self._place(key)}: it must be {wanted}", _shortened(value))

    def _place(self, key: str = "") -> str:
        parts = [key] if key else []
        one = self
        while one._above is not None:
            parts += [one._name] if one._at is None else [str(one._at), one._name]
            one = one._above
        return f"not a {one._name}: {'.'.join(reversed(parts)) or 'the whole'}"


NOTHING = Fields("object", {})
"""The fields of an object that is absent."""


def parsed(kind: str, data: bytes | str) -> Fields:
    """Return the fields of a whole object. Raises MalformedObject where the text is no JSON object."""
    try:
        value = parse_json(data)
    except ValueError as error:
        raise MalformedObject(f"not a {kind}: {error}") from error
    return Fields(kind, value)


def _shortened(value: object) -> str:
    if isinstance(value, str | list | tuple):
        value = value[:SHOWN]
    elif isinstance(value, Mapping):
        value = dict(islice(value.items(), SHOWN))
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of very many digits"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
