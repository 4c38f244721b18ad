"""Findings as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from extender.doctor.finding import Finding, Verdict
from extender.domain.printable import printable

WIDTH = max(len(verdict) for verdict in Verdict) + 2


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each, what to do below it, and the counts."""
    lines = []
    for one in findings:
        lines.append(f"{one.verdict.value:<{WIDTH}}{one.check}: {printable(one.seen)}")
        if one.advice:
            lines.append(f"{'':<{WIDTH}}-> {printable(one.advice)}")
    lines.append(", ".join(f"{count} {verdict}" for verdict, count in _counts(findings).items()))
    return "\n".join(lines) + "\n"


def as_json(findings: Sequence[Finding]) -> str:
    """`findings` in the order of the text, and `counts`."""
    return json.dumps({"findings": [asdict(one) for one in findings], "counts": _counts(findings)}, indent=2) + "\n"


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    tally = Counter(one.verdict for one in findings)
    return {verdict.value: tally[verdict] for verdict in Verdict}
