"""Combines the licences that were asked for with those that the Pods' resources stand for.

Slurm's form is `name[:count]`, joined by commas; with `|` between them any one will do (`license_mgr.c`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Licenses:
    """The text for Slurm, and faults that make it unusable."""

    text: str = ""
    faults: tuple[str, ...] = ()


def combined(requested: str, needed: Mapping[str, int], where: str) -> Licenses:
    """Return `requested` and the other licences that are needed. `where` begins a sentence about `requested`.

    A licence that both name is one and the same, so as many have to be asked for as are needed.
    """
    if not needed:
        return Licenses(requested)
    if "|" in requested or ";" in requested:
        names = ", ".join(sorted(needed))
        fault = f"{where} lets Slurm choose, but the Pod's resources request licences too ({names}); name each licence"
        return Licenses(requested, (fault,))
    counts = counted(requested)
    faults = tuple(
        f"{where} requests {counts[name]} {name}, but the Pod's resources request {count}; it must be at least that"
        for name, count in sorted(needed.items())
        if counts.get(name, count) < count
    )
    more = [f"{name}:{count}" for name, count in sorted(needed.items()) if name not in counts]
    return Licenses(",".join([*filter(None, [requested]), *more]), faults)


def counted(text: str) -> dict[str, int]:
    """Return the count of each licence by name; a missing count is 1."""
    counts: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, count = re.sub("=", ":", item).partition(":")
        counts[name] = counts.get(name, 0) + (int(count) if count.isdecimal() else 1)
    return counts
