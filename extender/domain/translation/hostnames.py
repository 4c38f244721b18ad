"""Read Slurm's host lists as users write them in a setting: `node-1,gpu[01-04,9]`.

The text comes from the author of a Pod: its length, its number of names and the length of each name are bounded before
any name is made. `slurmclient.hostlist` reads what Slurm writes: longer lists, and names that no user may set.
The domain imports the standard library alone, so each has its parser; a test holds both to the same names.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod


class HostnamesError(ValueError):
    """The text is no host list; says where it stops being one."""


LARGEST = 4096
"""Names that one expression may stand for. slurmctld keeps the list with each job, and the longest text of a setting
names fewer than that without brackets."""

LONGEST = 1023
"""Characters of the text, as for every other text that slurmctld stores with a job."""

LONGEST_NAME = 255
"""Characters of one name: the longest host name (RFC 1123), and slurmctld's own limit (`HOST_NAME_MAX` with room)."""

_TERM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")


def expand(expression: str) -> tuple[str, ...]:
    """Return every name that the expression stands for, in order.

    Leading zeros give the width, as in slurmctld `hostlist.c`. Raises `HostnamesError` for an unreadable part, a name
    that no node can have, a text longer than `LONGEST`, or more than `LARGEST` names.
    """
    if len(expression) > LONGEST:
        raise HostnamesError(f"it has {len(expression)} characters, at most {LONGEST} are allowed")
    names: list[str] = []
    at = 0
    while True:
        found = _TERM.match(expression, at)
        if not found or not found[0].strip():
            raise HostnamesError(f"a name is missing or a bracket is open at character {at + 1}")
        names += _expanded(found[0].strip(), LARGEST - len(names))
        at = found.end()
        if at == len(expression):
            return tuple(names)
        if expression[at] != ",":
            raise HostnamesError(f"{expression[at]!r} at character {at + 1} does not belong there")
        at += 1


def _expanded(term: str, most: int) -> list[str]:
    pieces = _BRACKETS.split(term)  # text and the inside of brackets by turns
    if not _NAME.fullmatch("0".join(pieces[::2])):
        raise HostnamesError(f"{term!r} is no node name")
    choices = [[_range(part) for part in inside.split(",")] for inside in pieces[1::2]]
    if prod(sum(len(numbers) for numbers, _ in ranges) for ranges in choices) > most:
        raise HostnamesError(f"the whole stands for more than {LARGEST} names")
    texts = pieces[::2]
    longest = sum(map(len, texts)) + sum(
        max(max(width, len(str(numbers[-1]))) for numbers, width in ranges) for ranges in choices
    )
    if longest > LONGEST_NAME:
        raise HostnamesError(f"a name of it has {longest} characters, at most {LONGEST_NAME} are allowed")
    written = [[f"{number:0{width}d}" for numbers, width in ranges for number in numbers] for ranges in choices]
    return ["".join(map("".join, zip(texts, (*chosen, ""), strict=True))) for chosen in product(*written)]


def _range(part: str) -> tuple[range, int]:
    """Return the numbers of a part of a bracket, and the width to which they are padded."""
    found = _RANGE.fullmatch(part.strip())
    if not found:
        raise HostnamesError(f"{part!r} is neither a number nor a range of numbers")
    first, last = int(found[1]), int(found[2] or found[1])
    if first > last:
        raise HostnamesError(f"the range {part!r} ends before it begins")
    return range(first, last + 1), len(found[1])
