"""When a gang is complete, what it asks, who gets which slot, and when all members may be bound."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.gangs.agreement import Agreed, Disagreed, MemberRequest, agreed
from extender.domain.gangs.completeness import Complete, GangCandidate, Incomplete, completeness
from extender.domain.gangs.layout import assigned, ranks
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.gangs.tenancy import tenant_of
from extender.domain.gangs.votes import Ballot
from extender.domain.jobs.job import JobRequest, RunAs
from extender.domain.views import PodView
from extender.domain.wellknown import GATE
from tests.builders.pod_views import a_pod

MINE = frozenset({GATE})
REQUEST = JobRequest("team/a", cpus=4, memory_mb=1024, gres={"gpu": 1})


def member(number: int, expected: int | None = 4, by_leader: bool = False, **fields: Any) -> GangCandidate:
    pod = a_pod(uid=f"uid-{number}", name=f"ring-{number}", **fields)
    order = MemberOrder((number,), pod.name)
    said = Membership(GangSource.ANNOTATION, "team", "gang ring", ("", "ring"), expected, order, by_leader=by_leader)
    return GangCandidate(pod, said)


def numbers(found: tuple[GangCandidate, ...]) -> list[str]:
    return [one.pod.name for one in found]


def complete(*candidates: GangCandidate) -> Complete:
    said = completeness(candidates, MINE)
    assert isinstance(said, Complete), said
    return said


def missing(*candidates: GangCandidate) -> str:
    said = completeness(candidates, MINE)
    assert isinstance(said, Incomplete), said
    return said.text


def test_edge_case_1_fewer_pods_than_expected_are_counted() -> None:
    assert missing(*map(member, range(3))) == "3 of 4 Pods of gang ring exist."


def test_a_gang_with_all_of_its_pods_is_complete_in_order_of_rank() -> None:
    found = complete(*map(member, (2, 0, 3, 1)))
    assert numbers(found.members) == ["ring-0", "ring-1", "ring-2", "ring-3"]
    assert found.size == 4


def test_edge_case_2_more_pods_than_expected_leave_the_last_ones_out() -> None:
    found = complete(*map(member, range(6)))
    assert numbers(found.members) == ["ring-0", "ring-1", "ring-2", "ring-3"]
    assert numbers(found.beyond) == ["ring-4", "ring-5"]


def test_a_job_set_has_at_least_as_many_members_as_it_has_pods() -> None:
    """Successes of a Job that was deleted may have been counted for the one that has its name by now."""
    pods = [
        replace(one, membership=replace(one.membership, source=GangSource.JOB_SET, expected=2, most=3))
        for one in map(member, range(4))
    ]
    found = complete(*pods)
    assert (found.size, numbers(found.beyond)) == (3, ["ring-3"])


def owned(number: int, created_at: float, index: int | None = None, **fields: Any) -> GangCandidate:
    """A Pod of a Job with three Pods; `index`: its own unless it is a copy of another one."""
    one = member(number, 3, created_at=created_at, **fields)
    order = MemberOrder((number if index is None else index,), one.pod.name)
    return replace(one, membership=replace(one.membership, source=GangSource.JOB, order=order))


def among(*pods: GangCandidate, differs: Collection[str] = (), refused: Collection[str] = ()) -> Complete:
    """What starts where the Pods of these names have another setting, or are refused."""

    def settings(pod: PodView) -> str:
        return "" if pod.name in refused else "other" if pod.name in differs else "of the Job"

    found = completeness(pods, MINE, settings=settings)
    assert isinstance(found, Complete), found
    return found


@pytest.mark.parametrize("left_out", ["differs", "refused"])
@pytest.mark.parametrize("created_at", [1.0, 2.5, 9.0])
def test_a_pod_of_a_job_that_differs_has_no_place_once_enough_others_exist(left_out: str, created_at: float) -> None:
    pods = [owned(0, 2), owned(1, 3), owned(2, 4), owned(7, created_at, 0)]
    found = among(*pods, **{left_out: {"ring-7"}})
    assert numbers(found.members) == ["ring-0", "ring-1", "ring-2"]
    assert numbers(found.beyond) == ["ring-7"]


def test_the_settings_count_that_enough_pods_of_a_job_had_first() -> None:
    later = [owned(number, 9, number - 10) for number in range(10, 20)]
    found = among(*later, owned(0, 2), owned(1, 3), owned(2, 4), differs={one.pod.name for one in later})
    assert numbers(found.members) == ["ring-0", "ring-1", "ring-2"]


def test_of_pods_of_a_job_with_one_index_the_oldest_has_its_place() -> None:
    found = among(owned(7, 3, 0), owned(0, 2), owned(1, 4), owned(2, 5))
    assert numbers(found.members) == ["ring-0", "ring-1", "ring-2"]


def test_of_the_pods_of_a_job_with_different_indexes_the_oldest_have_places() -> None:
    found = among(owned(0, 9), owned(4, 2), owned(5, 3), owned(6, 4))
    assert numbers(found.members) == ["ring-4", "ring-5", "ring-6"]


def test_a_job_set_has_no_more_members_for_pods_that_differ() -> None:
    pods = [owned(0, 2), owned(1, 3), owned(2, 4), owned(7, 9)]
    pods = [replace(one, membership=replace(one.membership, source=GangSource.JOB_SET, most=4)) for one in pods]
    assert among(*pods, differs={"ring-7"}).size == 3
    assert among(*pods).size == 4


def test_a_pod_of_a_gang_whose_owner_needs_none_any_more_is_complete_by_itself() -> None:
    found = complete(member(1, expected=0), member(2, expected=0))
    assert (numbers(found.members), found.size, numbers(found.beyond)) == (["ring-1"], 1, ["ring-2"])


def test_edge_case_3_a_gate_of_another_controller_is_named_with_its_pod() -> None:
    gated = replace(member(3), pod=a_pod(name="ring-3", gates=(GATE, "kueue.x-k8s.io/admission")))
    text = missing(*map(member, range(3)), gated)
    assert text == "Pod team/ring-3 of gang ring still has the scheduling gate kueue.x-k8s.io/admission."


def test_edge_case_5_a_pod_that_ends_counts_as_none() -> None:
    assert "3 of 4" in missing(*map(member, range(3)), member(3, deleted_at=1.0))
    assert "3 of 4" in missing(*map(member, range(3)), member(3, phase="Failed"))


def test_pods_that_the_api_server_lacks_are_named_where_the_gang_needs_them() -> None:
    there, away = list(map(member, range(3))), {"uid-9": member(9).membership}
    said = completeness(there, MINE, away)
    assert said == Incomplete("3 of 4 Pods of gang ring exist.", frozenset({"uid-9"}), few=True)
    assert isinstance(completeness([*there, member(3)], MINE, away), Complete)
    none = completeness([], MINE, away)
    assert isinstance(none, Incomplete)
    assert none.text.startswith("The API server has no Pod of gang ring at the moment.")
    assert none.absent == {"uid-9"}
    with pytest.raises(ValueError, match="at least one Pod"):
        completeness([], MINE, {})


def test_edge_case_33_what_is_not_known_yet_is_said() -> None:
    one = member(0, expected=None)
    unknown = replace(one, membership=replace(one.membership, unknown="PodGroup ring does not exist."))
    assert missing(unknown) == "PodGroup ring does not exist."


def test_members_that_say_different_sizes_wait_and_are_reported() -> None:
    assert "state different sizes: 4, 5" in missing(member(0), member(1, expected=5))


def test_the_leader_alone_completes_a_gang_whose_workers_come_later() -> None:
    found = complete(member(0, by_leader=True))
    assert (numbers(found.members), found.size) == (["ring-0"], 4)
    assert "0 of 4" in missing(member(0, by_leader=True, phase="Failed"))


def member_request(number: int, **fields: Any) -> MemberRequest:
    pod = f"team/ring-{number}"
    return MemberRequest(pod, replace(REQUEST, **({"title": pod} | fields)))


def test_a_gang_with_a_member_that_needs_a_whole_node_gets_whole_nodes() -> None:
    said = agreed("team/ring", [member_request(0), member_request(1, cpus=1, memory_mb=0, whole_node=True)], 2)
    assert isinstance(said, Agreed)
    assert (said.request.cpus, said.request.memory_mb, said.request.whole_node) == (4, 0, True)


def test_a_gang_requests_as_many_nodes_as_it_has_members() -> None:
    said = agreed("team/ring", [member_request(0), member_request(1)], 2)
    assert isinstance(said, Agreed)
    assert said.request == replace(REQUEST, title="team/ring", members=2)
    assert said.notice == ""


def test_a_job_name_of_the_members_is_kept_and_must_be_the_same() -> None:
    said = agreed("team/ring", [member_request(0, title="mine"), member_request(1, title="mine")], 2)
    assert isinstance(said, Agreed)
    assert said.request.title == "mine"
    for other in ("else", "team/ring-1"):
        assert isinstance(
            agreed("team/ring", [member_request(0, title="mine"), member_request(1, title=other)], 2), Disagreed
        )
    assert isinstance(agreed("team/ring", [member_request(0), member_request(1, title="mine")], 2), Disagreed)


def test_members_that_do_not_exist_yet_request_as_the_others_do() -> None:
    said = agreed("team/ring", [member_request(0)], 4)
    assert isinstance(said, Agreed)
    assert said.request.members == 4


def test_edge_case_4_every_setting_in_which_members_differ_is_named() -> None:
    said = agreed(
        "team/ring", [member_request(0, account="physics"), member_request(1, account="biology", qos="high")], 2
    )
    assert isinstance(said, Disagreed)
    account, qos = said.faults
    assert account.startswith('account: team/ring-0 has "physics" and team/ring-1 has "biology"')
    assert qos.startswith('qos: team/ring-0 has nothing and team/ring-1 has "high"')


def test_the_largest_member_sets_the_size_and_a_notice_says_so() -> None:
    said = agreed(
        "team/ring",
        [member_request(0, cpus=2), member_request(1, gres={"gpu": 2, "nvme": 1}), member_request(2, memory_mb=2048)],
        3,
    )
    assert isinstance(said, Agreed)
    request = said.request
    assert (request.cpus, request.memory_mb, request.gres) == (4, 2048, {"gpu": 2, "nvme": 1})
    assert "4 CPUs, 2048 MiB, 2 gpu, 1 nvme" in said.notice


def test_a_tenant_is_user_account_and_qos() -> None:
    one = replace(REQUEST, account="physics", qos="high", run_as=RunAs(1000, 100))
    assert tenant_of(one) == tenant_of(replace(one, cpus=9))
    for other in (replace(one, account="x"), replace(one, qos="x"), replace(one, run_as=None)):
        assert tenant_of(other) != tenant_of(one)


def test_ranks_follow_slots_in_the_order_of_slurms_nodes() -> None:
    assert assigned(["b", "a", "c"], 3, {}) == ("b", "a", "c")
    assert assigned(["a", "c"], 3, {0: "b", 2: "c"}) == ("b", "a", "c")
    assert assigned(["a"], 3, {1: "a"}) == ("", "a", "")


def test_a_free_node_of_a_job_that_gave_up_others_is_of_the_slot_between_its_neighbours() -> None:
    """After a start no Pod says who had it: ranks 1 and 3 are open, and the order of nodes says that it is rank 3."""
    assert assigned(["n1", "n3", "n4", "n5"], 5, {0: "n1", 2: "n3", 4: "n5"}) == ("n1", "", "n3", "n4", "n5")
    assert assigned(["n2", "n3"], 3, {2: "n3"}) == ("n2", "", "n3")
    assert assigned(["n1", "n2"], 3, {0: "n2"}) == ("n2", "n1", ""), "in another order than that of slots"


def test_a_bound_member_keeps_its_rank_and_the_others_take_the_free_ones() -> None:
    orders = {f"uid-{number}": MemberOrder((number,), "x") for number in range(3)}
    assert ranks(orders, 3, {"uid-2": 0}) == {"uid-2": 0, "uid-0": 1, "uid-1": 2}
    assert ranks(orders, 3, {"uid-2": 2}) == {"uid-0": 0, "uid-1": 1, "uid-2": 2}


def test_names_are_compared_with_numbers_as_numbers() -> None:
    orders = {name: MemberOrder((), name) for name in ("w-10", "w-9", "w-09a", "launcher")}
    assert sorted(orders, key=lambda uid: ranks(orders, 4)[uid]) == ["launcher", "w-9", "w-09a", "w-10"]


@given(st.lists(st.text("a1209-.", max_size=8), max_size=4))
def test_names_are_compared_by_each_character_and_each_number_in_turn(names: list[str]) -> None:
    def parts(name: str) -> list[tuple[int, int, str]]:
        found = re.findall("[0-9]+|[^0-9]", name)
        return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in found]

    orders = {name: MemberOrder((), name) for name in names}
    assert [parts(name) for name in sorted(orders, key=lambda name: orders[name].key)] == sorted(map(parts, orders))


def test_a_leader_has_rank_0_and_a_late_worker_its_own_index() -> None:
    assert ranks({"leader": MemberOrder((0,), "l"), "worker": MemberOrder((3,), "w")}, 4) == {"leader": 0, "worker": 3}


def test_edge_case_24_indexes_beyond_the_size_are_counted_instead() -> None:
    assert ranks({"a": MemberOrder((6,), "a"), "b": MemberOrder((3,), "b")}, 2) == {"b": 0, "a": 1}


def test_packed_members_fill_one_node_after_the_other() -> None:
    assert assigned(["n1", "n2"], 5, {}, {"n1": 4, "n2": 1}) == ("n1", "n1", "n1", "n1", "n2")
    assert assigned(["n1", "n2"], 3, {1: "n1"}, {"n1": 2, "n2": 1}) == ("n1", "n1", "n2")
    assert assigned(["n1"], 5, {}, {"n1": 4})[-1] == ""


@given(
    st.dictionaries(
        st.text("abc0123456789", min_size=1, max_size=8),
        st.builds(
            MemberOrder,
            st.lists(st.integers(0, 9), max_size=2).map(tuple),
            st.text("abc0123456789-", max_size=9),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_two_members_have_one_rank_and_each_rank_has_a_slot(orders: dict[str, MemberOrder]) -> None:
    size = len(orders)
    found = ranks(orders, size)
    assert sorted(found.values()) == list(range(size)) or max(found.values()) < size
    assert len(set(found.values())) == size


MEMBERS = ("a", "b", "c")
VALID_S = 20.0


def ballot(*votes: tuple[str, str, float]) -> Ballot:
    found = Ballot(7, VALID_S)
    for uid, node, at in votes:
        found = found.cast(uid, node, at)
    return found


def test_a_gang_is_bound_when_each_member_has_voted_whenever_that_was() -> None:
    votes = ballot(("a", "n1", 0.0), ("b", "n2", 5.0))
    assert votes.missing(MEMBERS, 5.0) == {"c"}
    assert not votes.is_complete(MEMBERS, 5.0)
    assert votes.cast("c", "n3", 19.0).is_complete(MEMBERS, 19.0)


def test_a_vote_expires_and_can_be_cast_again() -> None:
    votes = ballot(("a", "n1", 0.0), ("b", "n2", 5.0)).cast("c", "n3", VALID_S)
    assert votes.missing(MEMBERS, VALID_S) == {"a"}
    assert votes.cast("a", "n1", 21.0).is_complete(MEMBERS, 21.0)


def test_a_vote_of_a_large_gang_counts_until_kube_scheduler_can_have_tried_every_member() -> None:
    members = [f"m{number}" for number in range(512)]
    votes, now = Ballot(7, VALID_S, len(members)), 0.0
    for uid in members:
        now += 0.08
        votes = votes.cast(uid, "n", now)
    assert now > 2 * VALID_S
    assert votes.is_complete(members, now)


def test_an_event_of_a_node_or_a_pod_voids_its_votes_alone() -> None:
    votes = ballot(("a", "n1", 0.0), ("b", "n1", 0.0), ("c", "n3", 0.0))
    assert votes.without_node("n1").missing(MEMBERS, 1.0) == {"a", "b"}
    assert votes.without_pod("c").missing(MEMBERS, 1.0) == {"c"}


def test_one_member_cannot_vote_for_another_and_none_is_no_gang() -> None:
    assert not ballot(*[("a", f"n{number}", 0.0) for number in range(3)]).is_complete(MEMBERS, 0.0)
    assert not Ballot(7, VALID_S).is_complete((), 0.0)


@pytest.mark.parametrize("late", range(4))
def test_members_out_of_phase_pass_whenever_each_votes_within_the_life_of_a_vote(late: int) -> None:
    votes, now = Ballot(7, VALID_S), 0.0
    for turn in range(12):
        now += 4.0
        votes = votes.cast(f"{(turn + late) % 4}", "n", now)
    assert votes.is_complete(["0", "1", "2", "3"], now)
