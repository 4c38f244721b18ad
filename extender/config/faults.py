"""Describes all faults of a configuration at once, for the administrator who wrote it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from extender.config.schema_keys import CONFIGURATION, Key, KeyBook, keys
from extender.config.yaml_text import Location

VALUE_LIMIT = 60
_USER = re.compile(r"//[^/]*@")
"""User and password in an address."""


class ConfigError(Exception):
    """A configuration cannot be used. `faults` are all the reasons, a line each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Origin:
    """The places from which the values of a document came."""

    file: str = ""
    lines: Mapping[Location, int] | None = None
    overrides: Mapping[Location, str] | None = None
    """Place -> the flag or variable that set it."""

    def line(self, location: Location) -> int:
        """Return the line of the nearest place that has one, 0 for none."""
        ends = range(len(location), -1, -1)
        return next((self.lines[location[:end]] for end in ends if self.lines and location[:end] in self.lines), 0)

    def where(self, location: Location) -> str:
        """Return the flag or variable that set it, or the file and line; "" where it was not set."""
        for end in range(len(location), 0, -1):
            if self.overrides and location[:end] in self.overrides:
                return self.overrides[location[:end]]
        if not self.file:
            return ""
        line = self.line(location)
        return f"{self.file}, line {line}" if line else self.file


def fault_text(error: ErrorDetails, origin: Origin, book: KeyBook = CONFIGURATION) -> str:
    """Return one line: where, which key, what is wrong, which value, what is allowed."""
    location = _known_part(tuple(error["loc"]), error["type"], book)
    dotted = _dotted(location)
    where = origin.where(location)
    sentence = _fault_sentence(error, location, dotted, book)
    return f"{where}: {sentence}" if where else sentence


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `; did you mean X?`, or "" where nothing is near."""
    lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("_", ""), list(lower), n=1, cutoff=0.6)
    return f"; did you mean {lower[found[0]]}?" if found else ""


def _fault_sentence(error: ErrorDetails, location: Location, dotted: str, book: KeyBook) -> str:
    kind = error["type"]
    key = book.key_at(location)
    if kind == "extra_forbidden":
        group = book.key_at(location[:-1])
        known = book.children(group.path if group else ())
        names = ", ".join(known)
        return f"{dotted}: unknown key{nearest(str(location[-1]), known) or f'; the keys here are {names}'}"
    allowed = book.allowed_at(location)
    if kind == "missing":
        return f"{dotted}: missing; it is required" + (f": {allowed}" if key and not key.group else "")
    problem = _problem(error, key)
    value = "" if key is not None and key.secret else _shown(error.get("input"))
    sentence = f"{dotted}: {value} {problem}" if value else f"{dotted or 'the document'}: {problem}"
    # A group's own rules say themselves what is allowed.
    whole = error["type"] == "value_error" and (key is None or key.group)
    return sentence if whole or "must" in problem or not allowed else f"{sentence}; it must be {allowed}"


_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


def _problem(error: ErrorDetails, key: Key | None) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if kind in _BOUNDS:
        bound, word = _BOUNDS[kind]
        return f"is out of bounds: it must be {word} {context[bound]:.10g}{' s' if key and key.duration else ''}"
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    if kind in {"string_too_short", "too_short"}:
        return "is empty: remove it, or set a value"
    if kind == "string_type" and isinstance(error.get("input"), (int, float, bool)):
        return "is not text (put it in quotes)"
    return "is not allowed"


def _shown(value: Any) -> str:
    """Return a value as it may be printed: single ones and short lists. Groups are not: they may hold a secret."""
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value)):
        return ""
    text = _USER.sub("//…@", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def _known_part(location: Location, kind: str, book: KeyBook) -> Location:
    """Return the location without what pydantic adds to it: the names of the members of a union."""
    if kind == "extra_forbidden":
        return location
    for end in range(len(location), 0, -1):
        found = book.key_at(location[:end])
        if found is not None and len(found.path) >= end - 1:
            return location[:end]
    return location


def _dotted(location: Location) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def unknown_path(path: str) -> str:
    """Return the fault of a dotted path that names no key."""
    known = [key.dotted for key in keys().values()]
    if path in known:
        return f"{path}: it holds keys itself, and cannot be set at once"
    return f"{path}: unknown key{nearest(path, known)}"
