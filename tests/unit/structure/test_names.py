"""One word has one meaning: no name of a class stands for two things, and no reason for two events."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from extender.domain.wellknown import Reason

TOP = Path(__file__).parents[3]


def classes(*packages: str) -> dict[str, list[str]]:
    """Every class, private and nested ones too, with the files that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for path in sorted((TOP / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(TOP)))
    return found


def test_no_class_name_exists_twice() -> None:
    found = classes("extender", "slurmclient")
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_no_two_reasons_of_events_are_the_same_word() -> None:
    assert len(Reason.__members__) == len({reason.value for reason in Reason})
