"""Read and write hostlists, the short form of Slurm for many node names, `rack[1-2]n[01-03,7]`.

Sources: slurm.conf(5) and `src/common/hostlist.c`. A range is padded with zeros to the width of its first number
(`[08-10]` is 08, 09, 10). Several brackets in one name multiply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final

#: More names than any cluster has (slurmctld itself: 65,533 nodes); a longer expansion is a mistake or an attack.
MOST_NAMES: Final = 100_000

#: Characters of one name, the longest host name of slurmctld; sizes are compared before any name is built.
LONGEST_NAME: Final = 255

# Longer numbers do not fit the unsigned long of hostlist.c; such names are left as they are.
_TRAILING_NUMBER: Final = re.compile(r"^(.*?)([0-9]{1,9})$", re.DOTALL)
_RANGE: Final = re.compile(r"^([0-9]{1,18})(?:-([0-9]{1,18}))?$", re.ASCII)
_SPECIAL: Final = re.compile(r"[\[\],\s]")


class HostlistError(ValueError):
    """Report a text that is not a hostlist, or names that cannot be written as one."""


def expand(hostlist: str, most: int = MOST_NAMES) -> tuple[str, ...]:
    """Return every name of a hostlist, in its order, repeated names repeated.

    Empty text and Slurm's `(null)` and `None assigned` give no names. Sizes are multiplied before any name is made.

    Raises:
        HostlistError: unbalanced brackets, a range that is none, an empty name, a name of more than
            :data:`LONGEST_NAME` characters, or more than `most` names.
    """
    if hostlist.strip() in ("", "(null)", "None assigned"):
        return ()
    names: list[str] = []
    for item in _split(hostlist):
        names.extend(_expand_item(item, hostlist, most, len(names)))
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """Return the hostlist of a set of names; each name once, numbers in ascending order.

    Only the number at the end of a name is folded, the one form that every release reads.

    Raises:
        HostlistError: a name is empty or holds a bracket, a comma or white space.
    """
    groups: dict[str, dict[str, None]] = {}
    plain: dict[str, None] = {}
    for name in names:
        if not name or _SPECIAL.search(name):
            raise HostlistError(
                f"node name {name!r} cannot be part of a hostlist: it is empty or holds one of '[],' or a space"
            )
        match = _TRAILING_NUMBER.match(name)
        # "n1234567890" must not become "n1" + 9 digits: the digit before the match would be part of the number.
        if match is None or match[1][-1:].isdigit():
            plain[name] = None
        else:
            groups.setdefault(match[1], {})[match[2]] = None
    parts = list(plain)
    for prefix, numbers in groups.items():
        ranges = list(_ranges(numbers))
        bare = len(ranges) == 1 and "-" not in ranges[0]
        parts.append(prefix + ranges[0] if bare else f"{prefix}[{','.join(ranges)}]")
    return ",".join(parts)


def _split(hostlist: str) -> Iterator[str]:
    """Cut at the commas outside of brackets."""
    depth = 0
    start = 0
    for position, character in enumerate(hostlist):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth not in (0, 1):
            raise HostlistError(f"hostlist {_clip(hostlist)!r} has unbalanced brackets at position {position}")
        if character == "," and depth == 0:
            yield hostlist[start:position]
            start = position + 1
    if depth:
        raise HostlistError(f"hostlist {_clip(hostlist)!r} has a bracket that is not closed")
    yield hostlist[start:]


def _expand_item(item: str, hostlist: str, most: int, before: int) -> list[str]:
    """Return the names of one item. `before` is how many names of at most `most` other items have."""
    item = item.strip()
    if not item:
        raise HostlistError(f"hostlist {_clip(hostlist)!r} has an empty name")
    pieces = re.split(r"[\[\]]", item)  # text and the inside of brackets by turns
    brackets = [[_read_range(part, hostlist) for part in inside.split(",")] for inside in pieces[1::2]]
    size = 1
    for ranges in brackets:
        size *= sum(len(numbers) for numbers, _ in ranges)
        if size > most:
            break
    if before + size > most:
        raise HostlistError(f"hostlist {_clip(hostlist)!r} has more than {most} names")
    longest = sum(map(len, pieces[::2]))
    longest += sum(max(max(width, len(str(numbers[-1]))) for numbers, width in ranges) for ranges in brackets)
    if longest > LONGEST_NAME:
        raise HostlistError(f"hostlist {_clip(hostlist)!r} has a name of {longest} characters, over {LONGEST_NAME}")
    written = [[f"{number:0{width}d}" for numbers, width in ranges for number in numbers] for ranges in brackets]
    return ["".join(map("".join, zip(pieces[::2], (*parts, ""), strict=True))) for parts in product(*written)]


def _read_range(part: str, hostlist: str) -> tuple[range, int]:
    """Return the numbers of one part of a bracket, and the width to which they are padded with zeros."""
    match = _RANGE.match(part.strip())
    if match is None:
        raise HostlistError(
            f"hostlist {_clip(hostlist)!r}: {_clip(part)!r} is neither a number nor a range 'first-last'"
        )
    first, last = match[1], match[2] or match[1]
    low, high = int(first), int(last)
    if high < low:
        raise HostlistError(f"hostlist {_clip(hostlist)!r}: the range {part!r} runs backwards")
    return range(low, high + 1), len(first)


def _ranges(numbers: Iterable[str]) -> Iterator[str]:
    """Fold number strings into `first-last`, as far as padding to the width of the first one restores each."""
    first = last = ""
    for number in sorted(numbers, key=lambda text: (int(text), len(text))):
        follows = first and int(number) == int(last) + 1 and f"{int(number):0{len(first)}d}" == number
        if not follows:
            if first:
                yield first if first == last else f"{first}-{last}"
            first = number
        last = number
    if first:
        yield first if first == last else f"{first}-{last}"


def _clip(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
