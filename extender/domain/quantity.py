"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`), exactly.

A quantity is held as an `int` of billionths: `k8s.io/apimachinery/pkg/api/resource` knows nothing smaller than nano, so
nothing is lost, and sums over all Pods of a node stay plain integer arithmetic.
"""

from __future__ import annotations

import re
from functools import lru_cache

ONE = 10**9
"""The quantity 1, in billionths."""

_MEBI = 2**20
_LARGEST = (2**63 - 1) * ONE
_FARTHEST_EXPONENT = 60
"""Beyond it every number is over the largest quantity, or under one nano."""

LONGEST = 64
"""Characters. The largest quantity has 19 digits; a longer text is no slip of the pen."""

_FORM = re.compile(
    r"([+-]?)(?=[0-9.])([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)", re.ASCII
)
"""Linear: each digit can belong to one group only."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse(text: str) -> int:
    """Return the quantity in billionths.

    As in Kubernetes, what is finer than a nano is rounded away from zero; what is larger than 2**63 - 1 becomes that.

    Raises `ValueError` where `text` is no quantity, or longer than `LONGEST`.
    """
    if len(text) > LONGEST:
        raise ValueError(
            f"{text[:LONGEST]!r}... has {len(text)} characters and is no Kubernetes quantity; write at most {LONGEST}, "
            "such as 2, 500m, 1.5Gi or 2e3"
        )
    return _parsed(text)


@lru_cache(maxsize=4096)  # bounded in bytes too, since no text in it is longer than LONGEST
def _parsed(text: str) -> int:
    found = _FORM.fullmatch(text)
    if not found or not (found[2] or found[3]):
        raise ValueError(f"{text!r} is no Kubernetes quantity; it must be a number such as 2, 500m, 1.5Gi or 2e3")
    sign, whole, fraction, exponent, suffix = found.groups("")
    digits = int((whole + fraction) or "0")
    if exponent:
        power = max(-_FARTHEST_EXPONENT, min(_FARTHEST_EXPONENT, int(exponent[1:])))
    else:
        power = _DECIMAL.get(suffix or "", 0)
    scale = power + 9 - len(fraction)
    digits <<= _BINARY.get(suffix or "", 0)
    size = digits * 10**scale if scale >= 0 else _divided_up(digits, 10**-scale)
    size = min(size, _LARGEST)
    return -size if sign == "-" else size


def cpus_up(size: int) -> int:
    """Return whole CPUs, rounded up: Slurm allocates no fraction of one."""
    return _divided_up(size, ONE)


def millicpus_up(size: int) -> int:
    """Return thousandths of a CPU, rounded up: kubelet's unit."""
    return _divided_up(size, ONE // 1000)


def mebibytes_up(size: int) -> int:
    """Return MiB, rounded up: Slurm's unit of memory."""
    return _divided_up(size, ONE * _MEBI)


def whole_up(size: int) -> int:
    """Return whole units (bytes, devices, Pods), rounded up."""
    return _divided_up(size, ONE)


def _divided_up(number: int, by: int) -> int:
    return -(-number // by)
