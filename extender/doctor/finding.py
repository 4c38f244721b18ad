"""Define the finding of a check: one line and the action to take. Print findings as text or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from extender.domain.printable import printable


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    """It works, but at a cost, or not for long."""

    ERROR = "error"
    """It does not work, or not as documented."""

    SKIPPED = "skipped"
    """The doctor could not check it from here, or has no access; nothing is concluded from that."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `advice` says what to do, or how to check by hand; every verdict but `ok` needs it."""

    check: str
    verdict: Verdict
    seen: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.OK and not self.advice:
            raise ValueError(f"{self.check}: {self.verdict} without advice")


def ok(check: str, seen: str) -> Finding:
    """Report that a check passed."""
    return Finding(check, Verdict.OK, seen)


def warning(check: str, seen: str, advice: str) -> Finding:
    """Report that something works at a cost."""
    return Finding(check, Verdict.WARNING, seen, advice)


def error(check: str, seen: str, advice: str) -> Finding:
    """Report that something does not work, or not as documented."""
    return Finding(check, Verdict.ERROR, seen, advice)


def skipped(check: str, seen: str, how: str) -> Finding:
    """Report that something could not be checked, and how to check it."""
    return Finding(check, Verdict.SKIPPED, seen, how)


def worst(findings: Iterable[Finding]) -> Verdict:
    """Return the worst verdict; skipped checks do not count."""
    verdicts = {finding.verdict for finding in findings}
    return next((one for one in (Verdict.ERROR, Verdict.WARNING) if one in verdicts), Verdict.OK)


WIDTH = max(len(verdict) for verdict in Verdict) + 2


def as_text(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, its advice below it, and the counts."""
    lines = []
    for one in findings:
        lines.append(f"{one.verdict.value:<{WIDTH}}{one.check}: {printable(one.seen)}")
        if one.advice:
            lines.append(f"{'':<{WIDTH}}-> {printable(one.advice)}")
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in _counts(findings).items()))
    return "\n".join(lines) + "\n"


def as_json(findings: Sequence[Finding]) -> str:
    """Return `findings` in the order of the text, and `counts`."""
    return json.dumps({"findings": [asdict(one) for one in findings], "counts": _counts(findings)}, indent=2) + "\n"


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    tally = Counter(one.verdict for one in findings)
    return {verdict.value: tally[verdict] for verdict in Verdict}
