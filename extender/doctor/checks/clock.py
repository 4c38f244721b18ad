"""Do the clocks of this machine, of slurmctld and of the API server agree?"""

from __future__ import annotations

from extender.doctor.finding import Finding, ok, unseen, warning, wrong

CHECK = "clock"

APART_S = 5.0
"""Both tell whole seconds, and the answer takes a moment."""

FAR_S = 60.0
"""Slurm believes a credential for two minutes, and a token that was made in the future not at all."""


def clock(whose: str, ahead_s: float | None, why: str = "") -> Finding:
    """`ahead_s`: how far that clock is ahead of this machine's; `None`: it was not told, for the reason `why`."""
    if ahead_s is None:
        return unseen(CHECK, f"{whose}: {why or 'it did not tell its time'}", "compare by `date` on both machines")
    said = f"{whose} is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine"
    if abs(ahead_s) <= APART_S:
        return ok(CHECK, f"{whose} agrees with this machine")
    advice = "let NTP set both clocks"
    if abs(ahead_s) <= FAR_S:
        return warning(CHECK, said, advice)
    return wrong(CHECK, said, f"{advice}: tokens and credentials are believed for a short time only")
