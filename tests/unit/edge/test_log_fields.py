"""A line about a Pod names it and its UID or workload, one about a job its number, and all use the same fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

EXTENDER = Path(__file__).parents[3] / "extender"
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
OTHER_NAMES = {"unit", "job", "pod_uid", "pod_name", "jobid"}
"""What a reader who searches for `uid` or `job_id` would miss."""


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(EXTENDER.rglob("*.py")):
        if path.relative_to(EXTENDER).parts[0] in {"sim", "doctor"}:
            continue
        text = path.read_text(encoding="utf-8")
        if "log." not in text:  # five of six files: to parse them takes each process of a run half a second
            continue
        for node in ast.walk(ast.parse(text)):
            called = node.func if isinstance(node, ast.Call) else None
            if not isinstance(called, ast.Attribute) or called.attr not in LEVELS or not isinstance(node, ast.Call):
                continue
            if isinstance(called.value, ast.Name) and called.value.id in {"log", "_log"}:
                yield f"{path.relative_to(EXTENDER)}:{node.lineno}", node


CALLS = dict(calls())


def test_there_are_lines() -> None:
    assert len(CALLS) > 80


@pytest.mark.parametrize("where", CALLS)
def test_a_line_about_a_pod_or_job_says_which(where: str) -> None:
    said = [keyword.arg for keyword in CALLS[where].keywords]
    names = {name for name in said if name is not None}
    if None in said:
        return  # a mapping that is made elsewhere
    assert not names & OTHER_NAMES or where.startswith("controllers/dry_run"), where
    if "pod" in names:
        assert names & {"uid", "workload"}, where


@pytest.mark.parametrize("where", CALLS)
def test_the_key_of_a_workload_is_no_uid(where: str) -> None:
    for keyword in CALLS[where].keywords:
        if keyword.arg == "uid":
            assert ast.unparse(keyword.value).rpartition(".")[2] not in {"key", "workload"}, where
