"""Which slot a Pod gets that comes after the grant of its gang."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.domain import events as e
from extender.domain.gangs.agreement import misfit
from extender.domain.gangs.completeness import GangCandidate
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.gangs.successors import Seating, came_later, seating
from extender.domain.jobs.job import Exclusive, JobRequest, RunAs
from extender.domain.placeholder import Member, Placeholder
from extender.domain.states import BoundState, PlaceholderJob
from extender.domain.views import PodView
from extender.domain.wellknown import GATE
from tests.builders.pod_views import a_pod

REQUEST = JobRequest("team/ring", cpus=4, memory_mb=1024, members=3, gres={"gpu": 1})
NODES = ("n1", "n2", "n3")


def later(number: int, **fields: Any) -> GangCandidate:
    pod = a_pod(uid=f"new-{number}", name=f"ring-{number}", **fields)
    order = MemberOrder((number,), pod.name)
    return GangCandidate(pod, Membership(GangSource.ANNOTATION, "team", "gang ring", ("", "ring"), 3, order))


def running(*live: int, left: tuple[str, ...] = NODES, wanting: tuple[int, ...] = ()) -> Placeholder:
    members = tuple(
        Member(
            e.MemberRef(f"uid-{slot}", "team", f"ring-{slot}"),
            slot,
            node="" if slot in wanting else f"n{slot + 1}",
            job_id=None if slot in wanting else 7,
            end=None if slot in live or slot in wanting else e.PodEnd.FAILED,
        )
        for slot in range(3)
    )
    job = PlaceholderJob(7, slurm_nodes=left, slots=NODES)
    return Placeholder("gang-1", BoundState(job, ()), members=members, request=REQUEST)


def seats(p: Placeholder, *candidates: GangCandidate, **of: JobRequest) -> Seating:
    requests = {one.pod.uid: of.get(f"m{one.membership.order.index[0]}", REQUEST) for one in candidates}
    return seating(p, REQUEST, candidates, requests, [GATE])


def uids(found: Seating) -> dict[int, str]:
    return {slot: ref.uid for slot, ref in found.slots.items()}


def test_a_member_without_a_slot_of_its_own_has_none_that_another_one_has() -> None:
    p = running(0, 2)
    late = Member(e.MemberRef("late", "team", "ring-1"))
    p = replace(p, members=(p.members[0], p.members[2], late))
    assert [(slot, member.ref.uid) for slot, member in p.by_slot] == [(0, "uid-0"), (2, "uid-2"), (1, "late")]


def test_edge_case_13_a_successor_takes_the_slot_of_its_index() -> None:
    found = seats(running(0), later(2))
    assert (uids(found), found.changed) == ({0: "uid-0", 2: "new-2"}, True)


def test_edge_case_24_a_pod_of_another_index_takes_the_first_free_slot() -> None:
    assert uids(seats(running(0), later(7))) == {0: "uid-0", 1: "new-7"}


def test_edge_case_2_a_pod_without_a_free_slot_waits() -> None:
    found = seats(running(0, 1, 2), later(3))
    assert (found.changed, [one.pod.uid for one in found.waiting]) == (False, ["new-3"])


def test_a_pod_that_requests_memory_fits_into_a_gang_whose_members_have_whole_nodes() -> None:
    whole_node = replace(REQUEST, whole_node=True, memory_mb=0)
    assert misfit(whole_node, replace(REQUEST, memory_mb=512)) == ""
    assert misfit(whole_node, whole_node) == ""


def test_a_pod_that_gets_a_whole_node_fits_into_no_gang_that_shares_its_nodes() -> None:
    without_requests = replace(REQUEST, cpus=1, memory_mb=0, gres={}, whole_node=True)
    assert "a whole node" in misfit(REQUEST, without_requests)


def test_a_slot_whose_node_slurm_took_is_not_free() -> None:
    found = seats(running(0, 2, left=("n1", "n3")), later(1))
    assert (found.changed, len(found.waiting)) == (False, 1)


def test_a_member_that_waits_for_a_node_that_slurm_took_moves_to_a_free_slot_or_waits() -> None:
    waits = replace(later(2), pod=a_pod(uid="uid-2", name="ring-2"))
    found = seats(running(0, left=("n1", "n2"), wanting=(2,)), waits)
    assert (uids(found), found.changed) == ({0: "uid-0", 1: "uid-2"}, True)
    found = seats(running(0, 1, left=("n1", "n2"), wanting=(2,)), waits)
    assert (uids(found), found.changed, len(found.waiting)) == ({0: "uid-0", 1: "uid-1"}, True, 1)


def test_pods_that_leave_or_have_a_gate_of_others_or_no_request_get_no_slot() -> None:
    gone, gated, unknown = later(1, deleted_at=1.0), later(2, gates=("x",)), later(1)
    requests = {gone.pod.uid: REQUEST, gated.pod.uid: REQUEST}
    for one in (gone, gated, unknown):
        found = seating(running(0), REQUEST, [one], requests if one is not unknown else {}, [GATE])
        assert (found.changed, found.waiting, found.refused) == (False, (), ())


def test_a_member_without_a_slot_that_fits_into_none_leaves_where_others_run_and_stays_where_none_does() -> None:
    candidates = [later(number) for number in range(3)]
    members = tuple(Member(e.MemberRef(one.pod.uid, one.pod.namespace, one.pod.name)) for one in candidates)
    waiting = replace(running(), members=members)
    other = {"m2": replace(REQUEST, partition="gpu")}
    assert (seats(waiting, *candidates, **other).changed, len(seats(waiting, *candidates, **other).slots)) == (False, 3)
    runs = replace(waiting, members=(replace(members[0], slot=0, node="n1", job_id=7), *members[1:]))
    found = seats(runs, *candidates, **other)
    assert (uids(found), found.changed, len(found.refused)) == ({0: "new-0", 1: "new-1"}, True, 1)


def test_a_pod_that_needs_more_than_its_slot_is_refused_with_what_it_needs() -> None:
    found = seats(running(0), later(1), later(2), m1=replace(REQUEST, cpus=8, gres={"gpu": 2}))
    assert uids(found) == {0: "uid-0", 2: "new-2"}
    ((one, text),) = found.refused
    assert one.pod.uid == "new-1"
    assert text == "It requests 8 CPUs instead of 4, 2 gpu instead of 1, which the job of its gang gives each member."


@pytest.mark.parametrize(
    "other",
    [
        {"account": "physics"},
        {"partition": "gpu"},
        {"run_as": RunAs(1, 1)},
        {"excluded_nodes": ("n1",)},
        {"exclusive": Exclusive.NONE},
        {"tres_per_node": "gres/gpu:a100:1"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_pod_that_may_not_be_on_the_nodes_of_the_job_is_refused(other: dict[str, Any]) -> None:
    assert "the job of its gang has nothing, and this Pod has" in misfit(REQUEST, replace(REQUEST, **other))


@pytest.mark.parametrize("other", [{"cpus": 2}, {"memory_mb": 1}, {"comment": "x"}, {"time_limit_minutes": 5}])
def test_a_pod_that_needs_less_or_says_what_a_running_job_does_not_follow_fits(other: dict[str, Any]) -> None:
    assert misfit(REQUEST, replace(REQUEST, **other)) == ""


def times(*bound_at: float | None, created_at: float) -> dict[str, PodView]:
    running = {f"uid-{slot}": a_pod(uid=f"uid-{slot}", bound_at=at) for slot, at in enumerate(bound_at)}
    return running | {"uid-2": a_pod(uid="uid-2", created_at=created_at)}


@pytest.mark.parametrize(
    ("bound_at", "created_at", "later"),
    [
        ((10.0, 90.0), 20.0, True),
        ((10.0, 90.0), 10.0, False),
        ((10.0, 11.0), 5.0, False),
        ((None, 11.0), 12.0, True),
        ((None, None), 20.0, False),
    ],
)
def test_a_member_came_later_that_was_created_after_another_one_that_runs_was_bound(
    bound_at: tuple[float | None, ...], created_at: float, later: bool
) -> None:
    assert came_later(running(0, 1, wanting=(2,)), times(*bound_at, created_at=created_at)) is later


def test_no_member_came_later_where_none_runs_or_where_a_pod_is_not_known() -> None:
    assert not came_later(running(wanting=(2,)), times(created_at=20.0))
    assert not came_later(running(0, 1, wanting=(2,)), {"uid-0": a_pod(uid="uid-0", bound_at=1.0)})


def test_a_pod_of_another_index_leaves_a_slot_to_the_pod_of_its_own_index() -> None:
    assert uids(seats(running(0, 2), later(0), later(1))) == {0: "uid-0", 1: "new-1", 2: "uid-2"}


def test_of_two_pods_with_the_index_of_a_free_slot_the_older_one_gets_it() -> None:
    older, newer = later(1, created_at=5.0), later(1, created_at=6.0)
    older = replace(older, pod=replace(older.pod, uid="older"))
    found = seats(running(0, 2), newer, older)
    assert (uids(found)[1], [one.pod.uid for one in found.waiting]) == ("older", ["new-1"])
