"""What is printed: a table for people, or JSON, YAML and names for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import click
import yaml


class Form(StrEnum):
    """Values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, the key of what stands below it, and whether that is for `wide` alone."""

    heading: str
    key: str
    wide: bool = False


Row = Mapping[str, Any]


def show(rows: Sequence[Row], columns: Sequence[Column], form: Form, kind: str, *, one: bool = False) -> None:
    """Print rows. `kind` begins the names; `one`: a single object, not a list."""
    whole: Any = dict(rows[0]) if one and rows else [dict(row) for row in rows]
    match form:
        case Form.JSON:
            click.echo(json.dumps(whole, indent=2))
        case Form.YAML:
            click.echo(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=10**6), nl=False)
        case Form.NAME:
            for row in rows:
                click.echo(f"{kind}/{row['name']}")
        case _:
            shown = [column for column in columns if form is Form.WIDE or not column.wide]
            click.echo(table([column.heading for column in shown], [[_cell(row, c) for c in shown] for row in rows]))


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns three blanks apart, as kubectl prints them."""
    widths = [max(len(line[index]) for line in (headings, *lines)) for index in range(len(headings))]
    pad: Callable[[Sequence[str]], str] = lambda line: "   ".join(  # noqa: E731
        cell.ljust(width) for cell, width in zip(line, widths, strict=True)
    ).rstrip()
    return "\n".join(pad(line) for line in (headings, *lines))


def _cell(row: Row, column: Column) -> str:
    value = row.get(column.key)
    if value is None or value in ("", [], ()):
        return "<none>"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return str(value)
