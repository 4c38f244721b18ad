"""Every key of a document, walked from its JSON schema: for faults, for the environment, for the reference pages.

The keys and their defaults are declared in `document` and in the file of each group (`jobs`, `limits`, `nodes`, …).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from extender.config.document import ExtenderConfiguration
from extender.config.domain_groups import DocumentSchema
from extender.config.pod_policy import PodPolicyDocument
from extender.config.values import ALLOWED_BY_FORMAT

KeyPath = tuple[str, ...]

EACH = "*"
"""Stands in a path for the index of a list or the free key of a map."""

_UNITS = {"duration": " s", "time-limit": " min"}
"""Units of the bounds of a value, by its `format`."""

_PLAIN = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a map",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `group`: it holds keys itself. `schemas` are its JSON schema's alternatives, without null."""

    path: KeyPath
    description: str
    group: bool
    required: bool
    nullable: bool
    schemas: tuple[Mapping[str, Any], ...]

    @property
    def dotted(self) -> str:
        """Return `slurm.killWait`."""
        return ".".join(self.path).replace(f".{EACH}", "[]")

    @property
    def secret(self) -> bool:
        """Return whether the value of the key is secret, and never shown."""
        return any(schema.get("format") == "password" for schema in self.schemas)

    @property
    def duration(self) -> bool:
        """Return whether the value is a duration in seconds."""
        return any(schema.get("format") == "duration" for schema in self.schemas)

    @property
    def text(self) -> bool:
        """Return whether the value is text, even one that reads as a number or a flag."""
        return all(schema.get("type") == "string" for schema in self.schemas)

    @property
    def allowed(self) -> str:
        """Return the allowed values in words."""
        return " or ".join(dict.fromkeys(_allowed(schema) for schema in self.schemas))


class KeyBook:
    """The keys of one kind of document."""

    def __init__(self, model: type[BaseModel]) -> None:
        self._model = model

    @cached_property
    def json_schema(self) -> Mapping[str, Any]:
        """Return the JSON schema of the document."""
        schema = self._model.model_json_schema(schema_generator=DocumentSchema)
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}

    @cached_property
    def keys(self) -> Mapping[KeyPath, Key]:
        """Return every key by its path, groups before what they hold, in the order of the document."""
        return {key.path: key for key in self._walk((), self.json_schema)}

    def key_at(self, location: Sequence[str | int]) -> Key | None:
        """Return the key to which a place in a document belongs; the nearest one above it that is known."""
        path: KeyPath = ()
        found = None
        for part in location:
            known = [step for step in (str(part), EACH) if (*path, step) in self.keys]
            if not known:
                break
            path = (*path, known[0])
            found = self.keys[path]
        return found

    def allowed_at(self, location: Sequence[str | int]) -> str:
        """Return the allowed values at a place in words; "" where they are not known."""
        key = self.key_at(location)
        if key is None:
            return ""
        if len(key.path) == len(location):
            return key.allowed
        parts = [part for schema in key.schemas if (part := schema.get("items") or schema.get("additionalProperties"))]
        return " or ".join(_allowed(self._resolved(part)) for part in parts if isinstance(part, dict))

    def children(self, path: KeyPath) -> list[str]:
        """Return the names of the keys directly under `path`, for a group."""
        return [key.path[-1] for key in self.keys.values() if key.path[:-1] == path and key.path[-1] != EACH]

    def _walk(self, path: KeyPath, schema: Mapping[str, Any]) -> Iterator[Key]:
        for name, value in schema.get("properties", {}).items():
            yield from self._key((*path, name), value, name in schema.get("required", ()))

    def _key(self, path: KeyPath, value: Mapping[str, Any], required: bool) -> Iterator[Key]:
        alternatives = [self._resolved(one) for one in value.get("anyOf", (value,))]
        schemas = tuple(self._spelt_out(one) for one in alternatives if one.get("type") != "null")
        inner = [*schemas]
        nested = [one for one in inner if "properties" in one]
        items = [self._resolved(one["items"]) for one in inner if isinstance(one.get("items"), dict)]
        values = [
            self._resolved(one["additionalProperties"])
            for one in inner
            if isinstance(one.get("additionalProperties"), dict)
        ]
        yield Key(
            path=path,
            description=value.get("description", ""),
            group=bool(nested),
            required=required,
            nullable=len(schemas) < len(alternatives),
            schemas=schemas,
        )
        for one in nested:
            yield from self._walk(path, one)
        for one in (*items, *values):
            if "properties" in one:
                yield Key((*path, EACH), one.get("description", ""), True, False, False, (one,))
                yield from self._walk((*path, EACH), one)

    def _spelt_out(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema with the definitions of its items and values in place of references to them."""
        inner = {
            name: self._resolved(schema[name])
            for name in ("items", "additionalProperties")
            if isinstance(schema.get(name), dict)
        }
        return {**schema, **inner}

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].rsplit("/", 1)[-1]
        found: Mapping[str, Any] = self.json_schema["$defs"][name]
        return found


CONFIGURATION = KeyBook(ExtenderConfiguration)
POLICY = KeyBook(PodPolicyDocument)


def keys() -> Mapping[KeyPath, Key]:
    """Return every key of the configuration."""
    return CONFIGURATION.keys


def _allowed(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if schema.get("format") in ALLOWED_BY_FORMAT:
        return ALLOWED_BY_FORMAT[schema["format"]] + _bounds(schema)
    kind = schema.get("type")
    if kind == "array":
        return "a list, each " + _allowed(schema["items"])
    if kind == "object" and "properties" in schema:
        return "a map with the keys " + ", ".join(schema["properties"])
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return "a map, each value " + _allowed(schema["additionalProperties"])
    return _PLAIN.get(str(kind), str(kind)) + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    words = [
        f"{word} {schema[bound]}"
        for bound, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if bound in schema
    ]
    unit = _UNITS.get(schema.get("format", ""), "")
    words = [f"{word}{unit}" for word in words]
    return f", {', '.join(words)}" if words else ""
