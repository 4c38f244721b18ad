"""The three kinds of patches, as far as this project uses them.

Strategic merge needs to know how each list is merged; the table holds the lists that matter here, every other list is
replaced, which is what Kubernetes does with atomic ones.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from simulator.kube.objects import Json
from simulator.kube.status_errors import StatusError, bad_request

MERGE_KEYS: dict[tuple[str, ...], str] = {
    ("metadata", "ownerReferences"): "uid",
    ("spec", "schedulingGates"): "name",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("status", "conditions"): "type",
}
"""Path of a list -> the key by which strategic merge finds its entries (`patchMergeKey` in `k8s.io/api`)."""


def apply_patch(obj: Json, patch: Any, content_type: str) -> Json:
    """Return a patched copy of `obj`. Raises StatusError."""
    match content_type:
        case "application/merge-patch+json":
            return _merge(obj, _mapping(patch))
        case "application/strategic-merge-patch+json":
            return _strategic(obj, _mapping(patch), ())
        case "application/json-patch+json":
            return _json_patch(obj, patch)
        case other:
            raise StatusError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {other}")


def _mapping(patch: Any) -> Json:
    if not isinstance(patch, dict):
        raise bad_request("a merge patch is an object")
    return patch


def _merge(target: Any, patch: Json) -> Json:
    """Apply a merge patch (RFC 7386)."""
    merged = deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value)
        else:
            merged[key] = deepcopy(value)
    return merged


def _strategic(target: Any, patch: Json, path: tuple[str, ...]) -> Json:
    merged = deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        here = (*path, key)
        if key.startswith("$"):
            raise bad_request(f"strategic merge directive {key} is not known here")
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _strategic(merged.get(key), value, here)
        elif isinstance(value, list) and here in MERGE_KEYS:
            merged[key] = _strategic_list(merged.get(key) or [], value, here)
            if not merged[key]:
                del merged[key]
        else:
            merged[key] = deepcopy(value)
    return merged


def _strategic_list(target: list[Any], patch: list[Any], path: tuple[str, ...]) -> list[Any]:
    key = MERGE_KEYS[path]
    merged = list(target)
    for entry in patch:
        if key not in entry:
            raise bad_request(f"map: {entry} does not contain declared merge key: {key}")
        place = next((n for n, old in enumerate(merged) if old.get(key) == entry[key]), None)
        if entry.get("$patch") == "delete":
            if place is not None:
                del merged[place]
        elif place is None:
            merged.append(deepcopy(entry))
        else:
            merged[place] = _strategic(merged[place], entry, ("", ""))
    return merged


def _json_patch(obj: Json, operations: Any) -> Json:
    """Apply a JSON patch (RFC 6902) without `copy` and `move`."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    patched = deepcopy(obj)
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        holder: Any = patched
        for part in way:
            holder = _step(holder, part, operation)
        _operate(holder, last, operation)
    return patched


def _step(holder: Any, part: str, operation: Json) -> Any:
    try:
        return holder[int(part)] if isinstance(holder, list) else holder[part]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise _unfit(operation, "the path does not exist") from error


def _operate(holder: Any, last: str, operation: Json) -> None:
    match operation["op"]:
        case "test":
            if _step(holder, last, operation) != operation["value"]:
                raise _unfit(operation, "test failed")
        case "remove":
            _step(holder, last, operation)
            del holder[int(last) if isinstance(holder, list) else last]
        case "replace":
            _step(holder, last, operation)
            holder[int(last) if isinstance(holder, list) else last] = deepcopy(operation["value"])
        case "add" if isinstance(holder, list):
            holder.insert(len(holder) if last == "-" else int(last), deepcopy(operation["value"]))
        case "add":
            holder[last] = deepcopy(operation["value"])
        case other:
            raise bad_request(f"unexpected kind of operation: {other}")


def _unfit(operation: Json, why: str) -> StatusError:
    return StatusError(422, "Invalid", f"the server rejected our request: {operation['op']} {operation['path']}: {why}")
