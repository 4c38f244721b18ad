"""Keep the manager of each field of a status, and apply without taking fields over (`apimachinery`, `managedfields`).

As far as this project uses it: the fields of `status`, of which lists of conditions are merged by `type`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from simulator.kube.objects import Json, timestamp
from simulator.kube.status_errors import StatusError, bad_request, invalid

APPLY = "application/apply-patch+yaml"

Path = tuple[str, ...]
"""A field as `fieldsV1` has it: `("f:status", "f:phase")`."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The author of a write, its operation, and its time."""

    name: str
    operation: str
    api_version: str
    at: float


def apply_status(old: Json, body: Any, manager: Manager, *, force: bool) -> Json:
    """Return a copy of `old` with the status of `body` applied. Raises StatusError: 409 for a field of another."""
    if not manager.name:
        raise bad_request(
            "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
        )
    if not isinstance(body, dict) or "apiVersion" not in body or "kind" not in body:
        raise bad_request("an apply has apiVersion and kind")
    _check_identity(old, body)
    wanted = dict(_leaves({"status": body.get("status") or {}}))
    there = dict(_leaves({"status": old.get("status") or {}}))
    owned = _owned(old)
    foreign = sorted(
        (name, path)
        for (name, _), paths in owned.items()
        if name != manager.name
        for path in paths & wanted.keys()
        if there.get(path) != wanted[path]
    )
    if foreign and not force:
        named = ", ".join(f'conflict with "{name}": {_shown(path)}' for name, path in foreign)
        raise StatusError(409, "Conflict", f"Apply failed with {len(foreign)} conflict(s): {named}")
    others = {path for (name, _), paths in owned.items() if name != manager.name for path in paths}
    new = deepcopy(old)
    for path in owned.get((manager.name, "Apply"), set()) - wanted.keys() - others:
        _remove(new, path)
    for path, value in wanted.items():
        _set(new, path, value)
    return _noted(new, owned, manager, set(wanted), {path for _, path in foreign})


def note_status(old: Json, new: Json, manager: Manager) -> Json:
    """Return `new` with the fields of its status that differ from `old` as those of the manager."""
    before = dict(_leaves({"status": old.get("status") or {}}))
    after = dict(_leaves({"status": new.get("status") or {}}))
    changed = {path for path, value in after.items() if before.get(path) != value}
    if not changed:
        return new
    owned = _owned(old)
    managed = owned.get((manager.name, manager.operation), set()) & after.keys()
    return _noted(deepcopy(new), owned, manager, managed | changed, changed)


def _check_identity(old: Json, body: Json) -> None:
    meta = body.get("metadata") or {}
    uid = meta.get("uid")
    if uid and uid != old["metadata"]["uid"]:
        raise invalid(old["kind"], old["metadata"]["name"], "metadata.uid", uid, "field is immutable")


def _noted(
    new: Json, owned: dict[tuple[str, str], set[Path]], manager: Manager, managed: set[Path], taken: set[Path]
) -> Json:
    """Write `managedFields`: these fields are the manager's, and those `taken` are of no other."""
    times = {(one["manager"], one["operation"]): one for one in new["metadata"].get("managedFields") or ()}
    entries = []
    for (name, operation), paths in owned.items():
        left = paths - taken
        if (name, operation) != (manager.name, manager.operation) and left:
            entries.append({**times[name, operation], "fieldsV1": _tree(left)})
    entries.append(
        {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": timestamp(manager.at),
            "fieldsType": "FieldsV1",
            "fieldsV1": _tree(managed),
            "subresource": "status",
        }
    )
    new["metadata"]["managedFields"] = entries
    return new


def _owned(obj: Json) -> dict[tuple[str, str], set[Path]]:
    entries = obj["metadata"].get("managedFields") or ()
    return {(one["manager"], one["operation"]): set(_paths(one["fieldsV1"])) for one in entries}


def _paths(tree: Json, at: Path = ()) -> Iterator[Path]:
    for key, below in tree.items():
        if key == ".":
            continue
        if any(name != "." for name in below):
            yield from _paths(below, (*at, key))
        else:
            yield (*at, key)


def _tree(paths: set[Path]) -> Json:
    tree: Json = {}
    for path in sorted(paths):
        here = tree
        for key in path:
            here = here.setdefault(key, {})
            if key.startswith("k:"):
                here.setdefault(".", {})
    return tree


def _leaves(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield each field with its value; entries of conditions are found by their type, other lists are one field."""
    if isinstance(value, dict) and (value or len(at) <= 1):
        for key, below in value.items():
            yield from _leaves(below, (*at, f"f:{key}"))
    elif isinstance(value, list) and at[-1] == "f:conditions":
        for entry in value:
            kind = json.dumps({"type": entry["type"]}, separators=(",", ":"))
            yield from _leaves(entry, (*at, f"k:{kind}"))
    else:
        yield at, value


def _set(obj: Json, path: Path, value: Any) -> None:
    here: Any = obj
    for number, key in enumerate(path):
        last = number == len(path) - 1
        if key.startswith("k:"):
            here = _entry(here, json.loads(key[2:]))
        elif last:
            here[key[2:]] = deepcopy(value)
        else:
            here = here.setdefault(key[2:], [] if path[number + 1].startswith("k:") else {})


def _entry(entries: list[Any], keys: Json) -> Any:
    found = next((one for one in entries if keys.items() <= one.items()), None)
    if found is None:
        found = dict(keys)
        entries.append(found)
    return found


def _remove(obj: Json, path: Path) -> None:
    here: Any = obj
    for key in path[:-1]:
        if key.startswith("k:"):
            here = next((one for one in here if json.loads(key[2:]).items() <= one.items()), {})
        else:
            here = here.get(key[2:], {})
    if path[-1] == "f:type":  # the entry goes with its key
        holder: Any = obj
        for key in path[:-2]:
            holder = holder.get(key[2:], {})
        holder[:] = [one for one in holder if one is not here]
    else:
        here.pop(path[-1][2:], None)


def _shown(path: Path) -> str:
    return "".join(f"[{key[2:]}]" if key.startswith("k:") else f".{key[2:]}" for key in path)
