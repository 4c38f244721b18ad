"""What an author of Pods writes to get another user, a priority, or a number that Slurm cannot hold."""

from __future__ import annotations

import pytest

from extender.domain.policy.site import TranslationPolicy
from extender.domain.translation.translate import Translated, translate
from tests.builders.pod_views import a_pod
from tests.builders.translation import BRIDGE, FREE, NOW, OWN, SUNK, faults

NAMES = {
    OWN: {"user-id": "user-id", "group-id": "group-id", "priority": "priority", "nice": "priority"},
    SUNK: {"user-id": "user-id", "group-id": "group-id", "priority": "priority"},
    BRIDGE: {"user-id": "user-id", "group-id": "group-id", "priority": "priority"},
}
"""Names of settings that need a permission, by prefix, with the name of the permission."""

RESTRICTED = [(prefix, name, permission) for prefix, names in NAMES.items() for name, permission in names.items()]


def written(prefix: str, name: str, value: str) -> dict[str, str]:
    """The annotation, beside a user: a group means nothing without one."""
    return {prefix + name: value} | ({prefix + "user-id": "7"} if name == "group-id" else {})


@pytest.mark.parametrize(("prefix", "name", "permission"), RESTRICTED)
@pytest.mark.parametrize("blank", ["{}", " {}", "{} ", "\t{}\n"])
def test_a_restricted_setting_is_refused_under_every_prefix_and_with_blanks(
    prefix: str, name: str, permission: str, blank: str
) -> None:
    value = blank.format("-5" if name == "nice" else "5")
    said = faults(a_pod(annotations=written(prefix, name, value)), policy=TranslationPolicy())
    assert any(prefix + name in one and f"permission for {permission}" in one for one in said)


@pytest.mark.parametrize(("prefix", "name", "permission"), [one for one in RESTRICTED if one[0] == BRIDGE])
def test_a_restricted_setting_on_the_owner_is_refused(prefix: str, name: str, permission: str) -> None:
    result = translate([a_pod()], written(prefix, name, "0"), TranslationPolicy(), NOW)
    assert not isinstance(result, Translated)
    assert any(f"permission for {permission}" in one for one in result.faults)


SPELLINGS = ("{}", "{} ", " {}", "{}\n")


@pytest.mark.parametrize("prefix", [OWN, SUNK, BRIDGE, OWN.upper(), f" {OWN}"])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", [*(name.upper() for name in NAMES[OWN]), "User-Id", "user_id", "Nice"])
@pytest.mark.parametrize("on_owner", [False, True])
def test_a_restricted_setting_in_another_spelling_is_refused_or_means_nothing(
    prefix: str, spelling: str, name: str, on_owner: bool
) -> None:
    spelled = prefix + spelling.format(name)
    said = {spelled: "-5" if "nice" in name.lower() else "5"}
    plain = translate([a_pod()], {}, TranslationPolicy(), NOW)
    result = translate(
        [a_pod(annotations={} if on_owner else said)], said if on_owner else {}, TranslationPolicy(), NOW
    )
    assert isinstance(plain, Translated)
    assert not isinstance(result, Translated) or result.request == plain.request


LARGE = {
    OWN + "time-limit": ("1" + "0" * 30, str(2**31), "1" + "0" * 30 + "-00:00:00", f"{2**31}m", "9999999d"),
    SUNK + "timeout": ("1" + "0" * 30, str(2**31)),
    BRIDGE + "timelimit": ("1" + "0" * 30, str(2**31)),
    OWN + "begin": ("1" + "0" * 30, "now+99999999999weeks", "19000000-01-01T00:00:00Z"),
    OWN + "deadline": ("1" + "0" * 30, "now+99999999999weeks", "19000000-01-01T00:00:00Z"),
    OWN + "switches": (str(2**31), f"1@{2**31}", "9" * 20, "1@" + "9" * 20),
    OWN + "cpus-per-task": ("9" * 20, str(2**31)),
    OWN + "mem-per-node": ("9" * 20, "9" * 9 + "Ei"),
    OWN + "gang-size": ("9" * 20,),
    OWN + "nice": (str(2**31), "-" + "9" * 20),
    OWN + "priority": (str(2**32), "9" * 20),
    OWN + "user-id": (str(2**32 - 2), "9" * 20),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in LARGE.items() for value in values])
def test_a_number_that_slurm_cannot_hold_is_refused(key: str, value: str) -> None:
    (said,) = faults(a_pod(annotations={key: value}), policy=FREE)
    assert said.startswith(f"{key}: ")
    assert "is not allowed; it must be " in said


@pytest.mark.parametrize("value", ["expand:7", "EXPAND:7", "afterok:6,expand:7", "afterok:6?Expand:7", "expand"])
def test_a_dependency_that_would_give_the_nodes_to_another_job_is_refused(value: str) -> None:
    (said,) = faults(a_pod(annotations={OWN + "dependency": value}))
    assert "no dependency of the kind expand" in said
