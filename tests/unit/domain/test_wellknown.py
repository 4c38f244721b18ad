"""The names that users see: no two reasons are one word, and one thing has one word."""

from __future__ import annotations

import enum
import re

import pytest

from extender.domain import wellknown
from extender.domain.pods.why import Cause
from extender.domain.wellknown import Reason

ONE_THING = {
    Cause.RETRYING: Reason.RETRYING,
    Cause.INVALID_SLURM_SETTINGS: Reason.INVALID_SLURM_SETTINGS,
    Cause.JOB_REJECTED: Reason.JOB_REJECTED,
    Cause.JOB_CANCELLED: Reason.JOB_CANCELLED,
    Cause.POLICY_UNUSABLE: Reason.POLICY_UNUSABLE,
    Cause.NO_SUITABLE_NODE: Reason.NO_SUITABLE_NODE,
    Cause.GANG_INCOMPLETE: Reason.GANG_INCOMPLETE,
    Cause.NODE_BUSY: Reason.NODE_BUSY,
    Cause.BOUND_WITHOUT_SLURM: Reason.BOUND_WITHOUT_SLURM,
}


@pytest.mark.parametrize("reasons", [Reason, Cause])
def test_no_reason_is_another_name_of_one_that_there_is(reasons: type[enum.StrEnum]) -> None:
    assert enum.unique(reasons) is reasons


@pytest.mark.parametrize("reason", [*Reason, *Cause])
def test_a_reason_has_the_name_of_its_value_so_that_a_search_for_an_event_finds_it(reason: Reason | Cause) -> None:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", reason.value).upper()
    assert reason.name in {words, words.removeprefix("SLURM_")}


@pytest.mark.parametrize(("condition", "event"), ONE_THING.items())
def test_a_condition_and_an_event_of_one_thing_have_one_reason(condition: Cause, event: Reason) -> None:
    assert condition.value == event.value


def test_no_other_reasons_of_conditions_and_events_are_one_word() -> None:
    assert {str(one) for one in Cause} & {str(one) for one in Reason} == {str(one) for one in ONE_THING}


def test_status_on_pods_is_apart_from_settings() -> None:
    assert all(key.startswith(wellknown.STATUS_PREFIX) for key in wellknown.STATUS_ANNOTATIONS)
    assert not wellknown.STATUS_PREFIX.startswith(wellknown.OWN_PREFIX)
