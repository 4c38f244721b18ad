"""What the packages import is what pyproject.toml says they need, not what something else happens to bring."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("extender", "slurmclient")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    """As packages are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    extras = [one for group in PROJECT["optional-dependencies"].values() for one in group]
    found = (re.match(r"[\w.-]+", one) for one in [*PROJECT["dependencies"], *extras])
    return {normal(one[0]) for one in found if one}


def imported(package: str) -> Iterator[tuple[str, str]]:
    """File and top-level name of each import that is neither the standard library's nor ours."""
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in PACKAGES:
                    yield str(file.relative_to(ROOT)), top


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_that_is_imported_is_declared(package: str) -> None:
    known, providers = declared(), packages_distributions()
    undeclared = {
        f"{file}: {top}"
        for file, top in imported(package)
        if known.isdisjoint(normal(one) for one in providers.get(top, [top]))
    }
    assert undeclared == set()


def test_everything_that_is_declared_is_imported() -> None:
    providers = packages_distributions()
    used = {normal(one) for package in PACKAGES for _, top in imported(package) for one in providers.get(top, [top])}
    assert {normal(one.partition(">")[0].strip()) for one in PROJECT["dependencies"]} - used == set()
