"""Owners take turns, whatever each of them has queued."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from extender.domain.fair_queue import FairQueue, in_turns


def popped(queue: FairQueue[str]) -> list[str]:
    found: list[str] = []
    while (item := queue.pop()) is not None:
        found.append(item)
    return found


def test_items_of_one_owner_keep_their_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(5):
        queue.push("a", f"a{number}")
    assert popped(queue) == ["a0", "a1", "a2", "a3", "a4"]
    assert len(queue) == 0


def test_an_owner_with_one_item_is_next_but_one() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(240):
        queue.push("flood", f"f{number}")
    assert queue.pop() == "f0"
    queue.push("other", "o")
    assert popped(queue)[:2] == ["f1", "o"]


def test_an_owner_that_comes_back_at_once_does_not_overtake_those_that_wait() -> None:
    queue: FairQueue[str] = FairQueue()
    for owner in ("a", "b", "c"):
        queue.push(owner, owner)
    served: list[str] = []
    for _ in range(9):
        served.append(queue.pop() or "")
        queue.push(served[-1], served[-1])
    assert served == ["a", "b", "c"] * 3


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=100))
def test_no_item_waits_for_more_turns_than_there_are_owners_for_each_of_its_own_items(owners: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    behind: dict[str, int] = {}
    for owner in owners:
        queue.push(owner, (owner, behind.setdefault(owner, 0)))
        behind[owner] += 1
    for turn in range(len(owners)):
        item = queue.pop()
        assert item is not None
        assert turn < (item[1] + 1) * len(behind)
    assert len(queue) == 0
    assert queue.earliest() is None


def test_only_what_is_ready_is_taken_and_it_does_not_wait_for_what_is_not() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("a", "later", at=10.0)
    queue.push("b", "now", at=1.0)
    assert queue.earliest() == 1.0
    assert [queue.pop(lambda at: at <= 5.0), queue.pop(lambda at: at <= 5.0)] == ["now", None]
    assert queue.has(lambda at: at <= 10.0)


def test_room_is_made_by_the_last_item_of_the_longest_share_alone() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(3):
        queue.push("flood", f"f{number}")
    assert queue.make_room("flood") is None
    assert queue.make_room("other") == "f2"
    queue.push("other", "o0")
    assert queue.make_room("other") is None
    assert sorted(queue) == ["f0", "f1", "o0"]
    assert FairQueue[str]().make_room("a") is None


def test_a_list_is_gone_through_in_turns() -> None:
    items = ["a1", "a2", "a3", "b1", "c1", "c2"]
    assert list(in_turns(items, lambda item: item[0])) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert list(islice(in_turns([], str), 1)) == []
