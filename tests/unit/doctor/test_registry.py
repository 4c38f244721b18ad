"""A check runs if the facts that it needs are known, in the order of its definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.doctor.finding import Finding, ok
from extender.doctor.registry import CheckGroup


def test_checks_run_in_order_and_one_whose_facts_are_unknown_is_left_out() -> None:
    check = CheckGroup()

    @check(needs=lambda facts: (facts.now, "second"))
    def first(now: float, word: str) -> Iterator[Finding]:
        yield ok("first", f"{now:g} {word}")

    @check(needs=lambda facts: (facts.now,) if facts.now > 1 else None)
    def unknown(_now: float) -> Iterator[Finding]:
        raise AssertionError("its facts are not known")

    @check(needs=lambda _facts: ())
    def last() -> list[Finding]:
        return [ok("last", "no facts needed")]

    facts: Any = type("SomeFacts", (), {"now": 1.0})
    assert [one.seen for one in check.judge(facts)] == ["1 second", "no facts needed"]
    assert [one.seen for one in first(2.0, "direct")] == ["2 direct"]
