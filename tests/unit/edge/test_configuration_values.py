"""Durations and addresses are read in their forms, and others are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.config.values import BindAddress, read_bind_address, read_duration, write_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30), ("1m30s", 90), ("2h", 7200), ("1.5h", 5400), (0, 0), ("0", 0), (7, 7)],
)
def test_durations_are_read_as_go_reads_them(text: object, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "s", "1d", "1s ", "-1s", "1m-30s", True, None, -1, float("nan"), float("inf")]
)
def test_other_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        read_duration(text)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**12))
def test_a_written_duration_is_read_as_it_was(milliseconds: int) -> None:
    assert round(read_duration(write_duration(milliseconds / 1000)) * 1000) == milliseconds


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":8080", "", 8080),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("[::1]:65535", "::1", 65535),
        ("localhost:80", "localhost", 80),
    ],
)
def test_addresses_to_listen_at(text: str, host: str, port: int) -> None:
    bind = read_bind_address(text)
    assert bind == BindAddress(host, port)
    assert read_bind_address(str(bind)) == bind


@pytest.mark.parametrize("text", ["", ":", ":0", ":65536", "h", "h:x", "::1:80", "http://h:80", 80, None])
def test_other_addresses_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no address to listen at"):
        read_bind_address(text)
