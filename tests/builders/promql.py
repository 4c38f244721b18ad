"""Metrics and labels that a PromQL expression names. `promtool` checks the syntax; this reads what is used here."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SELECTOR = re.compile(r"\b(slurm_extender_\w+|process_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a selector."""

    label: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric and the conditions on its labels."""

    metric: str
    matchers: tuple[Matcher, ...]


def selectors(expression: str) -> list[Selector]:
    """Return every selector of an expression."""
    return [
        Selector(name, tuple(Matcher(*one) for one in _MATCHER.findall(inside)))
        for name, inside in _SELECTOR.findall(expression)
    ]


def groupings(expression: str) -> set[str]:
    """Return every label by which something is grouped or joined."""
    return {label.strip() for inside in _GROUPING.findall(expression) for label in inside.split(",") if label.strip()}
