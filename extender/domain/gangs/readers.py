"""Read the values of labels and annotations about gangs. Anyone may have written them: each is bounded first."""

from __future__ import annotations

from extender.domain.printable import printable

LONGEST_NAME = 253
"""Characters of a gang's name: what Kubernetes allows for the name of an object."""

LONGEST_NUMBER = 10
"""Digits of a size or an index."""

LONGEST_QUOTED = 80
"""Characters of a value that a message quotes."""

_SIGNS = frozenset("-_./")


def read_name(text: str) -> str:
    """Return the name of a gang. Raises `ValueError`."""
    stripped = text.strip() if len(text) <= LONGEST_NAME else ""
    if not stripped or not all(char in _SIGNS or (char.isascii() and char.isalnum()) for char in stripped):
        raise ValueError(f"it must be 1 to {LONGEST_NAME} letters, digits and - _ . /")
    return stripped


def read_size(text: str, largest: int) -> int:
    """Return the number of members of a gang. Raises `ValueError`."""
    size = read_index(text)
    if size is None or not 1 <= size <= largest:
        raise ValueError(f"it must be a whole number from 1 to {largest}")
    return size


def read_index(text: str | None) -> int | None:
    """Return a whole number from 0; `None`: the text is none."""
    if text is None or not 0 < len(text) <= LONGEST_NUMBER or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)


def quoted(text: str) -> str:
    """Return the text in quotes, as a message may show it."""
    shown = text if len(text) <= LONGEST_QUOTED else f"{text[: LONGEST_QUOTED - 3]}..."
    return f'"{printable(shown)}"'
