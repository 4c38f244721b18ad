"""Every line of the log has a name in one style, by which it is searched for and counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.builders.kustomize import ROOT

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
FILES = sorted([*(ROOT / "extender").rglob("*.py"), *(ROOT / "slurmclient").rglob("*.py")])


def name_of(owner: ast.expr) -> str:
    """`_log` of `_log.info` and of `self._log.info`."""
    return owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""


def logged() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a module's logger with where it stands."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in LEVELS and name_of(node.func.value) in {"log", "_log", "logger"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


CALLS = dict(logged())


@pytest.mark.parametrize("where", CALLS)
def test_a_line_of_the_log_is_named_in_snake_case(where: str) -> None:
    [name, *_] = CALLS[where].args
    if isinstance(name, ast.Constant):
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", str(name.value))


def test_every_module_calls_its_logger_alike() -> None:
    assert {name_of(call.func.value) for call in CALLS.values() if isinstance(call.func, ast.Attribute)} == {"_log"}
    assert len(CALLS) > 80
