"""Describe a metric for its page: name, type, labels and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "slurm_extender"


class Sort(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Described:
    """One metric. `name` is without the prefix; counters end in `_total`."""

    name: str
    sort: Sort
    text: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names under which Prometheus knows its values."""
        whole = f"{PREFIX}_{self.name}"
        if self.sort is Sort.HISTOGRAM:
            return (f"{whole}_bucket", f"{whole}_count", f"{whole}_sum")
        return (whole,)
