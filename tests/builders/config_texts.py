"""Reads one text as the value of each key of the configuration and of the policy, without YAML and JSON.

The keys come from the models: a new one is measured by `growth` as soon as it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from extender.config.document import ExtenderConfiguration
from extender.config.faults import Origin
from extender.config.load import Overrides, held_to
from extender.config.pod_policy import PodPolicyDocument
from extender.config.schema_keys import CONFIGURATION, EACH, POLICY, Key, KeyBook
from extender.config.values import Group
from extender.domain.wellknown import CONFIG_API_VERSION

NO_TEXT = frozenset({"integer", "number", "boolean"})
"""Types of which a document takes no text: no function of the extender reads it."""

Documents = tuple[tuple[type[Group], KeyBook, Mapping[str, Any]], ...]

DOCUMENTS: Documents = (
    (
        ExtenderConfiguration,
        CONFIGURATION,
        {"apiVersion": CONFIG_API_VERSION, "kind": "ExtenderConfiguration", "slurm": {"token": "hush"}},
    ),
    (PodPolicyDocument, POLICY, {"apiVersion": CONFIG_API_VERSION, "kind": "PodPolicy"}),
)


def readers() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield a reader for each key that takes text, and for each place in a list or map of texts."""
    for model, book, rest in DOCUMENTS:
        yield f"{rest['kind']}: a fault", partial(_read_whole, model, book, rest)
        for key in text_keys(book):
            for place, value in _values(key):
                read = partial(_read, model, book, rest, key, value)
                yield f"{rest['kind']}: {key.dotted}{place}", read


def text_keys(book: KeyBook) -> Iterator[Key]:
    """Yield the keys of a document that may hold text."""
    for key in book.keys.values():
        if not key.group and _types(key) - NO_TEXT:
            yield key


def _types(key: Key) -> set[str]:
    """Return the types of its values; "any" for one that its schema does not name."""
    found: set[str] = set()
    for schema in key.schemas:
        named = schema.get("type", "any")
        found.update([named] if isinstance(named, str) else named)
    return found


def _values(key: Key) -> Iterator[tuple[str, Callable[[str], object]]]:
    types = _types(key) - NO_TEXT
    if types - {"array", "object"}:
        yield "", lambda text: text
    if "array" in types:
        yield "[]", lambda text: [text]
    if "object" in types:
        yield "{key}", lambda text: {text: "1"}
        yield "{value}", lambda text: {"a": text}


def _read(
    model: type[Group],
    book: KeyBook,
    rest: Mapping[str, Any],
    key: Key,
    value: Callable[[str], object],
    text: str,
) -> object:
    found: Any = value(text)
    for depth in range(len(key.path) - 1, 0, -1):
        name = key.path[depth]
        if name != EACH:
            found = {name: found}
        elif any("items" in schema for schema in book.keys[key.path[:depth]].schemas):
            found = [found]
        else:
            found = {"a": found}
    first = key.path[0]
    if isinstance(found, dict) and isinstance(rest.get(first), dict):
        found = rest[first] | found
    return model.model_validate({**rest, first: found}, by_alias=True, by_name=False)


def _read_whole(model: type[Group], book: KeyBook, rest: Mapping[str, Any], text: str) -> object:
    """Read a document whose kind is the text: the fault that says so is written as for a user."""
    return held_to(model, book, {**rest, "kind": text}, Origin("c.yaml"), Overrides())
