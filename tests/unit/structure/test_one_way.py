"""Each job is done by one mechanism: what the source may contain, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "extender"


OWN_QUEUES = {"asyncio.Queue", "asyncio.Semaphore", "FairQueue"}


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
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


@pytest.mark.parametrize("room", ["controllers", "engine"])
def test_no_controller_writes_a_loop_or_a_queue_of_its_own(room: str) -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules(room)
        for node in ast.walk(tree)
        if (isinstance(node, ast.While) and isinstance(node.test, ast.Constant))
        or (isinstance(node, ast.Call) and ast.unparse(node.func) in OWN_QUEUES)
    ]
    assert found == []


def test_no_callback_is_patched_in_after_construction() -> None:
    """An attribute of another object that is set to a method or a lambda is a subscription that nobody can find."""
    found = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in modules("assembly", "controllers", "engine")
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self"
        if isinstance(node.value, ast.Lambda | ast.Attribute)
    ]
    assert found == []
