"""Parse JSON as the API server accepts it, so that no raw field of one object hides the other objects of a list.

The API server stores raw fields, such as the parameters of a ResourceClaim, as their author wrote them. They may be
nested 10,000 levels deep, and have halves of surrogate pairs or bytes that are no UTF-8: the parser rejects all of
these. Go's clients read the latter two as U+FFFD.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

DEEPEST = 200
"""Levels that the parser accepts. Typed fields of Kubernetes are nested 30 levels deep at most."""

TOO_DEEP = "nested too deeply"
"""Stands for each value below that."""

_SURROGATE = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A half of a pair; or, as a group, a whole pair and an escaped backslash, which are kept."""

_BRACKETS = re.compile(rb'(?:[^\[\]{}"]++|"(?:[^"\\]++|\\.?)*+(?:"|\Z))*+([\[{]+|[\]}]+|\Z)', re.DOTALL)
"""Everything up to the next brackets, strings included, and all that open or close there. It matches anywhere."""


def parse_json(data: bytes | str) -> Any:
    """Return the value. Raises ValueError for what is no JSON.

    What has to be repaired is rejected too, unless it has the fields of an object, a list or a change of Kubernetes.
    """
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        return from_json(text)
    except ValueError:
        if b'"metadata"' not in text:  # spares the work
            raise
        value = _parse_repaired(text)
        if not isinstance(value, dict) or not {"metadata", "object"} & value.keys():
            raise
        return value


def _parse_repaired(data: bytes) -> Any:
    text = data.decode("utf-8", "replace").encode()
    text = _SURROGATE.sub(lambda found: found[1] or rb"\ufffd", text)
    try:
        return from_json(text)
    except ValueError:
        return from_json(_shallow(text))


def _shallow(text: bytes) -> bytes:
    """Return the text with TOO_DEEP for each value that is nested too deeply, in one pass."""
    kept: list[bytes] = []
    depth = copied = 0
    for part in _BRACKETS.finditer(text):
        start, end = part.span(1)
        if text[start:end][:1] in {b"[", b"{"}:
            if depth <= DEEPEST < depth + end - start:
                kept.append(text[copied : start + DEEPEST - depth])
            depth += end - start
        else:
            if depth > DEEPEST >= depth - (end - start):
                kept.append(f'"{TOO_DEEP}"'.encode())
                copied = start + depth - DEEPEST
            depth -= end - start
    kept.append(text[copied:])
    return b"".join(kept)
