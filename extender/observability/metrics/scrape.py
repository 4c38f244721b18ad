"""Collect at each scrape what is not counted as it happens."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.domain.cluster import SlurmSnapshot
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.observability.metrics.demand import demand_of
from extender.observability.metrics.described import PREFIX, Described, Sort
from extender.observability.metrics.slurm_labels import SlurmLabels

Values = Callable[[], Mapping[str, float] | Mapping[tuple[str, ...], float]]
"""What a metric is now, by the value of its label or the values of its labels; without a label the only key is ""."""

PLACEHOLDERS = Described("placeholders", Sort.GAUGE, "Placeholders by state.", ("state",))
MASS_DELETION_GUARD = Described(
    "mass_deletion_guard_active",
    Sort.GAUGE,
    "1 while the mass-deletion guard stops evictions because many jobs are missing in Slurm at once.",
)
READY = Described("ready", Sort.GAUGE, "1 once every Pod, Node and job of the start is known.")
LEADER = Described("leader", Sort.GAUGE, "1 while this replica leads and may write, 0 while another one does.")
TRANSITIONS = Described(
    "lease_transitions_total", Sort.COUNTER, "Changes of the holder of the Lease that this replica has seen."
)
LAST_POLL = Described(
    "last_poll_timestamp_seconds",
    Sort.GAUGE,
    "Unix time at which the states of Slurm's jobs were last read; absent before the first time.",
)
LAST_FILTER = Described(
    "last_filter_timestamp_seconds",
    Sort.GAUGE,
    "Unix time of kube-scheduler's last call of /filter, or of the start of the service where there was none; absent "
    "on replicas that do not lead.",
)
PENDING_CPUS = Described("pending_cpus", Sort.GAUGE, "CPUs requested by Pods that wait for an allocation of Slurm.")
PENDING_GPUS = Described(
    "pending_gpus", Sort.GAUGE, "GPUs requested by Pods that wait for an allocation of Slurm, by type.", ("type",)
)
ALLOCATED_GPUS = Described(
    "allocated_gpus", Sort.GAUGE, "GPUs that Slurm has allocated to placeholder jobs, by type.", ("type",)
)
BY_PARTITION = (PENDING_CPUS, PENDING_GPUS, ALLOCATED_GPUS)
"""These can have the label `partition` too."""

ALWAYS = (PLACEHOLDERS, MASS_DELETION_GUARD, READY, LEADER, TRANSITIONS, LAST_POLL, LAST_FILTER, *BY_PARTITION)
"""What `AtScrape` shows by itself."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The values collected at a scrape. Each is a function of no arguments."""

    placeholders: Callable[[], Iterable[Placeholder]] = tuple
    mass_deletion_guard_active: Callable[[], bool] = lambda: False
    ready: Callable[[], bool] = lambda: False
    last_poll: Callable[[], float | None] = lambda: None
    """When Slurm's job states were last read, on the clock."""

    leads: Callable[[], bool] = lambda: False
    lease_transitions: Callable[[], int] = lambda: 0
    snapshot: Callable[[], SlurmSnapshot] = SlurmSnapshot
    """What was last read of Slurm."""

    further: Mapping[Described, Values] = field(default_factory=dict)
    """More gauges and counters; the values of counters never fall."""


class AtScrape(Collector):
    """Call each source at a scrape.

    `sources` returns those of now. `last_filter` returns when /filter was last called, or could be first, on the clock.
    """

    def __init__(
        self,
        sources: Callable[[], Sources],
        last_filter: Callable[[], float | None],
        clock: Clock,
        labels: SlurmLabels,
    ) -> None:
        self._sources = sources
        self._last_filter = last_filter
        self._clock = clock
        self._labels = labels

    def collect(self) -> Iterable[Metric]:
        """Ask each source."""
        sources = self._sources()
        tally = Tally(p.state for p in sources.placeholders())
        yield _family(PLACEHOLDERS, {state.value: tally[state] for state in State})
        yield _family(MASS_DELETION_GUARD, {"": sources.mass_deletion_guard_active()})
        yield _family(READY, {"": sources.ready()})
        yield _family(LEADER, {"": sources.leads()})
        yield _family(TRANSITIONS, {"": sources.lease_transitions()})
        for one, last in ((LAST_POLL, sources.last_poll()), (LAST_FILTER, self._last_filter())):
            if last is not None:
                yield _family(one, {"": timestamp(last, self._clock)})
        demand = demand_of(sources.placeholders(), self._labels)
        for one, sums in zip(
            BY_PARTITION, (demand.pending_cpus, demand.pending_gpus, demand.allocated_gpus), strict=True
        ):
            yield _family(replace(one, labels=self._labels.names(*one.labels)), sums)
        for one, values in sources.further.items():
            yield _family(one, values())


def timestamp(instant: float, clock: Clock) -> float:
    """Return the Unix time of an instant of the clock, to the millisecond."""
    return round(clock.wall() - max(0.0, clock.now() - instant), 3)


def _family(one: Described, values: Mapping[str, float] | Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily if one.sort is Sort.GAUGE else CounterMetricFamily
    metric = family(f"{PREFIX}_{one.name}", one.text, labels=one.labels)
    for value, number in values.items():
        labels = list(value) if isinstance(value, tuple) else [value]
        metric.add_metric(labels if one.labels else [], float(number))
    return metric
