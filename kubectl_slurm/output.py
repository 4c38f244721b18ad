"""Print a table for users, or JSON, YAML and names for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import click

from extender.domain.printable import printable
from kubectl_slurm.age import age


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
    since: bool = False
    """What stands there is an instant, and shown is how long ago that was."""


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Printer:
    """Print in the requested form. `now` is the clock for ages; `None`: unknown."""

    form: Form
    headings: bool = True
    now: float | None = None

    def show(self, rows: Sequence[Row], columns: Sequence[Column], kind: str, *, one: bool = False) -> None:
        """Print rows. `kind` begins the names; `one`: a single object, not a list."""
        whole: Any = dict(rows[0]) if one and rows else [dict(row) for row in rows]
        match self.form:
            case Form.JSON:
                click.echo(json.dumps(whole, indent=2))
            case Form.YAML:
                click.echo(_yaml(whole), nl=False)
            case Form.NAME:
                for row in rows:
                    click.echo(printable(f"{kind}/{row['name']}"))
            case _:
                shown = [column for column in columns if self.form is Form.WIDE or not column.wide]
                lines = [[self._cell(row, column) for column in shown] for row in rows]
                click.echo(table([column.heading for column in shown] if self.headings else None, lines))

    def _cell(self, row: Row, column: Column) -> str:
        value = row.get(column.key)
        if column.since and isinstance(value, str):
            value = age(value, self.now)
        if value is None or value in ("", [], ()):
            return "<none>"
        if isinstance(value, list | tuple):
            return printable(",".join(str(one) for one in value))
        return printable(" ".join(str(value).split()))


def table(headings: Sequence[str] | None, lines: Sequence[Sequence[str]]) -> str:
    """Return columns three blanks apart, as kubectl prints them."""
    printed = [*([headings] if headings is not None else []), *lines]
    widths = [max(map(len, column)) for column in zip(*printed, strict=True)]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in printed
    )


def _yaml(whole: Any) -> str:
    import yaml  # noqa: PLC0415 - rarely needed

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # tens of times as fast, where libyaml is there
    for as_it_is in (True, False):
        text: str = yaml.dump(whole, Dumper=dumper, sort_keys=False, allow_unicode=as_it_is, width=10**6)
        if text.replace("\n", "").isprintable():
            break
    return text
