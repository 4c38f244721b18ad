"""How much of a node is asked for, used and left."""

from __future__ import annotations

import pytest

from extender.domain.amount import Amount, at_most, lacking, total


def test_amounts_add_up_by_name() -> None:
    assert total([Amount(1, 10, {"gpu": 1}), Amount(2, 5, {"gpu": 2, "shard": 1})]) == Amount(
        3, 15, {"gpu": 3, "shard": 1}
    )


def test_an_amount_is_shown_without_what_there_is_none_of() -> None:
    assert Amount(1, 0, {"gpu": 2, "shard": 0}).text == "1 CPU, 2 gpu"
    assert Amount(4, 512).text == "4 CPUs, 512 MiB"
    assert Amount(gres={"gpu": 0}).nothing


@pytest.mark.parametrize(
    ("wanted", "size", "used", "short"),
    [
        (Amount(4, 100), Amount(8, 200), Amount(4, 100), Amount()),
        (Amount(5, 101), Amount(8, 200), Amount(4, 100), Amount(1, 1)),
        (Amount(1, 1), Amount(8, 200), Amount(9, 300), Amount(1, 1)),
        (
            Amount(gres={"gpu": 2}),
            Amount(gres={"gpu:a": 1, "gpu:b": 1}),
            Amount(gres={"gpu:a": 1}),
            Amount(gres={"gpu": 1}),
        ),
        (Amount(gres={"gpu:b": 1}), Amount(gres={"gpu:a": 1, "gpu:b": 1}), Amount(gres={"gpu:a": 1}), Amount()),
        (Amount(gres={"gpu:b": 1}), Amount(gres={"gpu:b": 1}), Amount(gres={"gpu": 1}), Amount(gres={"gpu:b": 1})),
        (Amount(gres={"shard": 1}), Amount(8), Amount(), Amount()),
    ],
)
def test_what_a_node_lacks_is_counted_by_resource(wanted: Amount, size: Amount, used: Amount, short: Amount) -> None:
    assert lacking(wanted, size, used) == short


def test_no_more_is_requested_than_a_node_has() -> None:
    assert at_most(Amount(9, 300, {"gpu": 3, "shard": 1}), Amount(8, 200, {"gpu:a": 2})) == Amount(8, 200, {"gpu": 2})
