"""What is shown to people is visible, and says what it says."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.printable import printable

MISLEADING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode: controls, marks of direction and joiners, surrogates, ends of lines and of paragraphs."""


def test_no_character_that_misleads_a_reader_is_left() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert {unicodedata.category(one) for one in printable(every)} & MISLEADING == set()


@pytest.mark.parametrize("text", ["", "plain, with blanks", "Grüße aus Köln", "ノード 3", "\\u202e is written out"])
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_a_string_of_json_stays_the_same_string(text: str) -> None:
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


@given(st.text(st.characters()))
def test_what_is_printed_has_a_form_in_utf8_and_is_one_line(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
