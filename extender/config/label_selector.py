"""Label selectors, as in Kubernetes."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from extender.config.values import Group, Text
from extender.domain.policy.selectors import OPERATORS, Selector
from extender.domain.views import Requirement


def _operator(value: str) -> str:
    if value not in OPERATORS:
        raise ValueError(f"must be one of {', '.join(OPERATORS)}")
    return value


class Expression(Group):
    """One requirement of a label selector."""

    key: Text = Field(description="Key of the label.")
    operator: Annotated[str, AfterValidator(_operator)] = Field(description="`In`, `NotIn`, `Exists`, `DoesNotExist`.")
    values: tuple[str, ...] = Field((), description="Values, for `In` and `NotIn` alone.")

    @model_validator(mode="after")
    def _values_where_they_count(self) -> Self:
        if (self.operator in {"In", "NotIn"}) != bool(self.values):
            raise ValueError(f"operator {self.operator}: In and NotIn must have values, the others none")
        return self


class LabelSelector(Group):
    """A label selector as in Kubernetes: all of it must hold; an empty one selects everything."""

    match_labels: dict[Text, str] = Field({}, description="Labels and their values.")
    match_expressions: tuple[Expression, ...] = Field((), description="Further requirements.")

    @property
    def selector(self) -> Selector:
        """The same for the domain."""
        expressions = (Requirement(one.key, one.operator, one.values) for one in self.match_expressions)
        return Selector(tuple(sorted(self.match_labels.items())), tuple(expressions))
