"""The policy file for Pods: is it there, and does it say what it may?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.doctor.finding import Finding, ok, unseen, wrong

CHECK = "policy"


@dataclass(frozen=True, slots=True)
class Policy:
    """What came of reading it; `rules` counts what it says."""

    path: str
    faults: tuple[str, ...] = ()
    elsewhere: bool = False
    rules: int = 0


def policy(given: Policy | None) -> Iterator[Finding]:
    """`None`: the configuration names none."""
    if given is None:
        yield ok(CHECK, "jobs.policyFile is not set: no Pod is subject to more than the configuration says")
    elif given.elsewhere:
        yield unseen(
            CHECK,
            f"{given.path} is not on this machine",
            "`slurm-extender check-config CONFIG --policy FILE` with the file",
        )
    elif given.faults:
        for fault in given.faults:
            yield wrong(
                CHECK,
                fault,
                "mend the file: until then a running extender keeps the last good one, a new one places nothing",
            )
    else:
        yield ok(CHECK, f"{given.path}: {given.rules} rules")
