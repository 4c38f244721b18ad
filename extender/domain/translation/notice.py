"""Warnings to the author of a Pod that do not prevent its job."""

from __future__ import annotations

from dataclasses import dataclass

from extender.domain.wellknown import Reason


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence, and the reason under which an Event carries it."""

    reason: Reason
    text: str
