"""Count what a running process keeps: the entries of every container that can be reached from an object of it."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

PACKAGES = ("extender.", "slurmclient.")


def entries(root: object, names: Collection[str]) -> Counter[str]:
    """Count the entries of each of these containers in all objects; nested containers are added up."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    kept: list[object] = []  # what `seen` names lives as long as it
    waiting: deque[object] = deque([root])
    while waiting:
        one = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        kept.append(one)
        for attribute, value in _attributes(one):
            count, inner = _counted(value)
            name = next((name for name in _names(one, attribute) if name in names), None)
            if name is not None:
                found[name] += count
            waiting.extend(inner)
    for module in list(sys.modules.values()):
        for attribute, value in vars(module).items() if _is_of_extender(module.__name__) else ():
            if f"{module.__name__}.{attribute}" in names and not callable(value):
                found[f"{module.__name__}.{attribute}"] = _counted(value)[0]
    return found


def _names(one: object, attribute: str) -> Iterator[str]:
    """Yield the attribute by each class that may have made it."""
    for kind in type(one).__mro__:
        yield f"{kind.__module__}.{kind.__name__}.{attribute}"


def _attributes(one: object) -> Iterator[tuple[str, Any]]:
    if _is_of_extender(type(one).__module__):
        slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
        for name in {*getattr(one, "__dict__", ()), *slots}:
            if hasattr(one, name):
                yield name, getattr(one, name)


def _counted(value: object) -> tuple[int, list[object]]:
    """Return the number of entries of a container and of nested ones, and the other objects in it."""
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
        count = len(value)
    elif isinstance(value, set | frozenset | list | tuple | deque):
        parts, count = list(value), len(value)
    else:
        return 0, [getattr(value, "__self__", value)]  # the object of a method
    inner: list[object] = []
    for part in parts:
        more, others = _counted(part)
        count += more
        inner += others
    return count, inner


def _is_of_extender(module: str) -> bool:
    return module.startswith(PACKAGES)
