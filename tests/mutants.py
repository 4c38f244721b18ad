"""Change one place of the core at a time, and report the changes that no test notices.

    python -m tests.mutants [--count 60] [--seed 1] [--timeout 600] [PACKAGE ...]

Each mutant inverts a condition, swaps an operator, or changes a number or a returned value in a file of
`extender/domain`, `extender/engine` or `extender/controllers/gangs`. The unit tests that import the file run first,
then all of its package. The parts of the engine work together: for these and for gangs the tests with a simulated
process run too. Run it in a checkout of its own, since it changes the file of each mutant. The draw depends on the seed
alone.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[1]
PACKAGES = ("extender/domain", "extender/engine", "extender/controllers/gangs")
EVERY_TEST = {
    "domain": ("tests/unit/domain",),
    "engine": ("tests/unit/engine", "tests/unit/controllers", "tests/sim/process"),
    "controllers": ("tests/unit/engine", "tests/unit/controllers", "tests/sim/process"),
}

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the line, its text before and after, and the whole source with it."""

    path: Path
    line: int
    before: str
    after: str
    source: str


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            yield ast.Compare(node.left, [COMPARED[type(operator)]()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
        case ast.If() | ast.IfExp():
            negated = copy.copy(node)
            negated.test = ast.UnaryOp(ast.Not(), node.test)
            yield negated
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every node within a function that can be replaced; annotations and docstrings are none."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                yield from (node for node in ast.walk(statement) if any(True for _ in replacements(node)))


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


def drawn(packages: list[str], count: int, rng: random.Random) -> list[Mutant]:
    """Draw mutants, each place of the packages with the same chance."""
    found = [
        (path, position)
        for package in packages
        for path in sorted((TOP / package).rglob("*.py"))
        for position, _ in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    return [mutant(path, position, rng) for path, position in rng.sample(found, min(count, len(found)))]


def mutant(path: Path, position: int, rng: random.Random) -> Mutant:
    """Return a mutant of the place with this position."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    old = list(places(tree))[position]
    new = rng.choice(list(replacements(old)))
    before, after = (ast.unparse(node).splitlines()[0] for node in (old, ast.fix_missing_locations(new)))
    line: int = getattr(old, "lineno", 0)
    return Mutant(path, line, before, after, ast.unparse(ast.fix_missing_locations(_Replace(old, new).visit(tree))))


def tests_of(path: Path) -> list[str]:
    """Return the unit tests that import the file."""
    module = str(path.relative_to(TOP).with_suffix("")).replace("/", ".")
    package, _, name = module.rpartition(".")
    wanted = (f"from {module} import", f"import {module}\n", f"from {package} import {name}\n")
    tests = sorted((TOP / "tests" / "unit").rglob("test_*.py"))
    return [str(one.relative_to(TOP)) for one in tests if any(text in one.read_text("utf-8") for text in wanted)]


def notices(tests: list[str], timeout_s: float) -> bool:
    """Return whether one of the tests fails. A run that takes too long counts as noticed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in {0, 5}


def survives(one: Mutant, timeout_s: float) -> bool:
    """Try a mutant, and restore its file."""
    original = one.path.read_bytes()
    near, all_tests = tests_of(one.path), list(EVERY_TEST[one.path.relative_to(TOP).parts[1]])
    try:
        one.path.write_text(one.source, encoding="utf-8")
        for compiled in one.path.parent.glob(f"__pycache__/{one.path.stem}.*.pyc"):
            compiled.unlink()
        return not (near and notices(near, timeout_s)) and not notices(all_tests, timeout_s)
    finally:
        one.path.write_bytes(original)


def main() -> None:
    """Print a line for each mutant, and the survivors once more. Exits with 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=list(PACKAGES))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of tests")
    options = parser.parse_args()
    mutants = drawn(options.packages, options.count, random.Random(options.seed))
    survivors = []
    for number, one in enumerate(mutants, 1):
        alive = survives(one, options.timeout)
        text = f"{one.path.relative_to(TOP)}:{one.line}: {one.before}  ->  {one.after}"
        print(f"{number}/{len(mutants)} {'SURVIVES' if alive else 'noticed'} {text}", flush=True)
        survivors += [text] if alive else []
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} noticed", *survivors, sep="\n")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
