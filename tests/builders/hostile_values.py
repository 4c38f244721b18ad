"""An answer with one field replaced by a value that has no business there, for every field and every such value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

Path = tuple[str | int, ...]

DEPTH = 100_000

VALUES: dict[str, bytes] = {
    "null": b"null",
    "true": b"true",
    "-1": b"-1",
    "0": b"0",
    "2**80": str(2**80).encode(),
    "an integer of 400 digits": b"9" * 400,
    "an integer of 5,000 digits": b"9" * 5000,
    "1e308": b"1e308",
    "1e999": b"1e999",
    "NaN": b"NaN",
    "-Infinity": b"-Infinity",
    "an empty text": b'""',
    "a long text": b'"' + b"x" * 5_000 + b'"',
    "digits as text": b'"' + b"9" * 5000 + b'"',
    "digits of another script": '"٣٣"'.encode(),
    "zero bytes and half a character": b'"a\\u0000b\\ud800"',
    "bad UTF-8": b'"\xff\xfe"',
    "a list": b"[]",
    "an object": b"{}",
    "a list of odd things": b'[null, -1, [[]], {"a": {}}, "x", 1e308]',
    "nested 150 deep": b"[" * 150 + b"]" * 150,
    "nested 900 deep": b'{"a":' * 900 + b"1" + b"}" * 900,
    "a number without a number": b'{"set": true, "infinite": false, "number": {"set": true}}',
    "a number of 400 digits": b'{"set": true, "infinite": false, "number": ' + b"9" * 400 + b"}",
    "a number that is not finite": b'{"set": true, "infinite": false, "number": 1e999}',
}

BODIES: dict[str, bytes] = {
    "nothing": b"",
    "lists without end": b"[" * DEPTH,
    "lists in lists": b"[" * DEPTH + b"]" * DEPTH,
    "objects in objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "an integer": b"9" * 300_000,
    "a text": b'"' + b"x" * 300_000 + b'"',
    "bad UTF-8": b"\xff\xfe\x00" * 100_000,
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "NaN": b"NaN",
    "null": b"null",
    "half an object": b'{"items": [{"metadata": ',
    "zero bytes": b"\0" * 300_000,
    "white space": b" " * 300_000,
}

_MARK = "@@replaced@@"


FEW = (
    "null", "-1", "2**80", "an integer of 5,000 digits", "a long text", "digits as text", "a list of odd things",
    "an object", "nested 150 deep", "a number of 400 digits",
)  # fmt: skip
"""For answers of which others of the same kind get all values."""


def with_each_field_replaced(answer: Any, values: Iterable[str] = VALUES) -> Iterator[tuple[Path, str, bytes]]:
    """Yield each place in the answer, its replacement, and the text of the changed answer."""
    for path in paths_of(answer):
        text = json.dumps(_replaced(answer, path, _MARK)).encode()
        before, _, after = text.partition(f'"{_MARK}"'.encode())
        for name in values:
            yield path, name, before + VALUES[name] + after


def with_each_key_twice(answer: Any) -> Iterator[tuple[Path, bytes]]:
    """Yield the answer with each key of each object in turn given twice, the second time with null."""
    for path in paths_of(answer):
        if path and isinstance(path[-1], str):
            mark = json.dumps(_replaced(answer, path, _MARK)).encode()
            value = json.dumps(_at(answer, path)).encode()
            key = json.dumps(path[-1]).encode()
            yield path, mark.replace(f'"{_MARK}"'.encode(), value + b", " + key + b": null")


def paths_of(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every value within; of lists only the first entry."""
    yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from paths_of(each, (*at, key))
    elif isinstance(value, list) and value:
        yield from paths_of(value[0], (*at, 0))


def _replaced(value: Any, path: Path, by: Any) -> Any:
    if not path:
        return by
    first, *rest = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = _replaced(value[first], tuple(rest), by)
    return copy


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def numbers_of(value: object) -> Iterator[float]:
    """Yield every number in a value that was read, but for `raw`, which is kept as it was sent."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield math.inf if isinstance(value, float) and math.isnan(value) else value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.name != "raw":
                yield from numbers_of(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from numbers_of(key)
            yield from numbers_of(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from numbers_of(each)
    elif isinstance(value, datetime):
        yield value.timestamp()
