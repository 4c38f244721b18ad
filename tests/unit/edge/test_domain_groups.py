"""A group of a document becomes a dataclass of the domain, with its defaults, and is shown as it was written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from extender.config.domain_groups import InDocument
from extender.config.load import parse
from extender.config.schema_keys import CONFIGURATION, POLICY
from extender.domain.nodes.causes import DrainRules, TaintRule

SITE = "apiVersion: slurm-extender.io/v1alpha1\nkind: ExtenderConfiguration\nslurm: {token: hush}\n"


@dataclass(frozen=True, slots=True)
class Pace:
    top_speed: int = 7
    unit: str = "m"


class _Pace:
    """How fast."""

    top_speed = Field(le=9, description="The most.")
    unit = Field(description="Of length.")


class _HalfAPace:
    top_speed = Field(description="The most.")


PACE: TypeAdapter[Any] = TypeAdapter(Annotated[Pace, InDocument(_Pace)])


def test_a_group_is_read_into_the_dataclass_with_its_defaults() -> None:
    assert PACE.validate_python({}) == Pace()
    assert PACE.validate_python({"topSpeed": 3}) == Pace(3)


@pytest.mark.parametrize(
    ("given", "kind"), [({"topSpeed": 10}, "less_than_equal"), ({"topspeed": 1}, "extra_forbidden")]
)
def test_what_its_keys_do_not_allow_is_refused_at_the_key(given: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PACE.validate_python(given)
    assert [(one["loc"], one["type"]) for one in caught.value.errors()] == [(tuple(given), kind)]


def test_a_field_without_a_key_is_named() -> None:
    with pytest.raises(TypeError, match="_HalfAPace must have the fields of Pace: unit"):
        TypeAdapter(Annotated[Pace, InDocument(_HalfAPace)])


def test_drains_are_shown_in_the_form_in_which_they_are_read() -> None:
    drain = "{notReadyAfter: 2m, taints: [a, 'a=b:NoExecute'], conditions: [X, Y=False]}"
    found = parse(f"{SITE}nodes: {{drain: {drain}}}\n", "site").nodes
    assert found.drain == DrainRules(
        not_ready_after=120.0,
        taints=(TaintRule("a"), TaintRule("a", "b", "NoExecute")),
        conditions=(("X", "True"), ("Y", "False")),
    )
    shown = found.model_dump(mode="json")["drain"]
    assert shown["notReadyAfter"] == "2m"
    assert parse(f"{SITE}nodes: {{drain: {json.dumps(shown)}}}\n", "site").nodes.drain == found.drain


def test_defaults_in_the_schema_have_the_form_of_the_document() -> None:
    groups = CONFIGURATION.json_schema["$defs"]
    assert groups["NodeSettings"]["properties"]["drain"]["default"]["notReadyAfter"] == "30s"
    assert groups["Http"]["properties"]["bind"]["default"] == "127.0.0.1:8080"
    assert POLICY.json_schema["$defs"]["PolicyRule"]["properties"]["defaults"]["default"]["userId"] is None
