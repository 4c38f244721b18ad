from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmclient.hostlist import MOST_NAMES, HostlistError, compress, expand

prefixes = st.sampled_from(["n", "node-", "rack1-n", "gpu0", "a.b-", "n-01-", ""])
numbers = st.one_of(
    st.integers(0, 130).map(str),
    st.integers(0, 130).map(lambda n: f"{n:03d}"),
    st.integers(0, 12).map(lambda n: f"{n:02d}"),
)
names = st.one_of(
    st.builds(lambda prefix, number: prefix + number, prefixes, numbers),
    st.sampled_from(["login", "n1-ib", "node", "x12345678901234567890"]),
)


@pytest.mark.parametrize(
    ("hostlist", "expected"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[01-03,7]", ["n01", "n02", "n03", "n7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[98-101]", ["n98", "n99", "n100", "n101"]),
        ("a[01-03,7]b[1-2]", ["a01b1", "a01b2", "a02b1", "a02b2", "a03b1", "a03b2", "a7b1", "a7b2"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("a,b[1-2],c", ["a", "b1", "b2", "c"]),
        ("", []),
        ("(null)", []),
        ("None assigned", []),
        ("n1,n1", ["n1", "n1"]),
    ],
)
def test_a_hostlist_expands_to_its_names_in_order(hostlist: str, expected: list[str]) -> None:
    assert list(expand(hostlist)) == expected


@pytest.mark.parametrize(
    "hostlist",
    ["n[1-", "n1]", "n[[1]]", "n[]", "n[a-b]", "n[3-1]", "a,,b", "n[1-2-3]", f"n[0-{MOST_NAMES}]", "n[0-999]m[0-9999]",
     "n" + "[0-65535]" * 1000, "n" * 60_000 + "[0-65535]", "n" * 256, "[0-9]" * 256],
)  # fmt: skip
def test_what_is_no_hostlist_is_refused_by_name(hostlist: str) -> None:
    with pytest.raises(HostlistError, match="hostlist"):
        expand(hostlist)


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n01", "n02", "n10"], "n[01-02,10]"),
        (["n09", "n10", "n11"], "n[09-11]"),
        (["n9", "n10"], "n[9-10]"),
        (["b2", "a1", "b1"], "b[1-2],a1"),
        (["login", "n1", "n1-ib"], "login,n1-ib,n1"),
        (["x123456789012"], "x123456789012"),
    ],
)
def test_names_fold_at_the_number_that_ends_them(given_names: list[str], expected: str) -> None:
    assert compress(given_names) == expected


@pytest.mark.parametrize("name", ["", "a,b", "a[1]", "a b", "a\n"])
def test_a_name_that_would_become_another_list_is_refused(name: str) -> None:
    with pytest.raises(HostlistError, match="cannot be part of a hostlist"):
        compress([name])


@given(st.lists(names))
def test_folding_and_expanding_gives_every_name_back_once(given_names: list[str]) -> None:
    back = expand(compress(given_names))
    assert sorted(back) == sorted(set(given_names))


@given(st.sets(st.integers(1, 5000), min_size=1))
def test_a_folded_list_is_never_longer_than_the_names_with_commas(indices: set[int]) -> None:
    given_names = [f"node-{index}" for index in indices]
    assert len(compress(given_names)) <= len(",".join(given_names)) + 2


@given(st.text(alphabet="n[]-,0123456789 ab", max_size=30))
def test_any_text_either_expands_or_is_refused(text: str) -> None:
    try:
        expanded = expand(text)
    except HostlistError:
        return
    assert all(name and "[" not in name and "]" not in name for name in expanded)
