"""Recognises the files of a peer, and converts them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from extender.config.peers import bridge, sunk
from extender.config.peers.plan import ImportPlan
from extender.config.yaml_text import YamlFault, read_stream


class NotRecognised(ValueError):
    """The input contains no part of SUNK or slurm-bridge."""


def imported(texts: list[tuple[str, str]]) -> ImportPlan:
    """Take over the files, by name and text, one after the other. Raises NotRecognised, with what is understood."""
    plan, known = ImportPlan(), 0
    for name, text in texts:
        documents = _documents(name, text)
        for number, document in enumerate(documents, 1):
            where = name if len(documents) == 1 else f"{name}, document {number}"
            known += _take(document, plan, where)
        if not documents:
            plan.note(name, NOTHING)
    if not known:
        raise NotRecognised(
            "it has no known key: give flags or the Deployment of SUNK's scheduler, Helm values of SUNK or "
            "slurm-bridge, or slurm-bridge's ConfigMap or config.yaml"
        )
    return plan


NOTHING = "it has no known key"


def _documents(name: str, text: str) -> list[Any]:
    """Return flags as a list of words, else the documents that say something."""
    if text.lstrip().startswith("--") and not text.lstrip().startswith("---"):
        try:
            return [shlex.split(text.replace("\\\n", " "))]
        except ValueError as error:
            raise NotRecognised(f"{name}: these flags cannot be read: {error}") from error
    try:
        return [document for document in read_stream(text) if document is not None]
    except YamlFault as error:
        raise NotRecognised(f"{name}: it is not valid YAML: {error}") from error


def _take(document: Any, plan: ImportPlan, where: str) -> int:
    """Return how many parts were recognised. The others become notes, with their place `where`."""
    if isinstance(document, list) and all(isinstance(word, str) for word in document):
        if sunk.are_flags(document):
            sunk.take_flags(document, plan)
            return 1
    elif isinstance(document, list):
        return sum(_take(one, plan, f"{where}, item {number}") for number, one in enumerate(document, 1))
    elif isinstance(document, dict):
        return _take_map(document, plan, where)
    plan.note(where, NOTHING)
    return 0


def _take_map(document: dict[str, Any], plan: ImportPlan, where: str) -> int:
    kind = str(document.get("kind") or "")
    if kind == "List" and isinstance(document.get("items"), list):
        return sum(_take(one, plan, where) for one in document["items"])
    if kind and "apiVersion" in document:
        name = document["metadata"].get("name", "") if isinstance(document.get("metadata"), dict) else ""
        where = f"{where}, {kind} {name}".rstrip()
    if kind == "ConfigMap" and isinstance(document.get("data"), dict):
        return sum(_take_text(str(text), plan, f"{where}, {key}") for key, text in document["data"].items())
    if kind in {"Deployment", "StatefulSet", "Pod"}:
        found = [arguments for arguments in _commands(document) if sunk.are_flags(arguments)]
        for arguments in found:
            sunk.take_flags(arguments, plan)
        if not found:
            plan.note(where, NOTHING)
        return len(found)
    for known, take in (
        (bridge.is_file, bridge.take_file),
        (bridge.are_values, bridge.take_values),
        (sunk.are_values, sunk.take_values),
    ):
        if known(document):
            take(document, plan)
            return 1
    plan.note(where, NOTHING)
    return 0


def _take_text(text: str, plan: ImportPlan, where: str) -> int:
    """Convert the text of a key of a ConfigMap."""
    try:
        return sum(_take(document, plan, where) for document in read_stream(text))
    except YamlFault as error:
        plan.note(where, f"it is not valid YAML: {error}")
        return 0


def _commands(workload: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the command line of each container, as a list of words."""
    spec = _map(workload.get("spec"))
    pod = spec if workload.get("kind") == "Pod" else _map(_map(spec.get("template")).get("spec"))
    for container in _list(pod.get("containers")):
        if isinstance(container, dict):
            yield [str(word) for word in (*_list(container.get("command")), *_list(container.get("args")))]


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
