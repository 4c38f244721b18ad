"""The part of a page that is generated: what stands between two marks in it."""

from __future__ import annotations

from pathlib import Path


def renewed(page: str, path: Path, begin: str, end: str, part: str) -> str:
    """The page with `part` between its two marks. Raises `ValueError` where one is missing; `path` is named then."""
    for marker in (begin, end):
        if page.count(marker) != 1:
            raise ValueError(f"{path} has the marker {marker!r} {page.count(marker)} times, it needs it once")
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{part}\n{end}{after}"
