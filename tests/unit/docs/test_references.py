"""The generated references are complete: every command, every route, every key of an object."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs.generate.http_api import document
from docs.generate.object_metadata import documented, keys
from extender.cli.program import main as service
from extender.domain import wellknown
from kubectl_slurm.program import main as plugin

TOP = Path(__file__).parents[3]


def page(name: str) -> str:
    return (TOP / "docs/reference" / name).read_text(encoding="utf-8")


def test_every_command_has_its_heading() -> None:
    found = set(re.findall(r"^### (?:slurm-extender|kubectl slurm) ([\w-]+)", page("cli.md"), re.MULTILINE))
    assert found >= set(service.commands) | set(plugin.commands) | {"demo", "simulate"}


def test_every_route_of_the_code_has_its_row() -> None:
    rows = set(re.findall(r"^\| `[A-Z]+ (/[^`]*)` \|", page("http-api.md"), re.MULTILINE))
    assert rows == set(document()["paths"])
    assert {"/scheduler/filter", "/debug/openapi.json", "/metrics", "/readyz"} <= rows


def test_every_key_has_its_row_and_its_text() -> None:
    shown = page("object-metadata.md")
    assert [one.key for one in keys() if f"| `{one.key}` | {one.kind} |" not in shown] == []
    assert [one.constant for one in keys() if not one.text.endswith(".")] == []
    assert {one.key for one in keys()} >= wellknown.STATUS_ANNOTATIONS


def test_no_key_is_spelt_out_in_another_module() -> None:
    known = {value for _, value, _ in documented(wellknown) if "/" in value}
    for path in (TOP / "extender").rglob("*.py"):
        if path.name == "wellknown.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in known:
                assert node.value == wellknown.CONFIG_API_VERSION, f"{path}: {node.value}"
