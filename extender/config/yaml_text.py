"""YAML text into plain values and the line of each, so that a fault can say where it is.

Stricter than PyYAML's own loader: a key given twice is a fault, and only values that JSON has are made (a plain date
stays text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

Location = tuple[str | int, ...]

MOST_VALUES = 200_000
"""A ConfigMap of 1 MiB has room for fewer; aliases of aliases stand for any number."""


DEEPEST = 500
"""Brackets within brackets. PyYAML's time grows with the square of their number: 24 s for 20,000."""

_BRACKETS = re.compile(r"[\[{]|[\]}]")


class YamlFault(Exception):
    """The text is no YAML that can be used; the message says where and why."""


@dataclass(slots=True)
class Read:
    """The value of a document, and the line (from 1) of each place in it."""

    value: Any = None
    lines: dict[Location, int] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    close = yaml.SafeLoader.dispose
    merges = False
    """`<<` stands for the keys of another map, and is no key itself."""


class _MergingLoader(_Loader):
    merges = True


def read_yaml(text: str) -> Read:
    """Read one document.

    Raises YamlFault.
    """
    read = Read()
    _check_depth(text)
    with _faults(), closing(_Loader(text)) as loader:
        node = loader.get_single_node()
        if node is not None:
            read.value = _value(loader, node, (), read.lines)
    return read


def read_stream(text: str) -> list[Any]:
    """Return the values of all documents, `<<` obeyed, as kubectl and helm read files of others.

    Raises YamlFault.
    """
    found: list[Any] = []
    lines: dict[Location, int] = {}
    _check_depth(text)
    with _faults(), closing(_MergingLoader(text)) as loader:
        while (node := loader.get_node() if loader.check_node() else None) is not None:
            found.append(_value(loader, node, (len(found),), lines))
    return found


def _check_depth(text: str) -> None:
    """Raise YamlFault for brackets that are nested too deeply; those in quoted text count as well."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST:
            line = text.count("\n", 0, found.start()) + 1
            raise YamlFault(f"line {line}: more than {DEEPEST} brackets within each other")


@contextmanager
def _faults() -> Iterator[None]:
    """Turn exceptions of PyYAML into YamlFault."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlFault(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise YamlFault(str(error)) from error
    except RecursionError as error:
        raise YamlFault("it is nested too deeply, or an alias holds itself") from error
    except (ValueError, OverflowError) as error:  # a character that there is not (`scan_flow_scalar_non_spaces`)
        raise YamlFault(f"it cannot be read: {error}") from error


def read_scalar(text: str) -> Any:
    """Return the value that `text` has in YAML; text that is no YAML is text."""
    try:
        return read_yaml(text).value
    except YamlFault:
        return text


def _value(loader: _Loader, node: yaml.Node, at: Location, lines: dict[Location, int]) -> Any:
    lines[at] = node.start_mark.line + 1
    if len(lines) > MOST_VALUES:
        raise YamlFault(f"line {lines[at]}: it has more than {MOST_VALUES} values, what aliases stand for among them")
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, at, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, one, (*at, index), lines) for index, one in enumerate(node.value)]
    if node.tag in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary"} or _is_sexagesimal(node):
        return node.value
    try:
        return loader.construct_object(node)
    except (ValueError, LookupError) as error:  # e.g. an integer that Python will not read, or `!!bool perhaps`
        raise YamlFault(f"line {node.start_mark.line + 1}: {node.value!r:.80} cannot be read ({error})") from error


def _is_sexagesimal(node: yaml.Node) -> bool:
    """Return whether PyYAML would read 8:00:00 as the number 28800. YAML 1.2 and Kubernetes read it as text."""
    return node.tag in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"} and ":" in node.value


def _mapping(loader: _Loader, node: yaml.MappingNode, at: Location, lines: dict[Location, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlFault(f"line {line}: a key must be text")
        key = key_node.value
        if loader.merges and key_node.tag == MERGE:
            value = _value(loader, value_node, (*at, key), lines)
            for one in value if isinstance(value, list) else [value]:
                if not isinstance(one, dict):
                    raise YamlFault(f"line {line}: << takes a map, or a list of maps")
                merged = {**one, **merged}  # The first of a list counts.
            continue
        if key in result:
            raise YamlFault(f"line {line}: the key {key!r} stands twice, first in line {lines[(*at, key)]}")
        result[key] = _value(loader, value_node, (*at, key), lines)
        lines[(*at, key)] = line
    return {**merged, **result}


MERGE = "tag:yaml.org,2002:merge"
