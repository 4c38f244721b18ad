"""What a check says: one line for a person, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How something is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and costs something or will not work for long."""

    WRONG = "wrong"
    UNSEEN = "unseen"
    """It could not be seen from here, or by who asks; nothing is concluded from that."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `advice` is what to do, or how to look; only what is ok needs none."""

    check: str
    verdict: Verdict
    seen: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.OK and not self.advice:
            raise ValueError(f"{self.check}: {self.verdict} without a word about what to do")


def ok(check: str, seen: str) -> Finding:
    """As it should be."""
    return Finding(check, Verdict.OK, seen)


def warning(check: str, seen: str, advice: str) -> Finding:
    """It works at a price."""
    return Finding(check, Verdict.WARNING, seen, advice)


def wrong(check: str, seen: str, advice: str) -> Finding:
    """It does not work, or not as promised."""
    return Finding(check, Verdict.WRONG, seen, advice)


def unseen(check: str, seen: str, how: str) -> Finding:
    """Nobody looked, and this is how to look."""
    return Finding(check, Verdict.UNSEEN, seen, how)


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict of all of them together; what was not seen counts for nothing."""
    verdicts = {finding.verdict for finding in findings}
    return next((one for one in (Verdict.WRONG, Verdict.WARNING) if one in verdicts), Verdict.OK)
