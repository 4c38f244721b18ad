"""Describe the imitated release of Slurm, which decides API versions, error numbers and HTTP statuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_VERSIONS = {
    (23, 11): (40,),
    (24, 5): (40, 41),
    (24, 11): (40, 41, 42),
    (25, 5): (40, 41, 42, 43),
    (25, 11): (41, 42, 43, 44),
    (26, 5): (42, 43, 44, 45),
}

RELEASES = ("26.05.5", "25.11.8", "25.05.9", "24.11.5", "24.05.8", "23.11.11")
"""One of each that can be imitated, the newest first."""

NEWEST = RELEASES[0]


@dataclass(frozen=True, slots=True)
class SimRelease:
    """A release, `24.11.5`. Raises `ValueError` for one whose API versions are not known here."""

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+(\.\d+)+", self.text) or self.year_and_month not in _VERSIONS:
            known = ", ".join(f"{year}.{month:02d}" for year, month in _VERSIONS)
            raise ValueError(f"Slurm {self.text!r} is not simulated; known are {known}")

    @property
    def number(self) -> tuple[int, ...]:
        """Return (24, 11, 5)."""
        return _number(self.text)

    @property
    def year_and_month(self) -> tuple[int, int]:
        """Return (24, 11)."""
        return self.number[0], self.number[1]

    @property
    def api_versions(self) -> tuple[int, ...]:
        """Return the N of every v0.0.N served."""
        return _VERSIONS[self.year_and_month]

    @property
    def refusal_status(self) -> int:
        """Return HTTP status of a request that slurmctld refuses."""
        return 422 if self.number >= (26, 5) else 500

    @property
    def no_environment(self) -> int:
        """Return error number of a batch job without environment."""
        return 2127 if self.number >= (26, 5) else 2019

    @property
    def queue_full(self) -> int:
        """Return error number at MaxJobCount."""
        return 2007 if self.number >= (26, 5) else 11

    @property
    def knows_external(self) -> bool:
        """Return whether there are external jobs."""
        return max(self.api_versions) >= 43

    @property
    def shows_external(self) -> bool:
        """Return whether the API shows which nodes are external; such nodes survive drain and resume."""
        return max(self.api_versions) >= 44

    @property
    def renews_nodes(self) -> bool:
        """Return whether a node that was deleted can be created again under its name."""
        return self.number >= (26, 5, 3)

    @property
    def external_needs_directory(self) -> bool:
        """Return whether an external job must name a working directory."""
        return self.number < (25, 11)

    @property
    def outlives_batch_host(self) -> bool:
        """Return whether a job that outlives failed nodes continues without its script when the node of that fails."""
        return self.number >= (26, 5)

    @property
    def too_many_cpus_wait(self) -> bool:
        """Return whether a job with more CPUs than any node has waits with a warning (2015); before, it is refused."""
        return self.number >= (26, 5)

    @property
    def reason_outlives_drain(self) -> bool:
        """Return whether a node keeps the text of a drain that was lifted."""
        return self.number < (25, 5)


@cache
def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
