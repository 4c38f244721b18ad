"""Gangs of one name that are not the same are found without a look at the other gangs."""

from __future__ import annotations

import pytest

from extender.controllers.gangs.shared_names import OTHERS, SharedNames
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership


def named(*incarnation: str, source: GangSource = GangSource.POD_GROUP, namespace: str = "team") -> Membership:
    return Membership(source, namespace, "PodGroup ring", incarnation, 3, MemberOrder())


def test_two_gangs_of_one_name_are_both_noted_until_one_has_no_pod() -> None:
    names = SharedNames()
    names.add("gang-a", named("", "ring", "group-1"))
    assert names.note("gang-a") == ""
    names.add("gang-b", named("job-1", "ring", "group-1"))
    names.add("gang-b", named("job-1", "ring", "group-1"))
    assert (names.note("gang-a"), names.note("gang-b")) == (OTHERS, OTHERS)
    names.remove("gang-b")
    assert (names.note("gang-a"), names.note("gang-b")) == ("", "")
    names.remove("gang-a")
    assert not names._keys
    assert not names._name_of


@pytest.mark.parametrize(
    "other",
    [
        named("", "ring", "group-1", namespace="other"),
        named("", "ring", "group-2"),
        named("", "chain", "group-1"),
        named("", "ring", source=GangSource.ANNOTATION),
        named("uid", source=GangSource.JOB),
    ],
    ids=["namespace", "group", "name", "source", "job"],
)
def test_gangs_of_other_names_groups_and_sources_are_not_noted(other: Membership) -> None:
    names = SharedNames()
    names.add("gang-a", named("", "ring", "group-1"))
    names.add("gang-b", other)
    assert (names.note("gang-a"), names.note("gang-b")) == ("", "")
