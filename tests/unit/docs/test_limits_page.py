"""The page on limits has a row for everything that may grow in the process, and tells the limits that are in force."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extender.config.load import parse
from tests.builders.containers import containers

TOP = Path(__file__).parents[3]
PAGE = TOP / "docs/reference/limits.md"
NAME = re.compile(r"`([\w.]+)`")
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
CONSTANT = re.compile(r"`((?:extender|slurmclient)\.[\w.]+)` = ([\d,.]+(?: MiB| KiB)?)")
KEY = re.compile(r"`([a-z]\w+(?:\.[a-z]\w+)+)` = ([\d,.]+)")
MINIMAL = """
apiVersion: slurm-extender.io/v1alpha1
kind: ExtenderConfiguration
slurm: {addresses: ["http://slurm:6820"], token: t, user: root}
"""
SIZES = {"": 1, " KiB": 2**10, " MiB": 2**20}


def rows() -> list[tuple[str, ...]]:
    """The cells of every row, without the heads of tables."""
    found = [row for row in ROW.findall(PAGE.read_text(encoding="utf-8")) if row[0] not in {"what", "---"}]
    return [tuple(row) for row in found]


def named() -> Iterator[str]:
    """Every container that a row names: a class or module first, then what is in it."""
    for _, where, _, _ in rows():
        for part in where.split("; "):
            owner, *attributes = NAME.findall(part)
            yield from (f"{owner}.{attribute}" for attribute in attributes)


def number(text: str) -> float:
    digits, unit, _ = re.split(r"( [KM]iB|$)", text, maxsplit=1)
    return float(digits.replace(",", "").rstrip(".")) * SIZES[unit]


def value_of(dotted: str) -> Any:
    """A constant of a module, or what a dataclass of it has by default."""
    parts = dotted.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found() if isinstance(found, type) else found, name)
        return found
    raise AssertionError(dotted)


def test_everything_that_may_grow_has_a_row() -> None:
    assert sorted(containers(TOP).keys() - set(named())) == []


def test_a_row_names_nothing_that_is_no_longer_there() -> None:
    assert sorted(set(named()) - containers(TOP).keys()) == []


def test_nothing_has_two_rows() -> None:
    names = list(named())
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize(("constant", "told"), CONSTANT.findall(PAGE.read_text(encoding="utf-8")))
def test_a_constant_has_the_value_that_the_page_shows(constant: str, told: str) -> None:
    assert value_of(constant) == number(told)


@pytest.mark.parametrize(("key", "told"), KEY.findall(PAGE.read_text(encoding="utf-8")))
def test_a_key_of_the_configuration_has_the_default_that_the_page_shows(key: str, told: str) -> None:
    value: Any = parse(MINIMAL, "test")
    for name in key.split("."):
        value = getattr(value, re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name))
    assert value == number(told)


def test_a_cache_of_a_function_reports_its_size() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, text in containers(TOP).items():
        if size := re.search(r"maxsize=(\d+)", text):
            row = next(row for row in page.splitlines() if f"`{name.rpartition('.')[2]}`" in row)
            assert f"{int(size[1]):,}" in row, name
