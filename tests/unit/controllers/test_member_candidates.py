"""The job of a gang may only get nodes that each of its live members may use."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from extender.controllers.gangs.candidates import MemberCandidates
from extender.domain import events as e
from extender.domain.jobs.job import JobRequest
from extender.domain.placeholder import Member, Placeholder, State
from extender.engine.placeholder_index import PlaceholderIndex
from extender.runtime.event_bus import EventBus
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten
from tests.builders.placeholders import in_state

KEY = "gang-x"
FEW, ALL = frozenset({"n1"}), frozenset({"n1", "n2"})


class ListsOfGang:
    """Report lists of the members of one gang, and keep what its placeholder gets."""

    def __init__(self, *joined: str) -> None:
        self.joined = set(joined)
        self.sent: list[e.Event] = []
        self.placeholders = PlaceholderIndex()
        self.events = EventBus()
        gangs = SimpleNamespace(is_gang=KEY.__eq__, key_of=lambda uid: KEY if uid in self.joined else None)
        self.members = MemberCandidates(
            self.placeholders, lambda _key, event, _cause: self.sent.append(event), cast("Any", gangs)
        )
        self.events.subscribe(PlaceholderForgotten, self.members.forgotten)
        self.events.subscribe(PlaceholderChanged, self.members.placeholder_changed)

    def report(self, uid: str, nodes: frozenset[str]) -> None:
        self.members.report(KEY, uid, nodes, "gates", computed=True)

    def requests(self, *members: str, candidates: frozenset[str] | None = None) -> None:
        """Let the gang request a job for these members."""
        before = self.placeholders.get(KEY) or Placeholder(KEY)
        p = replace(
            before,
            members=tuple(Member(e.MemberRef(uid, "team", uid)) for uid in members),
            request=JobRequest("x", cpus=1, memory_mb=1),
            candidates=before.candidates if candidates is None else candidates,
        )
        self.placeholders.put(p)
        self.events.publish(PlaceholderChanged(before, p))

    def placed(self, candidates: frozenset[str] | None) -> Placeholder:
        p = replace(in_state(State.WAITING), key=KEY, candidates=candidates)
        self.placeholders.put(p)
        return p


def bounded_by_one() -> ListsOfGang:
    """Return a gang that waits, and may use only the node of its member `old`."""
    gang = ListsOfGang("old", "new")
    gang.report("old", FEW)
    gang.report("new", ALL)
    gang.placed(FEW)
    gang.sent.clear()
    return gang


def test_a_member_that_has_finished_does_not_bound_the_nodes_of_the_others() -> None:
    gang = bounded_by_one()
    gang.members.finished("old")
    assert gang.sent == [e.CandidatesChanged(ALL, computed=True)]


def test_a_pod_that_has_left_does_not_bound_the_nodes_of_the_others() -> None:
    gang = bounded_by_one()
    assert gang.members.left(KEY, "old") == FEW
    assert gang.sent == [e.CandidatesChanged(ALL, computed=True)]


def test_pods_that_came_before_their_gang_requested_its_next_job_have_their_nodes_reported_then() -> None:
    gang = ListsOfGang("old", "new")
    gang.report("old", FEW)
    gang.report("new", ALL)
    gang.joined.discard("old")
    gang.events.publish(PlaceholderForgotten(KEY))
    gang.sent.clear()
    gang.requests("new")
    assert gang.sent == [e.CandidatesChanged(ALL, computed=True)]


def test_lists_of_pods_that_are_gone_are_not_reported_for_a_later_job() -> None:
    gang = ListsOfGang("old")
    gang.report("old", FEW)
    gang.joined.clear()
    gang.events.publish(PlaceholderForgotten(KEY))
    gang.sent.clear()
    before = Placeholder(KEY)
    gang.events.publish(PlaceholderChanged(before, replace(before, request=JobRequest("x", cpus=1, memory_mb=1))))
    assert gang.sent == []


def test_a_pod_beyond_the_members_does_not_bound_the_nodes_of_the_gang() -> None:
    gang = ListsOfGang("old", "surplus")
    gang.report("old", ALL)
    gang.requests("old", candidates=ALL)
    gang.sent.clear()
    gang.report("surplus", FEW)
    assert gang.sent == []


def test_the_list_of_a_pod_that_turns_out_to_be_beyond_the_members_counts_no_more() -> None:
    gang = ListsOfGang("old", "surplus")
    gang.report("old", ALL)
    gang.report("surplus", FEW)
    assert gang.sent[-1] == e.CandidatesChanged(FEW, computed=True)
    gang.sent.clear()
    gang.requests("old", candidates=FEW)
    assert gang.sent == [e.CandidatesChanged(ALL, computed=True)]


def test_the_list_of_a_pod_counts_once_it_takes_the_place_of_a_member() -> None:
    gang = ListsOfGang("old", "surplus")
    gang.report("old", ALL)
    gang.requests("old", candidates=ALL)
    gang.report("surplus", FEW)
    gang.sent.clear()
    gang.requests("surplus")
    assert gang.sent == [e.CandidatesChanged(FEW, computed=True)]


def test_a_gang_of_whose_members_no_list_is_known_has_no_nodes_reported() -> None:
    gang = ListsOfGang("old", "surplus")
    gang.requests("old")
    gang.report("surplus", FEW)
    assert gang.sent == []


def test_a_duplicate_pod_that_leaves_changes_no_nodes() -> None:
    gang = ListsOfGang("old", "surplus")
    gang.report("old", ALL)
    gang.requests("old", candidates=ALL)
    gang.report("surplus", FEW)
    gang.sent.clear()
    assert gang.members.left(KEY, "surplus") == FEW
    assert gang.sent == []
