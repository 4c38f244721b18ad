"""The table of edge cases of gangs has a row for each, with tests that name the case and messages that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
PAGE = TOP / "docs/proof/gangs.md"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = {int(row[0]): row[1:] for row in ROW.findall(PAGE.read_text(encoding="utf-8"))}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CASES = range(1, 36)


def cases_of(test: str) -> set[int]:
    """Return the cases that the name of a test names: `test_edge_case_28_and_30_…`."""
    found = re.match(r"test_edge_case_((?:\d+_(?:and_)?)+)", test)
    return set() if found is None else {int(number) for number in re.findall(r"\d+", found[1])}


@cache
def by_case() -> dict[int, set[str]]:
    """The tests of the tree by the cases that they name."""
    found: dict[int, set[str]] = {}
    for path in sorted((TOP / "tests").rglob("test_*.py")):
        for test in re.findall(r"^(?:async )?def (test_edge_case_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            for case in cases_of(test):
                found.setdefault(case, set()).add(f"{path.relative_to(TOP)}::{test}")
    return found


@cache
def sources() -> str:
    files = (path for top in ("extender", "tests/sim/process") for path in sorted((TOP / top).rglob("*.py")))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def test_each_case_has_one_row() -> None:
    assert list(ROWS) == list(CASES)
    assert set(by_case()) <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_row_names_tests_of_its_case(case: int) -> None:
    named = {f"{path}::{test}" for path, test in NAMED.findall(ROWS[case][3])}
    assert named, "no test"
    assert named <= by_case().get(case, set())


@pytest.mark.parametrize("case", CASES)
def test_a_message_of_a_row_is_one_that_users_get(case: int) -> None:
    for message in re.findall(r"`([^`]+)`", ROWS[case][2]):
        assert message in sources() or message.startswith("kubectl slurm"), message
