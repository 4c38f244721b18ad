"""Make foreign text safe to show: in lines of the log, in tables and sentences on a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence


def printable(text: str) -> str:
    r"""Write what is not a visible character or a blank as its escape of JSON, such as `\u202e`.

    Ends of lines would forge lines, controls would move a terminal's cursor, marks of direction show words in another
    order than they have, and halves of surrogate pairs cannot be written as UTF-8. The text of a string in JSON stays
    the same string.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def shortened(names: Sequence[str], most: int) -> str:
    """Return the first `most` of these names, and how many there are besides."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def enumerated(noun: str, names: Sequence[str], most: int) -> str:
    """Return `noun` with the first `most` of these names, such as "Slurm nodes n1, n2 and 3 more"."""
    return f"{noun}{'' if len(names) == 1 else 's'} {shortened(names, most)}"
