"""A roster shows each member of a gang by rank, and says in one sentence what is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from extender.domain.events import MemberRef, PodEnd
from extender.domain.gangs.membership import GangSource, MemberOrder, Membership
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, Placeholder
from extender.domain.printable import shortened
from extender.domain.states import BoundState, GrantedState, PlaceholderJob
from extender.domain.views import PodView
from extender.observability import gang_rosters
from extender.observability.gang_rosters import GangRoster, MemberState, roster
from extender.observability.gangs import GangState

PODS = {f"u{number}": PodView(f"u{number}", "team", f"train-{number}") for number in range(9)}
NODES = ("n1", "n2", "n3")


def memberships(count: int, size: int = 3) -> dict[str, Membership]:
    return {
        f"u{number}": Membership(
            GangSource.JOB, "team", "Job train", ("job",), size, MemberOrder((number,), f"train-{number}")
        )
        for number in range(count)
    }


def granted(members: int = 3, *, bound: int = 0) -> Placeholder:
    job = PlaceholderJob(7, slurm_nodes=NODES)
    refs = [MemberRef(f"u{number}", "team", f"train-{number}") for number in range(members)]
    allocation = tuple((ref.uid, f"k{number + 1}") for number, ref in enumerate(refs))
    return Placeholder(
        "gang-1",
        BoundState(job, allocation) if bound == members else GrantedState(job, allocation),
        members=tuple(
            Member(ref, number, f"k{number + 1}" if number < bound else "") for number, ref in enumerate(refs)
        ),
        request=JobRequest("t", members=3, cpus=1, memory_mb=1),
    )


def listed(
    said: Mapping[str, Membership],
    p: Placeholder | None,
    *,
    lacks: str = "",
    absent: str = "",
    voted: Collection[str] = (),
) -> GangRoster:
    return roster("gang-1", said, p, lacks, absent=absent, pod=PODS.get, voted=voted)


def test_a_gang_that_lacks_pods_shows_those_that_exist_and_how_many_are_missing() -> None:
    found = listed(memberships(2), None, lacks="2 of 3 Pods of Job train exist.")
    assert (found.namespace, found.name, found.source, found.size) == ("team", "Job train", "job", 3)
    assert (found.state, found.job_id, found.bound) == (GangState.INCOMPLETE, None, 0)
    assert found.missing == "2 of 3 Pods of Job train exist."
    assert [(row.pod, row.rank, row.state) for row in found.rows] == [
        ("team/train-0", None, MemberState.WAITING),
        ("team/train-1", None, MemberState.WAITING),
    ]


def test_members_with_nodes_show_rank_slot_and_vote_and_those_not_accepted_are_named() -> None:
    found = listed(memberships(3), granted(), voted={"u0", "u2"})
    assert found.state is GangState.GRANTED
    assert [(row.rank, row.slurm_node, row.node, row.state) for row in found.rows] == [
        (0, "n1", "k1", MemberState.VOTED),
        (1, "n2", "k2", MemberState.WAITING),
        (2, "n3", "k3", MemberState.VOTED),
    ]
    assert found.missing == "kube-scheduler has not accepted team/train-1 on a node; none is bound before all are."


def test_a_pod_that_is_missing_after_the_grant_goes_before_the_votes() -> None:
    found = listed(memberships(2), granted(2), absent="2 of 3 Pods of Job train exist.", voted={"u0"})
    assert (found.state, found.missing) == (GangState.GRANTED, "2 of 3 Pods of Job train exist.")
    assert found.empty == ((2, "n3"),)


def test_a_bound_gang_lacks_nothing() -> None:
    found = listed(memberships(3), granted(bound=3))
    assert (found.state, found.bound, found.missing, found.empty) == (GangState.BOUND, 3, "", ())


def test_slots_that_wait_for_a_successor_are_named_and_those_of_pods_that_succeeded_are_not() -> None:
    p = granted(bound=3)
    first, second, third = p.members
    p = replace(p, members=(first, replace(second, end=PodEnd.FAILED), replace(third, end=PodEnd.SUCCEEDED)))
    found = listed(memberships(3), p)
    assert found.missing == "1 of 3 slots of Slurm job 7 wait for their Pods: rank 1."
    assert found.empty == ((1, "n2"), (2, "n3"))
    assert [row.state for row in found.rows] == [MemberState.BOUND, MemberState.ENDED, MemberState.ENDED]


def test_a_pod_beyond_the_size_is_unneeded_and_comes_last() -> None:
    found = listed(memberships(4), granted(bound=3))
    assert [(row.pod, row.rank, row.state) for row in found.rows][-1] == ("team/train-3", None, MemberState.UNNEEDED)


def test_a_member_that_ends_or_whose_binding_is_sent_says_so() -> None:
    p = granted()
    first, second, third = p.members
    p = replace(p, members=(replace(first, binding=True), replace(second, ending=True), third))
    assert [row.state for row in listed(memberships(3), p).rows] == [
        MemberState.BINDING,
        MemberState.ENDING,
        MemberState.WAITING,
    ]


def test_a_roster_is_bounded_and_says_how_many_are_left_out() -> None:
    many = memberships(gang_rosters.MOST_MEMBERS + 3, size=5000)
    found = listed(many, None, lacks="x")
    assert (len(found.rows), found.left_out) == (gang_rosters.MOST_MEMBERS, 3)


def test_a_sentence_names_a_few_pods_and_counts_the_others() -> None:
    waiting = [f"team/train-{number}" for number in range(8)]
    assert shortened(waiting, gang_rosters.NAMED) == (
        "team/train-0, team/train-1, team/train-2, team/train-3, team/train-4 and 3 more"
    )


def test_after_a_restart_a_gang_whose_pods_have_not_been_read_is_known_by_its_job() -> None:
    found = listed({}, replace(granted(bound=3), title="team/Job train"))
    assert (found.namespace, found.name, found.state, found.size) == ("team", "team/Job train", GangState.BOUND, 3)
