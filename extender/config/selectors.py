"""Label selectors in a document."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from extender.config.domain_groups import InDocument
from extender.config.values import Text
from extender.domain.policy.selectors import OPERATORS, Selector
from extender.domain.views import Requirement


def _operator(value: str) -> str:
    if value not in OPERATORS:
        raise ValueError(f"must be one of {', '.join(OPERATORS)}")
    return value


class _Expression:
    """One requirement of a label selector."""

    key: Text = Field(description="Key of the label.")
    operator: Annotated[str, AfterValidator(_operator)] = Field(description="`In`, `NotIn`, `Exists`, `DoesNotExist`.")
    values = Field(description="Values, for `In` and `NotIn` alone.")


def _values_where_they_count(given: Requirement) -> Requirement:
    if (given.operator in {"In", "NotIn"}) != bool(given.values):
        raise ValueError(f"operator {given.operator}: In and NotIn must have values, the others none")
    return given


Expression = Annotated[Requirement, InDocument(_Expression), AfterValidator(_values_where_they_count)]


class _LabelSelector:
    """A label selector as in Kubernetes: all of it must hold; an empty one selects everything."""

    match_labels: dict[Text, str] = Field(description="Labels and their values.")
    match_expressions: tuple[Expression, ...] = Field(description="Further requirements.")


LabelSelector = Annotated[Selector, InDocument(_LabelSelector)]
