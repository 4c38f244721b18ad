"""Match text against patterns in which each `*` matches any characters.

Linear in the text for any number of stars, unlike a regular expression of the same meaning: patterns are written by
administrators, but the text by the author of a Pod.
"""

from __future__ import annotations


def stars(pattern: str, text: str) -> tuple[str, ...] | None:
    """Return what each `*` of the pattern stands for, or `None` where the text does not match.

    Where there is a choice, an earlier star stands for as much as possible.
    """
    first, *parts = pattern.split("*")
    if not parts:
        return () if text == first else None
    *middle, last = parts
    begin, end = len(first), len(text) - len(last)
    if end < begin or not text.startswith(first) or not text.endswith(last):
        return None
    found: list[str] = []
    for part in reversed(middle):
        at = text.rfind(part, begin, end)
        if at < 0:
            return None
        found.append(text[at + len(part) : end])
        end = at
    found.append(text[begin:end])
    return tuple(reversed(found))


def matches(pattern: str, text: str) -> bool:
    """Return whether the text matches the pattern."""
    return stars(pattern, text) is not None
