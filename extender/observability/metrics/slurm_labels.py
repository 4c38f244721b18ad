"""Labels whose values users choose, bounded: partitions, where the site wants that label, and types of GPUs."""

from __future__ import annotations

from collections.abc import Callable

from extender.domain.cluster import SlurmSnapshot
from extender.domain.jobs.job import JobRequest

MOST_VALUES = 100
"""Partitions, and types of GPUs, that get a value of their own; all others share one."""

OTHER = "other"
"""The value for names that Slurm does not have, for lists of several partitions, and for names above the bound."""

UNKNOWN = "unknown"
"""The value while the Pod's request or Slurm's partitions are not known."""

UNTYPED = "untyped"
"""The type of GPUs that are requested without one, or of which Slurm names none."""


class SlurmLabels:
    """Give labels and their values. `snapshot` returns what was last read of Slurm."""

    def __init__(self, snapshot: Callable[[], SlurmSnapshot] = SlurmSnapshot, *, by_partition: bool = False) -> None:
        self.by_partition = by_partition
        self._snapshot = snapshot
        self._partitions: set[str] = set()
        self._gpu_types: set[str] = set()

    def names(self, *others: str) -> tuple[str, ...]:
        """Return the names of a metric's labels: the others, and `partition` where the site wants it."""
        return (*others, "partition") if self.by_partition else others

    def values(self, request: JobRequest | None, *others: str) -> tuple[str, ...]:
        """Return the values of a metric's labels for one request, in the order of `names`."""
        return (*others, self._partition(request)) if self.by_partition else others

    def gpu_type(self, name: str) -> str:
        """Return the value for a type of GPUs."""
        if name and name not in self._gpu_types:
            return _bounded(
                name, any(f"gpu:{name}" in node.gres for node in self._snapshot().nodes.values()), self._gpu_types
            )
        return name or UNTYPED

    def _partition(self, request: JobRequest | None) -> str:
        slurm = self._snapshot()
        if request is None or not slurm.known:
            return UNKNOWN
        found = slurm.partition_names(request.partition)
        name = found[0] if len(found) == 1 else ""
        return _bounded(name, name in slurm.partitions, self._partitions)


def _bounded(name: str, known: bool, given: set[str]) -> str:
    if not known or (name not in given and len(given) >= MOST_VALUES):
        return OTHER
    given.add(name)
    return name
