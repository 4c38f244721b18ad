"""Each job is done by one mechanism: what the source may contain, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "extender"


OWN_QUEUES = {"asyncio.Queue", "asyncio.Semaphore", "FairQueue"}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.Module, *names: str) -> list[int]:
    """Lines that call a method of one of these names on something whose name ends in `jobs` or `client`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and isinstance(node.func.value, ast.Attribute | ast.Name)
        and ast.unparse(node.func.value).endswith(("jobs", "client", "slurm"))
    ]


def test_only_the_terminator_ends_jobs_and_only_it_proves_them() -> None:
    adapter = "slurm/jobs.py"
    enders = {name for name, tree in modules("") if calls(tree, "cancel", "cancel_by_name", "finish")} - {adapter}
    assert enders == {"engine/job_terminator.py"}
    provers = {
        name
        for name, tree in modules("")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ProvedJob"
    }
    assert provers == {"engine/job_terminator.py"}


def test_the_terminator_lists_the_modules_that_have_jobs_ended() -> None:
    parsed = dict(modules(""))
    callers = {
        f"extender.{name.removesuffix('.py').replace('/', '.')}"
        for name, tree in parsed.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "end"
        if ast.unparse(node.func.value).endswith("terminator")
    }
    text = ast.get_docstring(parsed["engine/job_terminator.py"]) or ""
    assert set(re.findall(r"^\* `(extender[.\w]+)`:", text, re.MULTILINE)) == callers


@pytest.mark.parametrize("package", ["controllers", "engine"])
def test_no_controller_writes_a_loop_or_a_queue_of_its_own(package: str) -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules(package)
        for node in ast.walk(tree)
        if (isinstance(node, ast.While) and isinstance(node.test, ast.Constant))
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in OWN_QUEUES)
    ]
    assert found == []


def functions(tree: ast.Module) -> set[str]:
    """The names of functions and methods of a module; a property is none."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not any(ast.unparse(one).endswith("property") for one in node.decorator_list)
    }


def variables(tree: ast.Module) -> set[str]:
    """The names of all variables and arguments of a module."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def is_callback(value: ast.expr, methods: set[str], own: set[str]) -> bool:
    """Return whether a value is a function, or a mapping to functions. `own`: the functions of its module."""
    match value:
        case ast.Lambda():
            return True
        case ast.Attribute(attr=name):
            return name in methods
        case ast.Name(id=name):
            return name in own
        case ast.Dict(values=values):
            return any(is_callback(one, methods, own) for one in values)
        case ast.DictComp(value=one):
            return is_callback(one, methods, own)
        case ast.Call(func=ast.Name(id="partial")):
            return True
        case _:
            return False


def assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr, ast.stmt]]:
    """Every target of an assignment with its value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value, node) for target in node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            yield node.target, node.value, node


THE_ONLY_WAY = {"self.context.sni_callback"}
"""Callbacks that the standard library takes in no other way."""


def test_no_callback_is_patched_in_after_construction() -> None:
    """An attribute of another object that is set to a method or a lambda is a subscription that nobody can find."""
    parsed = dict(modules(""))
    methods = set[str]().union(*(functions(tree) for tree in parsed.values()))
    found = []
    for name, tree in parsed.items():
        own = functions(tree) - variables(tree)
        for target, value, node in assignments(tree):
            owner = target.value if isinstance(target, ast.Subscript) else target
            if not isinstance(owner, ast.Attribute) or ast.unparse(owner.value) == "self":
                continue
            if is_callback(value, methods, own) and ast.unparse(target) not in THE_ONLY_WAY:
                found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "metrics.ready = lambda: True",
        "metrics.labels.snapshot = engine.handle",
        "metrics.more |= {A: partial(f, x)}",
        "metrics.more[A] = lambda: {}",
        "known.end = end\ndef end(): ...",
    ],
)
def test_a_callback_that_is_patched_in_is_found(code: str) -> None:
    [(_, value, _)] = assignments(tree := ast.parse(code))
    assert is_callback(value, {"handle"}, functions(tree) - variables(tree))
