"""Read and write the optional numbers of Slurm: `{"set": bool, "infinite": bool, "number": n}`.

slurmrestd treats a number without `"set": true` as unset and reports nothing: a time limit becomes unlimited, memory
becomes the whole node. So :func:`encode_number` always sets it. Replies mark "unlimited" with `infinite` alone,
and give plain numbers in some fields and releases, with Slurm's NO_VAL and INFINITE (slurm.h) as the top two values.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final


class Infinite(Enum):
    """Type of :data:`INFINITE`, which means "no limit"."""

    INFINITE = "infinite"

    def __repr__(self) -> str:
        return "INFINITE"


INFINITE: Final = Infinite.INFINITE

# slurm.h: NO_VAL and INFINITE are the two highest values of the 32 and 64 bit types.
_UNSET: Final = frozenset({0xFFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFE})
_UNLIMITED: Final = frozenset({0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF})
_SPECIAL: Final = min(_UNSET)

_BEYOND: Final = 2**64
"""The widest numbers of Slurm have 64 bits; larger ones are invalid."""

# An end time of an unlimited job is its start plus about 2**32 seconds.
_LAST_TIME: Final = 2**32


def encode_number(value: float | Infinite) -> dict[str, object]:
    """Return the wire form of a number, always with `set`."""
    if value is INFINITE:
        return {"set": True, "infinite": True, "number": 0}
    return {"set": True, "infinite": False, "number": value}


def decode_number(raw: object) -> int | float | Infinite | None:
    """Read a number in any of the forms of all releases; None means unset, or not a number."""
    if isinstance(raw, dict):
        if raw.get("infinite") is True:
            return INFINITE
        if raw.get("set") is not True:
            return None
        raw = raw.get("number")
    if type(raw) is int and 0 <= raw < _SPECIAL:  # most of them: answers have thousands
        return raw
    if isinstance(raw, str):
        raw = _from_text(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    if isinstance(raw, float) and math.isnan(raw):
        return None
    if isinstance(raw, float) and math.isinf(raw):
        return INFINITE
    if not -_BEYOND < raw < _BEYOND:
        return None
    if raw in _UNSET:
        return None
    return INFINITE if raw in _UNLIMITED else raw


def decode_integer(raw: object) -> int | None:
    """Read a number and drop what is not a finite integer."""
    value = decode_number(raw)
    return int(value) if isinstance(value, int | float) else None


def decode_limit(raw: object) -> int | Infinite | None:
    """Read a limit: a number, INFINITE, or None for unset."""
    value = decode_number(raw)
    return int(value) if isinstance(value, float) else value


def decode_time(raw: object) -> int | None:
    """Read a moment as epoch seconds; None means unset, zero or never."""
    value = decode_number(raw)
    if not isinstance(value, int | float) or value <= 0 or value >= _LAST_TIME:
        return None
    return int(value)


def encode_time(epoch_s: int) -> str:
    """Return a moment as `uts<epoch>`, the only form that every API version accepts."""
    return f"uts{epoch_s}"


def _from_text(raw: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(raw)
        except ValueError:
            continue
    return None
