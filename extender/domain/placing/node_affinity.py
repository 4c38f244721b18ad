"""Match node selectors and required node affinity as kube-scheduler does.

The rules are those of `k8s.io/component-helpers/scheduling/corev1/nodeaffinity` and of label selectors
(`k8s.io/apimachinery/pkg/labels`), which its NodeAffinity filter calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from extender.domain.views import NodeTerm, NodeView, Requirement

_INTEGER = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_LONGEST_VALUE = 63
_INT64 = 2**63
_NODE_NAME = "metadata.name"
"""The only field of a Node that a term may name."""


def selects(selector: Mapping[str, str], node: NodeView) -> bool:
    """Return whether the node has every label of a Pod's `nodeSelector`."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def requires(terms: Iterable[NodeTerm], node: NodeView) -> bool:
    """Return whether the node meets one of the terms of a required node affinity; without terms: False."""
    return any(_meets(term, node) for term in terms)


def _meets(term: NodeTerm, node: NodeView) -> bool:
    """Return whether the node meets a term. A term without entries (`isEmptyNodeSelectorTerm`) or unreadable: False."""
    return bool(term.expressions or term.fields) and all(
        (
            *(_label(requirement, node.labels) for requirement in term.expressions),
            *(_field(requirement, node) for requirement in term.fields),
        )
    )


def _label(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    values, value = requirement.values, labels.get(requirement.key)
    if not all(map(_may_be_a_label, values)):
        return False
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return not values and value is not None
        case "DoesNotExist":
            return not values and value is None
        case "Gt" | "Lt" if len(values) == 1 and value is not None:
            has, bound = _integer(value), _integer(values[0])
            if has is None or bound is None:
                return False
            return has > bound if requirement.operator == "Gt" else has < bound
        case _:
            return False


def _field(requirement: Requirement, node: NodeView) -> bool:
    """Match a field; it knows In and NotIn with one value (`nodeSelectorRequirementsAsFieldSelector`)."""
    if requirement.key != _NODE_NAME or len(requirement.values) != 1:
        return False
    match requirement.operator:
        case "In":
            return node.name == requirement.values[0]
        case "NotIn":
            return node.name != requirement.values[0]
        case _:
            return False


def _may_be_a_label(value: str) -> bool:
    return len(value) <= _LONGEST_VALUE and _LABEL_VALUE.fullmatch(value) is not None


def _integer(text: str) -> int | None:
    """Parse an integer as Go's `strconv.ParseInt(text, 10, 64)` does; `None`: it would fail."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None
