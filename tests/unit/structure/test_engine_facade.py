"""Other packages reach the engine through few methods and few modules."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

from extender.engine.engine import Engine

TOP = Path(__file__).parents[3]
MOST_METHODS = 10

PUBLIC = {"engine", "engine_context", "history"}
"""The modules of the engine that every layer above it may import."""


def test_the_engine_has_at_most_ten_public_methods() -> None:
    public = {name: value for name, value in vars(Engine).items() if not name.startswith("_")}
    methods = [name for name, value in public.items() if inspect.isroutine(value) or isinstance(value, property)]
    assert len(methods) <= MOST_METHODS, methods


def test_every_module_of_the_engine_is_public_or_says_who_may_import_it() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    protected = {
        name
        for contract in contracts
        if contract["type"] == "protected"
        for name in contract["protected_modules"]
        if name.startswith("extender.engine.")
    }
    paths = (TOP / "extender/engine").rglob("*.py")
    modules = {".".join(path.relative_to(TOP).with_suffix("").parts) for path in paths if path.stem != "__init__"}
    assert modules - protected == {f"extender.engine.{name}" for name in PUBLIC}
