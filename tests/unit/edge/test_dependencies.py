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
DISTRIBUTIONS = {
    "slurm-extender": (ROOT / "pyproject.toml", ("extender", "slurmclient")),
    "slurm-extender-simulator": (ROOT / "packaging/simulator/pyproject.toml", ("simulator",)),
    "kubectl-slurm": (ROOT / "packaging/kubectl/pyproject.toml", ("kubectl_slurm",)),
}
"""What is installed by itself: the file that declares it, and its packages."""

OWN = {package for _, packages in DISTRIBUTIONS.values() for package in packages}


def normal(name: str) -> str:
    """As packages are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(file: Path) -> set[str]:
    """Names of the packages that a distribution always brings, without those of this project."""
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    found = (re.match(r"[\w.-]+", one) for one in project["dependencies"])
    return {normal(one[0]) for one in found if one} - DISTRIBUTIONS.keys()


def optional(file: Path) -> set[str]:
    """Names of those that its extras bring."""
    extras = tomllib.loads(file.read_text(encoding="utf-8"))["project"].get("optional-dependencies", {})
    found = (re.match(r"[\w.-]+", one) for group in extras.values() for one in group)
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
                if top not in sys.stdlib_module_names and top not in OWN:
                    yield str(file.relative_to(ROOT)), top


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_everything_that_is_imported_is_declared(name: str) -> None:
    file, packages = DISTRIBUTIONS[name]
    known, providers = required(file) | optional(file), packages_distributions()
    undeclared = {
        f"{where}: {top}"
        for package in packages
        for where, top in imported(package)
        if known.isdisjoint(normal(one) for one in providers.get(top, [top]))
    }
    assert undeclared == set()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_everything_that_is_declared_is_imported(name: str) -> None:
    file, packages = DISTRIBUTIONS[name]
    providers = packages_distributions()
    used = {normal(one) for package in packages for _, top in imported(package) for one in providers.get(top, [top])}
    assert required(file) - used == set()
