"""Hostlists stand for the names that slurmctld reads from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.translation.hostnames import LARGEST, HostnamesError, expand
from slurmclient import hostlist


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("node-1", ("node-1",)),
        ("b,a", ("b", "a")),
        (" a , b ", ("a", "b")),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,7]", ("n08", "n09", "n10", "n7")),
        ("r[1-2]n[1-2]-x", ("r1n1-x", "r1n2-x", "r2n1-x", "r2n2-x")),
    ],
)
def test_an_expression_stands_for_its_names(expression: str, names: tuple[str, ...]) -> None:
    assert expand(expression) == names


@pytest.mark.parametrize(
    "expression", ["", "a,,b", "a,", "n[1", "n1]", "n[]", "n[3-1]", "n[a-b]", "a b", "-a", "n[[1]]"]
)
def test_anything_else_is_refused(expression: str) -> None:
    with pytest.raises(HostnamesError):
        expand(expression)


@pytest.mark.parametrize(
    "expression",
    ["n[1-999999999]", "n[1-300]x[1-300]", "a" + "[1-9]" * 200, "n" + "[0-65535]" * 60, "n[1-4000],m[1-4000]"],
)
def test_an_expression_for_too_many_names_is_refused_before_it_is_expanded(expression: str) -> None:
    with pytest.raises(HostnamesError, match=str(LARGEST)):
        expand(expression)


def test_the_largest_expression_is_still_read() -> None:
    assert len(expand(f"n[1-{LARGEST}]")) == LARGEST
    assert len(expand(f"a[0-63]b[0-{LARGEST // 64 - 1}]")) == LARGEST
    for one_more in (f"n[0-{LARGEST}]", f"n[1-{LARGEST}],m", f"n[1-{LARGEST},0]"):
        with pytest.raises(HostnamesError):
            expand(one_more)


def test_a_text_longer_than_slurmctld_stores_is_refused_before_it_is_read() -> None:
    assert len(expand(",".join(["n" * 10] * 93))) == 93
    with pytest.raises(HostnamesError, match=r"it has 252000 characters, at most 1023"):
        expand("n" + "[0-65535]" * 27_999 + "[0-9999]")


def test_a_name_longer_than_a_host_name_is_refused_before_it_is_multiplied() -> None:
    assert expand("n" * 251 + "[0-3999]")[-1] == "n" * 251 + "3999"
    for expression in ("n" * 256, "n" * 252 + "[0-4000]", "n" * 600 + "[0-4000]", "n" + "[0]" * 255):
        with pytest.raises(HostnamesError, match="over 255"):
            expand(expression)


def test_an_error_names_the_text_and_the_fault() -> None:
    with pytest.raises(HostnamesError, match=r"^hostlist 'a,,b' has an empty name$"):
        expand("a,,b")
    with pytest.raises(HostnamesError, match=r"^hostlist 'a\]' has unbalanced brackets at position 1$"):
        expand("a]")


@pytest.mark.parametrize("text", ["(null)", "None assigned", " ", "n$1", "n[1-2]/x"])
def test_a_text_that_slurm_writes_for_no_node_or_with_other_characters_is_refused(text: str) -> None:
    with pytest.raises(HostnamesError):
        expand(text)


@given(st.sets(st.from_regex(r"[a-z]{1,3}-?[0-9]{1,3}", fullmatch=True), min_size=1))
def test_what_slurm_writes_is_read_back(names: set[str]) -> None:
    assert set(expand(hostlist.compress(names))) == names
