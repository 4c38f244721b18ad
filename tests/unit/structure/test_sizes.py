"""A file and a function are small enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]

LINES_OF_A_FILE = 500
LINES_OF_A_FUNCTION = 80
PACKAGES_AT_THE_TOP = 14
MODULES_OF_THE_ENGINE = 20


def test_the_top_of_the_service_has_few_packages() -> None:
    found = sorted(path.parent.name for path in (TOP / "extender").glob("*/__init__.py"))
    assert "engine" in found
    assert len(found) <= PACKAGES_AT_THE_TOP, found


def test_the_engine_has_few_modules() -> None:
    found = sorted(path.stem for path in (TOP / "extender/engine").rglob("*.py") if path.stem != "__init__")
    assert "engine" in found
    assert len(found) <= MODULES_OF_THE_ENGINE, found


@pytest.mark.parametrize("package", ["extender", "slurmclient", "kubectl_slurm", "simulator"])
def test_no_file_and_no_function_is_too_long(package: str) -> None:
    too_long = []
    for path in sorted((TOP / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if source.count("\n") > LINES_OF_A_FILE:
            too_long.append(str(path.relative_to(TOP)))
        too_long += [
            f"{path.relative_to(TOP)}:{node.lineno} {node.name}"
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if (node.end_lineno or 0) - node.lineno + 1 > LINES_OF_A_FUNCTION
        ]
    assert too_long == []
