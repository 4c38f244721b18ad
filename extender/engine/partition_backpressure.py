"""Tell which partitions are full: units queue there, or an immediate allocation was refused recently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from extender.domain.cluster import SlurmSnapshot
from extender.domain.ports import Clock
from extender.domain.rules import REFUSED_FOR, Waiting
from extender.engine.units import Units


class PartitionBackpressure:
    """Keyed by the names that partitions have in `picture`."""

    def __init__(self, clock: Clock, units: Units, picture: Callable[[], SlurmSnapshot]) -> None:
        self._clock = clock
        self._units = units
        self._picture = picture
        self._refused_at: dict[str, float] = {}
        """When each refused an immediate allocation last."""

    def waiting(self) -> Waiting:
        """Our own placeholders that queue in Slurm, and where an immediate allocation was refused just now."""
        counts: Counter[str] = Counter()
        for asked, count in self._units.queued.items():
            for name in self._picture().partition_names(asked):
                counts[name] += count
        since = self._clock.now() - REFUSED_FOR
        return Waiting(counts, {name for name, at in self._refused_at.items() if at > since})

    def refused_at_once(self, partition: str) -> None:
        """Slurm had no room there for an immediate allocation; "" is the default partition."""
        for name in self._picture().partition_names(partition):
            self._refused_at[name] = self._clock.now()
        since = self._clock.now() - REFUSED_FOR
        self._refused_at = {name: at for name, at in self._refused_at.items() if at > since}
