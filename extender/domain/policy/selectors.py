"""Selectors of objects for rules: patterns of names, and label selectors as in Kubernetes.

Label selectors after `apimachinery/pkg/labels/selector.go`: `NotIn` holds of an object without the label too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extender.domain.views import Requirement
from extender.domain.wildcards import matches

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: all requirements must hold; an empty one selects everything."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _holds(one, labels) for one in self.match_expressions
        )


def _holds(one: Requirement, labels: Mapping[str, str]) -> bool:
    match one.operator:
        case "In":
            return labels.get(one.key) in one.values
        case "NotIn":
            return labels.get(one.key) not in one.values
        case "Exists":
            return one.key in labels
        case _:
            return one.key not in labels


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches the name; each `*` stands for any number of characters."""
    return any(matches(one, name) for one in patterns)
