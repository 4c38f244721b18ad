"""Gangs are counted by state, and slots of running jobs that no live member has."""

from __future__ import annotations

from dataclasses import replace

from extender.domain.events import MemberRef, PodEnd
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, Placeholder, State
from extender.observability.gangs import GangState, empty_slots, gangs_by_state
from tests.builders.placeholders import in_state

REQUEST = JobRequest("team/gang ring", cpus=1, memory_mb=1, members=3)


def a_gang(key: str, state: State, *ends: PodEnd | None) -> Placeholder:
    members = tuple(Member(MemberRef(f"{key}-{at}", "team", f"ring-{at}"), end=end) for at, end in enumerate(ends))
    return replace(in_state(state), key=key, members=members, request=REQUEST)


def test_a_gang_that_lacks_pods_counts_as_incomplete_whatever_its_state() -> None:
    workloads = {"a": a_gang("a", State.ABSENT, None), "b": a_gang("b", State.WAITING, None, None, None)}
    found = gangs_by_state({"a": "1 of 3 Pods of gang ring exist.", "b": "", "c": ""}, workloads)
    assert found[GangState.INCOMPLETE] == 1
    assert found[GangState.WAITING] == 2


def test_each_state_of_a_workload_counts_as_one_of_a_gang() -> None:
    workloads = {state.value: a_gang(state.value, state, None) for state in State}
    found = gangs_by_state(dict.fromkeys(workloads, ""), workloads)
    assert sum(found.values()) == len(State)
    assert (found[GangState.BOUND], found[GangState.ENDING]) == (1, 2)


def test_slots_are_empty_where_a_member_has_ended_or_never_came() -> None:
    workloads = {
        "a": a_gang("a", State.BOUND, None, PodEnd.SUCCEEDED, None),
        "b": a_gang("b", State.GRANTED, None),
        "c": a_gang("c", State.WAITING, None),
    }
    assert empty_slots(workloads, workloads) == 3
