"""Other packages reach the engine through few methods."""

from __future__ import annotations

import inspect

from extender.engine.engine import Engine

MOST_METHODS = 10


def test_the_engine_has_at_most_ten_public_methods() -> None:
    public = {name: value for name, value in vars(Engine).items() if not name.startswith("_")}
    methods = [name for name, value in public.items() if inspect.isroutine(value) or isinstance(value, property)]
    assert len(methods) <= MOST_METHODS, methods
