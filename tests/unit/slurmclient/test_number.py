from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmclient.number import (
    INFINITE,
    Infinite,
    decode_integer,
    decode_limit,
    decode_number,
    decode_time,
    encode_number,
    encode_time,
)


@given(st.integers(0, 2**31))
def test_a_number_that_was_written_is_read_back(value: int) -> None:
    assert decode_number(encode_number(value)) == value


def test_infinity_is_read_back() -> None:
    assert decode_number(encode_number(INFINITE)) is INFINITE


@given(st.one_of(st.integers(0, 2**31), st.just(INFINITE)))
def test_a_written_number_is_always_set(value: int | Infinite) -> None:
    assert encode_number(value)["set"] is True


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"set": True, "infinite": False, "number": 30}, 30),
        ({"set": True, "infinite": False, "number": 0}, 0),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": False, "infinite": True, "number": 0}, INFINITE),
        ({"number": 30}, None),
        ({}, None),
        (None, None),
        (30, 30),
        (0.5, 0.5),
        ("30", 30),
        ("0.5", 0.5),
        ("UNLIMITED", None),
        (True, None),
        ([], None),
        (math.nan, None),
        (math.inf, INFINITE),
        ({"set": True, "infinite": False, "number": math.inf}, INFINITE),
        (0xFFFFFFFE, None),
        (0xFFFFFFFF, INFINITE),
        (0xFFFFFFFFFFFFFFFE, None),
        (0xFFFFFFFFFFFFFFFF, INFINITE),
    ],
)
def test_every_form_of_a_number_is_read(raw: object, expected: object) -> None:
    assert decode_number(raw) == expected


def test_a_limit_keeps_infinity_and_an_integer_drops_it() -> None:
    unlimited = {"set": False, "infinite": True, "number": 0}
    assert decode_limit(unlimited) is INFINITE
    assert decode_integer(unlimited) is None
    assert decode_limit(2.0) == 2


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"set": True, "infinite": False, "number": 1795235581}, 1795235581),
        (1795235581, 1795235581),
        ({"set": True, "infinite": False, "number": 0}, None),
        ({"set": False, "infinite": False, "number": 0}, None),
        ({"set": True, "infinite": False, "number": 1795235581 + 2**32}, None),
        ({"set": False, "infinite": True, "number": 0}, None),
    ],
)
def test_a_moment_is_none_when_unset_zero_or_never(raw: object, expected: int | None) -> None:
    assert decode_time(raw) == expected


def test_a_moment_is_written_in_the_form_that_every_version_reads() -> None:
    assert encode_time(1795218119) == "uts1795218119"
