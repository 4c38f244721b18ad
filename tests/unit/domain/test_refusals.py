"""One node asks for all that Slurm refused for the same cause."""

from __future__ import annotations

from extender.domain.nodes.refusals import RETRY_EVERY, NodeRefusal, cause_of, due_retries

UNKNOWN_USER = "POST /new/node: Invalid user id"


def test_one_of_many_retries_that_has_waited_longest_and_they_take_turns() -> None:
    waiting = {name: NodeRefusal(UNKNOWN_USER, at) for name, at in (("a", 3.0), ("b", 1.0), ("c", 2.0))}
    assert due_retries(waiting, 3.0 + RETRY_EVERY - 0.1) == []
    assert due_retries(waiting, 3.0 + RETRY_EVERY) == ["b"]
    assert due_retries(waiting | {"b": NodeRefusal(UNKNOWN_USER, 18.0)}, 18.0 + RETRY_EVERY) == ["c"]


def test_a_node_that_is_refused_for_a_reason_of_its_own_keeps_its_own_time() -> None:
    assert due_retries({"a": NodeRefusal(UNKNOWN_USER, 0.0), "b": NodeRefusal("no such feature", 0.0)}, 1000.0) == []


def test_the_name_of_a_node_is_no_part_of_its_cause() -> None:
    assert cause_of("n1", "DELETE /node/n1: denied") == cause_of("n22", "DELETE /node/n22: denied")
