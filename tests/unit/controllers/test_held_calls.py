"""Calls of `/bind` that are held: which one is ended where there are too many."""

from __future__ import annotations

from extender.controllers.gangs.held_calls import HeldCall, HeldCalls

MOST = 10


def held_by(calls: HeldCalls) -> list[tuple[str, str]]:
    return [(call.namespace, call.uid) for call in calls.all() if not call.answer.done()]


def hold(calls: HeldCalls, namespace: str, uid: str, *, binding: frozenset[str] = frozenset()) -> HeldCall | None:
    """Hold one more call; return the one that is ended for it."""
    calls.open(namespace, f"gang-of-{namespace}", uid, 0.0)
    ended = calls.excess(lambda call: call.uid not in binding)
    if ended is not None:
        calls.answer(ended.key, ended.uid, "too many")
        calls.close(ended)
    return ended


async def test_a_flood_of_one_namespace_ends_its_own_calls_and_none_of_another() -> None:
    calls = HeldCalls(MOST)
    quiet = [("quiet", f"q{number}") for number in range(4)]
    for namespace, uid in quiet:
        assert hold(calls, namespace, uid) is None
    ended = [hold(calls, "flood", f"f{number}") for number in range(100)]
    assert [call.uid for call in ended if call is not None] == [f"f{number}" for number in range(94)], "the oldest"
    assert held_by(calls)[:4] == quiet
    assert len(held_by(calls)) == MOST


async def test_namespaces_with_as_many_calls_lose_the_oldest_one() -> None:
    calls = HeldCalls(2)
    hold(calls, "a", "a1")
    hold(calls, "b", "b1")
    ended = hold(calls, "c", "c1")
    assert ended is not None
    assert ended.uid == "a1"


async def test_a_call_whose_binding_has_begun_is_not_ended() -> None:
    calls = HeldCalls(2)
    for uid in ("a1", "a2"):
        hold(calls, "a", uid)
    ended = hold(calls, "a", "a3", binding=frozenset({"a1"}))
    assert ended is not None
    assert ended.uid == "a2"
    assert calls.excess(lambda _call: False) is None
