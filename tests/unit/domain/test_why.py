"""Why a Pod waits: every state and every reason of Slurm has its sentence, which stays while nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate.why import render
from extender.domain import events as e
from extender.domain.job_outcomes.slurm_states import REASONS
from extender.domain.placeholder import State
from extender.domain.pods.why import LONGEST, MEANINGS, Cause, QueuePosition, WaitContext, cause_of_reason, why
from extender.domain.states import PlaceholderJob, WaitingState
from tests.builders.placeholders import (
    JOB,
    Life,
    absent,
    bound,
    cleared,
    granted,
    lost,
    refused,
    releasing,
    submitting,
    unsure,
    waiting,
)

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00Z
CONTEXT = WaitContext(NOW)

STATES: dict[State, tuple[Callable[[], Life], Cause]] = {
    State.ABSENT: (absent, Cause.NO_NODE_OFFERED),
    State.SUBMITTING: (submitting, Cause.JOB_SUBMITTING),
    State.UNSURE: (unsure, Cause.JOB_LOOKUP),
    State.WAITING: (waiting, Cause.JOB_QUEUED),
    State.GRANTED: (granted, Cause.NODE_CHECKING),
    State.BOUND: (bound, Cause.ALLOCATED),
    State.LOST: (lost, Cause.ALLOCATION_ENDING),
    State.RELEASING: (releasing, Cause.POD_TERMINATING),
    State.REFUSED: (refused, Cause.JOB_CANCELLED),
}


def test_every_state_with_a_pod_has_its_sentence() -> None:
    assert STATES.keys() | {State.GONE} == set(State)
    for make, _ in STATES.values():
        assert re.fullmatch(r"[A-Z].*\.", why(make().p, CONTEXT).text)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_state_has_its_cause(state: State) -> None:
    make, cause = STATES[state]
    p = make().p
    assert p.state is state
    if state is State.RELEASING and p.wants:
        cause = Cause.RETRYING
    assert why(replace(p, request=p.request or p.submitted_request), CONTEXT).cause in {cause, Cause.POD_NOT_READ}


@pytest.mark.parametrize("rule", REASONS, ids=lambda rule: rule.reason or "none")
def test_every_reason_of_slurm_has_a_cause_and_its_words(rule: object) -> None:
    reason = rule.reason.replace("*", "X")  # type: ignore[attr-defined]
    p = replace(waiting().p, reason=f"{rule.text} ({reason or 'None'}).")  # type: ignore[attr-defined]
    said = why(p, replace(CONTEXT, place=QueuePosition("batch", reason)))
    assert said.cause is cause_of_reason(rule.means)  # type: ignore[attr-defined]
    assert said.text == (
        f"Slurm job 7 waits: {rule.text} ({reason or 'None'}). Partition: batch."  # type: ignore[attr-defined]
    )


def test_position_and_start_are_shown_where_slurm_knows_them() -> None:
    place = QueuePosition("batch", "Priority", starts_at=NOW + 1000, before=3)
    said = why(replace(waiting().p, reason="It waits (Priority)."), replace(CONTEXT, place=place)).text
    assert said == (
        "Slurm job 7 waits: It waits (Priority). Partition: batch. 3 other Pods are ahead of it in this partition. "
        "Slurm expects it to start at about 2027-01-15 08:20Z."
    )


@pytest.mark.parametrize("reason", ["QOSGrpCpuLimit", "JobHeldUser", "Dependency", "ReqNodeNotAvail"])
def test_the_order_of_the_queue_is_not_shown_where_it_does_not_matter(reason: str) -> None:
    said = why(waiting().p, replace(CONTEXT, place=QueuePosition("batch", reason, before=3))).text
    assert "before it" not in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (QueuePosition("batch", "Priority", before=41), QueuePosition("batch", "Priority", before=44)),
        (
            QueuePosition("batch", "Priority", starts_at=NOW + 1001),
            QueuePosition("batch", "Priority", starts_at=NOW + 1190),
        ),
        (
            QueuePosition("batch", "Priority", starts_at=NOW + 40_000),
            QueuePosition("batch", "Priority", starts_at=NOW + 42_000),
        ),
    ],
)
def test_what_hardly_differs_is_reported_in_the_same_words(one: QueuePosition, other: QueuePosition) -> None:
    p = waiting().p
    assert why(p, replace(CONTEXT, place=one)) == why(p, replace(CONTEXT, place=other))


def test_a_start_that_should_have_been_is_not_reported() -> None:
    assert "expects" not in why(waiting().p, replace(CONTEXT, place=QueuePosition(starts_at=NOW - 1))).text


@pytest.mark.parametrize("state", [State.SUBMITTING, State.UNSURE, State.WAITING], ids=str)
def test_while_slurm_is_away_that_is_reported_first_and_then_what_was_known(state: State) -> None:
    p = STATES[state][0]().p
    said = why(p, replace(CONTEXT, slurm_away=NOW - 100))
    assert said.cause is Cause.SLURM_UNREACHABLE
    assert said.text.startswith("Slurm has not answered since 2027-01-15 07:58:20Z. Before that: ")
    assert said.text.endswith(why(p, CONTEXT).text)


def test_of_a_job_that_was_queued_a_moment_ago_nothing_is_made_up() -> None:
    p = submitting().notify(e.SubmitAccepted(1, JOB, behind=True)).p
    found = why(p, CONTEXT)
    assert found.cause is Cause.JOB_QUEUED
    assert found.text == f"Slurm job {JOB} was queued; the extender reads its reason soon."


def test_gates_of_others_are_named() -> None:
    said = why(absent().p, replace(CONTEXT, gates=("kueue.x-k8s.io/admission",), gated=True))
    assert said.cause is Cause.OTHER_SCHEDULING_GATES
    assert "kueue.x-k8s.io/admission" in said.text


@pytest.mark.parametrize("make", [absent, granted, cleared, lambda: Life(replace(absent().p, request=None))])
def test_a_missing_resource_claim_is_reported_with_what_to_do(make: Callable[[], Life]) -> None:
    lacks = "ResourceClaim team/own, which Pod team/web names, does not exist. Create it, or delete the Pod."
    said = why(
        make().p,
        replace(CONTEXT, missing_resource_claim=lacks, gang="1 of 2 Pods exist.", gates=("example.org/later",)),
    )
    assert said.cause is Cause.RESOURCE_CLAIM_MISSING
    assert said.text.endswith(lacks)


def test_a_missing_resource_claim_is_added_to_what_a_job_waits_for() -> None:
    place = QueuePosition("batch", "Resources")
    said = why(
        waiting().p, replace(CONTEXT, missing_resource_claim="ResourceClaim team/own does not exist.", place=place)
    )
    assert said.cause is Cause.JOB_QUEUED
    assert said.text.endswith("Partition: batch. ResourceClaim team/own does not exist.")


def test_a_policy_that_cannot_be_used_is_reported() -> None:
    said = why(replace(absent().p, request=None), replace(CONTEXT, policy_trouble="/etc/policy: line 3: no rule"))
    assert said.cause is Cause.POLICY_UNUSABLE
    assert "line 3" in said.text
    assert why(replace(absent().p, request=None), CONTEXT).cause is not Cause.POLICY_UNUSABLE
    assert why(absent().p, replace(CONTEXT, policy_trouble="/etc/policy: line 3")).cause is not Cause.POLICY_UNUSABLE


def test_a_granted_pod_shows_what_keeps_its_node_and_then_that_it_is_to_be_bound() -> None:
    kept = why(replace(granted().p, reason="Slurm node n1 is kept: a Pod may still be there."), CONTEXT)
    assert kept.cause is Cause.NODE_BUSY
    assert "n1" in kept.text
    assert why(cleared().p, CONTEXT).cause is Cause.WAITING_FOR_BINDING


def test_a_grant_without_a_node_of_kubernetes_is_reported() -> None:
    job = PlaceholderJob(JOB, slurm_nodes=("c7",))
    p = replace(waiting().p, reason="", payload=WaitingState(job, doubted_since=0.0))
    said = why(p, CONTEXT)
    assert said.cause is Cause.NODE_NOT_MAPPED
    assert "c7" in said.text


def test_faults_of_the_pod_are_all_reported() -> None:
    p = replace(refused().p, cancelled=None, faults=("cpus: -1", "mode: what"))
    said = why(p, CONTEXT)
    assert said.cause is Cause.INVALID_SLURM_SETTINGS
    assert "cpus: -1" in said.text
    assert "mode: what" in said.text


def test_no_sentence_is_longer_than_an_event_takes() -> None:
    said = why(replace(refused().p, cancelled=None, reason="x" * 5000), CONTEXT)
    assert len(said.text) == LONGEST


def test_every_cause_is_a_reason_as_the_api_server_takes_it_and_is_explained() -> None:
    assert MEANINGS.keys() == set(Cause)
    assert all(re.fullmatch(r"[A-Z][A-Za-z]*", cause) for cause in Cause)


def test_the_page_is_as_the_tables_are() -> None:
    assert Path("docs/reference/why.md").read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("at", [6e14, 2.0**62, 253402300799.0])
def test_a_start_that_no_calendar_has_is_said_all_the_same(at: float) -> None:
    place = QueuePosition("batch", "BeginTime", starts_at=at)
    assert "more than a hundred years" in why(waiting().p, replace(CONTEXT, place=place)).text
