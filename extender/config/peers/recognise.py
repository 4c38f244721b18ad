"""What a file of a peer is, and what becomes of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from extender.config.peers import bridge, sunk_flags, sunk_values
from extender.config.peers.plan import Plan


class NotRecognised(ValueError):
    """Nothing in what was given is of SUNK or of slurm-bridge."""


def imported(texts: list[tuple[str, str]]) -> Plan:
    """Take over the files, by name and text, one after the other. Raises NotRecognised, with what is understood."""
    plan, known = Plan(), 0
    for name, text in texts:
        found = sum(_take(document, plan) for document in _documents(name, text))
        if not found:
            plan.note(name, "nothing in it is known here")
        known += found
    if not known:
        raise NotRecognised(
            "nothing in it is known: give flags or the Deployment of SUNK's scheduler, Helm values of SUNK or "
            "slurm-bridge, or slurm-bridge's ConfigMap or config.yaml"
        )
    return plan


def _documents(name: str, text: str) -> Iterator[Any]:
    if text.lstrip().startswith("--") and not text.lstrip().startswith("---"):
        yield shlex.split(text.replace("\\\n", " "))
        return
    try:
        yield from yaml.safe_load_all(text)
    except yaml.YAMLError as error:
        raise NotRecognised(f"{name}: it is no YAML: {error}") from error


def _take(document: Any, plan: Plan) -> int:
    """How many things in it were known."""
    if isinstance(document, list) and all(isinstance(word, str) for word in document):
        if not sunk_flags.are_flags(document):
            return 0
        sunk_flags.take_flags(document, plan)
        return 1
    if isinstance(document, list):
        return sum(_take(one, plan) for one in document)
    if not isinstance(document, dict):
        return 0
    match document.get("kind"):
        case "List":
            return sum(_take(one, plan) for one in document.get("items") or ())
        case "ConfigMap":
            return sum(_take(one, plan) for text in _texts(document.get("data")) for one in _loaded(text))
        case "Deployment" | "StatefulSet" | "Pod":
            return sum(_take(words, plan) for words in _commands(document))
    for known, take in (
        (bridge.is_file, bridge.take_file),
        (bridge.are_values, bridge.take_values),
        (sunk_values.are_values, sunk_values.take_values),
    ):
        if known(document):
            take(document, plan)
            return 1
    return 0


def _texts(data: Any) -> list[str]:
    return [text for text in data.values() if isinstance(text, str)] if isinstance(data, dict) else []


def _loaded(text: str) -> list[Any]:
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return []


def _commands(workload: dict[str, Any]) -> Iterator[list[str]]:
    spec = workload.get("spec") or {}
    pod = spec if workload.get("kind") == "Pod" else ((spec.get("template") or {}).get("spec") or {})
    for container in pod.get("containers") or ():
        if isinstance(container, dict):
            yield [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
