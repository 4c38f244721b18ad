"""No module imports itself by way of others."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


def imports(package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports, also those for types alone."""
    paths = {module_of(path): path for path in (TOP / package).rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                named |= {part if (part := f"{node.module}.{one.name}") in paths else node.module for one in node.names}
        found[name] = named & paths.keys()
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", ["extender", "slurmclient"])
def test_no_module_is_in_a_cycle(package: str) -> None:
    try:
        TopologicalSorter(imports(package)).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_cycle_is_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
