"""Find what the running process keeps: every attribute, global and cache that may grow, read from the source text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

COMMANDS = ("cli", "doctor")
"""Packages of `extender` that run as commands of their own: what they keep ends with the command."""

_GROWING = frozenset(
    (
        "dict",
        "set",
        "list",
        "deque",
        "bytearray",
        "OrderedDict",
        "defaultdict",
        "Counter",
        "ChainMap",
        "Queue",
        "PriorityQueue",
        "LifoQueue",
        "WeakKeyDictionary",
        "WeakValueDictionary",
        "WeakSet",
        "Mapping",
        "MutableMapping",
        "MutableSequence",
        "MutableSet",
    )
)
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_CHANGES = frozenset(
    (
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "subtract",
        "update",
    )
)


def containers(top: Path) -> dict[str, str]:
    """Return containers that grow, as `module.Class.attribute` or `module.name`, with the text of their start value."""
    return {name: text for path in _sources(top) for name, text in _of_file(top, path)}


def _sources(top: Path) -> Iterator[Path]:
    for package in ("extender", "slurmclient"):
        for path in sorted((top / package).rglob("*.py")):
            if path.relative_to(top).parts[:2] not in {("extender", command) for command in COMMANDS}:
                yield path


def _of_file(top: Path, path: Path) -> Iterator[tuple[str, str]]:
    module = ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    changed = _changed_globals(tree)
    for name, value, annotation in _assigned(tree.body):
        # A table that no line of its module changes is a constant.
        if _grows(value, annotation) and name in changed:
            yield f"{module}.{name}", ast.unparse(value or tree)
    for found in ast.walk(tree):
        if isinstance(found, ast.ClassDef):
            for name, text in _of_class(found):
                yield f"{module}.{found.name}.{name}", text
        elif isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in found.decorator_list:
                if _name(decorator) in {"cache", "lru_cache"}:
                    yield f"{module}.{found.name}", ast.unparse(decorator)


def _of_class(found: ast.ClassDef) -> Iterator[tuple[str, str]]:
    if not _is_value(found):
        for name, value, annotation in _assigned(found.body):
            if _grows(value, annotation):
                yield name, ast.unparse(value or annotation or found)
    for method in found.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            for name, value, annotation in _assigned(ast.walk(method), of_self=True):
                if _grows(value, annotation):
                    yield name, ast.unparse(value or annotation or found)


def _is_value(found: ast.ClassDef) -> bool:
    """Return whether its instances never change: a frozen dataclass, a named tuple, a protocol, a request schema."""
    frozen = any("frozen=True" in ast.unparse(decorator) for decorator in found.decorator_list)
    return frozen or any(_name(base) in {"NamedTuple", "Protocol", "TypedDict", "Schema"} for base in found.bases)


def _assigned(
    nodes: Iterator[ast.AST] | list[ast.stmt], *, of_self: bool = False
) -> Iterator[tuple[str, ast.expr | None, ast.expr | None]]:
    """Yield the names or attributes of `self` that these statements assign, with the value and the annotation."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            targets, annotation = node.targets, None
        elif isinstance(node, ast.AnnAssign):
            targets, annotation = [node.target], node.annotation
        else:
            continue
        for target in targets:
            if not of_self and isinstance(target, ast.Name):
                yield target.id, node.value, annotation
            elif of_self and isinstance(target, ast.Attribute) and _name(target.value) == "self":
                yield target.attr, node.value, annotation


def _grows(value: ast.expr | None, annotation: ast.expr | None) -> bool:
    if annotation is not None and "ClassVar" in ast.unparse(annotation):
        return False
    if isinstance(value, _DISPLAYS) or (isinstance(annotation, ast.Subscript) and _name(annotation.value) in _GROWING):
        return True
    if not isinstance(value, ast.Call):
        return False
    if _name(value.func) == "field":
        return any(_makes(one.value) for one in value.keywords if one.arg == "default_factory")
    return _makes(value.func)


def _makes(factory: ast.expr) -> bool:
    if isinstance(factory, ast.Lambda):
        return isinstance(factory.body, _DISPLAYS) or (isinstance(factory.body, ast.Call) and _makes(factory.body.func))
    return _name(factory) in _GROWING


def _name(node: ast.expr) -> str:
    """Return the last part of a name: `lru_cache` for `@functools.lru_cache(maxsize=8)`."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _changed_globals(tree: ast.Module) -> set[str]:
    """Return the names of a module whose contents some line of it changes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            found.add(_name(node.func.value))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(_name(node.value))
        elif isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.AugAssign):
            found.add(_name(node.target))
    return found
