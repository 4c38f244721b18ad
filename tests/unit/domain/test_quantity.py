"""Quantities mean what `k8s.io/apimachinery/pkg/api/resource` says they mean."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.domain.quantity import ONE, cpus_up, mebibytes_up, millicpus_up, parse, whole_up

SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}


# Pairs of text and what ParseQuantity 0.36.3 makes of it, in billionths.
@pytest.mark.parametrize(
    ("text", "billionths"),
    [
        ("0", 0),
        ("500m", 5 * 10**8),
        ("1.5Gi", 3 * 2**29 * ONE),
        ("128974848", 128974848 * ONE),
        ("129e6", 129 * 10**15),
        ("123Mi", 123 * 2**20 * ONE),
        (".5", 5 * 10**8),
        ("5.", 5 * ONE),
        ("1E", 10**18 * ONE),
        ("1E3", 1000 * ONE),
        ("1e-3", 10**6),
        ("+2", 2 * ONE),
        ("-1.5", -15 * 10**8),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("0.0001m", 100),
        ("8Ei", (2**63 - 1) * ONE),
        ("1e1000000000", (2**63 - 1) * ONE),
        ("1e-1000000000", 1),
        ("0e9", 0),
    ],
)
def test_text_becomes_its_exact_value(text: str, billionths: int) -> None:
    assert parse(text) == billionths


@pytest.mark.parametrize(
    "text", ["", ".", "m", "1 ", " 1", "1Kb", "1ki", "1KI", "1e", "1e1.5", "1.2.3", "0x10", "\u0661", "1_0", "--1"]
)
def test_other_text_is_refused_with_an_example_of_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(repr(text))} is no Kubernetes quantity; it must be .* 1\.5Gi"):
        parse(text)


@pytest.mark.parametrize("text", ["1" * 65, "1" * 250_000 + "x", "1." + "0" * 250_000, "0" * 65, "1e" + "1" * 250_000])
def test_a_text_longer_than_any_quantity_is_refused_with_its_length_and_its_beginning(text: str) -> None:
    with pytest.raises(ValueError, match=f"has {len(text)} characters") as refused:
        parse(text)
    assert len(str(refused.value)) < 250


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([*SUFFIXES, *BINARY]))
def test_no_number_is_ever_below_its_true_value_nor_a_nano_above(whole: int, fraction: int, suffix: str) -> None:
    factor = Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** SUFFIXES[suffix]
    true = Fraction(f"{whole}.{fraction:06d}") * factor * ONE
    assert 0 <= parse(f"{whole}.{fraction:06d}{suffix}") - min(true, Fraction((2**63 - 1) * ONE)) < 1


@given(st.integers(0, 2**63))
def test_rounding_up_never_gives_less_and_never_one_unit_more(size: int) -> None:
    for rounded, unit in (
        (cpus_up(size), ONE),
        (millicpus_up(size), ONE // 1000),
        (mebibytes_up(size), ONE * 2**20),
        (whole_up(size), ONE),
    ):
        assert 0 <= rounded * unit - size < unit


def test_a_tenth_of_a_cpu_is_a_whole_one_in_slurm_and_a_byte_above_a_mebibyte_is_two() -> None:
    assert cpus_up(parse("100m")) == 1
    assert mebibytes_up(parse("1048577")) == 2
    assert mebibytes_up(parse("1Mi")) == 1
