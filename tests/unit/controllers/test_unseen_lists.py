"""Lists of nodes that a caller of `/filter` sends for Pods that it invents: how many are kept."""

from __future__ import annotations

import pytest

from extender.controllers import scheduling
from extender.controllers.scheduling import CandidateLists, UnseenLists, size_of

NODES = [f"node-{number:04}" for number in range(1000)]
"""A list of 140 KB."""


def test_invented_pods_are_admitted_up_to_a_number_and_up_to_their_bytes() -> None:
    lists = UnseenLists(lambda _uid: False)
    small = [uid for uid in map(str, range(5000)) if lists.admit(uid, ["n1"])]
    assert len(small) == scheduling.UNSEEN_KEPT
    lists = UnseenLists(lambda _uid: False)
    large = [uid for uid in map(str, range(5000)) if lists.admit(uid, NODES)]
    assert len(large) == scheduling.UNSEEN_BYTES // size_of(NODES)
    assert not lists.admit("another", NODES)
    lists.drop(large[0])
    assert lists.admit("another", NODES)


def test_a_later_list_of_an_invented_pod_takes_the_place_of_its_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "UNSEEN_BYTES", 2 * size_of(NODES))
    lists = UnseenLists(lambda _uid: False)
    assert all(lists.admit("a", NODES) for _ in range(10))
    assert lists.admit("b", NODES)
    assert not lists.admit("a", [*NODES, "n"]), "the list that is kept counts on"
    assert not lists.admit("c", ["n"])


def test_pods_that_the_watch_has_shown_meanwhile_make_room_and_are_always_admitted() -> None:
    seen: set[str] = set()
    lists = UnseenLists(seen.__contains__)
    uids = [str(number) for number in range(scheduling.UNSEEN_KEPT)]
    assert all(lists.admit(uid, ["n1"]) for uid in uids)
    seen.update(uids[:10], {"real"})
    assert lists.admit("real", NODES)
    assert sum(lists.admit(f"more-{number}", ["n1"]) for number in range(20)) == 10


def test_different_lists_are_kept_up_to_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "LIST_BYTES_KEPT", 10 * size_of(NODES))
    lists = CandidateLists()
    first = lists.one(NODES)
    assert lists.one(NODES) is first
    for number in range(20):
        lists.one([*NODES, f"only-{number}"])
    assert len(lists._known) == 9
    assert lists._bytes == sum(map(size_of, lists._known)) <= scheduling.LIST_BYTES_KEPT
    assert lists.one(NODES) is not first, "the oldest has gone"
