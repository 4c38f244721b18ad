"""YAML text into plain values and the line of each, so that a fault can say where it is.

Stricter than PyYAML's own loader: a key given twice is a fault, and only values that JSON has are made (a plain date
stays text).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import yaml

Location = tuple[str | int, ...]

MOST_VALUES = 200_000
"""A ConfigMap of 1 MiB has room for fewer; aliases of aliases stand for any number."""


class YamlFault(Exception):
    """The text is no YAML that can be used; the message says where and why."""


@dataclass(slots=True)
class Read:
    """The value of a document, and the line (from 1) of each place in it."""

    value: Any = None
    lines: dict[Location, int] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    close = yaml.SafeLoader.dispose


def read_yaml(text: str) -> Read:
    """Read one document.

    Raises YamlFault.
    """
    read = Read()
    try:
        with closing(_Loader(text)) as loader:
            node = loader.get_single_node()
            if node is not None:
                read.value = _value(loader, node, (), read.lines)
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
    return read


def read_scalar(text: str) -> Any:
    """The value that `text` has in YAML; text that is no YAML is text."""
    try:
        return read_yaml(text).value
    except YamlFault:
        return text


def _value(loader: yaml.SafeLoader, node: yaml.Node, at: Location, lines: dict[Location, int]) -> Any:
    lines[at] = node.start_mark.line + 1
    if len(lines) > MOST_VALUES:
        raise YamlFault(f"line {lines[at]}: it has more than {MOST_VALUES} values, what aliases stand for among them")
    if isinstance(node, yaml.MappingNode):
        return _mapping(loader, node, at, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, one, (*at, index), lines) for index, one in enumerate(node.value)]
    if node.tag in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:binary"}:
        return node.value
    try:
        return loader.construct_object(node)
    except (ValueError, LookupError) as error:  # e.g. an integer that Python will not read, or `!!bool perhaps`
        raise YamlFault(f"line {node.start_mark.line + 1}: {node.value!r:.80} cannot be read ({error})") from error


def _mapping(
    loader: yaml.SafeLoader, node: yaml.MappingNode, at: Location, lines: dict[Location, int]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlFault(f"line {line}: a key must be text")
        key = key_node.value
        if key in result:
            raise YamlFault(f"line {line}: the key {key!r} stands twice, first in line {lines[(*at, key)]}")
        result[key] = _value(loader, value_node, (*at, key), lines)
        lines[(*at, key)] = line
    return result
