"""Slurm's hostlists, as people write them in a setting: `node-1,gpu[01-04,9]`."""

from __future__ import annotations

import re
from itertools import product
from math import prod


class HostlistError(ValueError):
    """The text is no hostlist; says where it stops being one."""


LARGEST = 65_536
"""Names that one expression may stand for; more than that is a slip of the keyboard, not a list of nodes."""

_TERM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def expand(expression: str) -> tuple[str, ...]:
    """Every name that the expression stands for, in order. Leading zeros give the width, as in slurmctld `hostlist.c`.

    Raises `HostlistError` for an unreadable part, a name that no node can have, or more than `LARGEST` names.
    """
    names: list[str] = []
    at = 0
    while True:
        found = _TERM.match(expression, at)
        if not found or not found[0].strip():
            raise HostlistError(f"a name is missing or a bracket is open at character {at + 1}")
        names += _expanded(found[0].strip(), LARGEST - len(names))
        at = found.end()
        if at == len(expression):
            return tuple(names)
        if expression[at] != ",":
            raise HostlistError(f"{expression[at]!r} at character {at + 1} does not belong there")
        at += 1


def _expanded(term: str, most: int) -> list[str]:
    pieces = _BRACKETS.split(term)  # text and the inside of brackets by turns
    if not _NAME.fullmatch("0".join(pieces[::2])):
        raise HostlistError(f"{term!r} is no node name")
    choices = [_numbers(inside, most) for inside in pieces[1::2]]
    if prod(map(len, choices)) > most:
        raise HostlistError(f"the whole stands for more than {LARGEST} names")
    return ["".join(map("".join, zip(pieces[::2], (*chosen, ""), strict=True))) for chosen in product(*choices)]


def _numbers(inside: str, most: int) -> list[str]:
    numbers: list[str] = []
    for part in inside.split(","):
        found = _RANGE.fullmatch(part.strip())
        if not found:
            raise HostlistError(f"{part!r} is neither a number nor a range of numbers")
        first, last = int(found[1]), int(found[2] or found[1])
        if first > last:
            raise HostlistError(f"the range {part!r} ends before it begins")
        if len(numbers) + last - first >= most:
            raise HostlistError(f"the whole stands for more than {LARGEST} names")
        numbers += [f"{number:0{len(found[1])}d}" for number in range(first, last + 1)]
    return numbers
