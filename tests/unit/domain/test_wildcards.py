"""Patterns with stars mean what a regular expression with `.*` means, and take linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.wildcards import matches, stars


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a", "a", ()),
        ("a", "ab", None),
        ("*", "", ("",)),
        ("a*", "abc", ("bc",)),
        ("*a*", "banana", ("banan", "")),
        ("nvidia.com/mig-*", "nvidia.com/mig-1g.10gb", ("1g.10gb",)),
        ("aa*aa", "aaa", None),
        ("*.*/b", "a.b.c/b", ("a.b", "c")),
    ],
)
def test_an_earlier_star_stands_for_as_much_as_possible(
    pattern: str, text: str, expected: tuple[str, ...] | None
) -> None:
    assert stars(pattern, text) == expected


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_what_matches_is_what_a_regular_expression_matches(pattern: str, text: str) -> None:
    found = re.fullmatch("(.*)".join(map(re.escape, pattern.split("*"))), text)
    assert stars(pattern, text) == (None if found is None else found.groups())


def test_many_stars_and_a_long_text_that_almost_matches_are_judged_at_once() -> None:
    assert not matches("*a" * 200 + "*b*", "a" * 200_000)
