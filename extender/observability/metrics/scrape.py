"""What stands still between two scrapes, and is asked for at each."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.observability.metrics.described import PREFIX, Described, Sort

Values = Callable[[], Mapping[str, float]]
"""What a metric is now, by the values of its label; of one without a label the only key is ""."""

PLACEHOLDERS = Described("placeholders", Sort.GAUGE, "Placeholders by state.", ("state",))
BRAKE = Described("mass_deletion_guard_active", Sort.GAUGE, "1 while the brake holds back a mass ending.")
READY = Described("ready", Sort.GAUGE, "1 once everything that was in the cluster is known.")
LEADER = Described("leader", Sort.GAUGE, "1 while this process may write, 0 while another one does.")
TRANSITIONS = Described(
    "lease_transitions_total", Sort.COUNTER, "Times that this process has seen the Lease change hands."
)
POLL_AGE = Described(
    "poll_age_seconds", Sort.GAUGE, "Time since Slurm's job states were last read; not there before the first time."
)
FILTER_AGE = Described(
    "filter_age_seconds",
    Sort.GAUGE,
    "Time since kube-scheduler last called /filter, or since this process answers where it never did; not there on a "
    "replica that follows.",
)
ALWAYS = (PLACEHOLDERS, BRAKE, READY, LEADER, TRANSITIONS, POLL_AGE, FILTER_AGE)
"""What `AtScrape` shows by itself."""


@dataclass(slots=True)
class Sources:
    """What is asked for at a scrape. Each is a function of no arguments; set when the thing it asks exists."""

    placeholders: Callable[[], Iterable[Placeholder]] = tuple
    brake_held: Callable[[], bool] = lambda: False
    ready: Callable[[], bool] = lambda: False
    last_poll: Callable[[], float | None] = lambda: None
    """When Slurm's job states were last read, on the clock."""

    last_filter: Callable[[], float | None] = lambda: None
    """When /filter was last called, or could be first, on the clock."""

    leads: Callable[[], bool] = lambda: False
    lease_transitions: Callable[[], int] = lambda: 0
    further: dict[Described, Values] = field(default_factory=dict)
    """Gauges and counters, of one label at most; the values of counters never fall."""


class AtScrape(Collector):
    """Asks each source when somebody looks."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Ask each source."""
        sources = self._sources
        tally = Tally(p.state for p in sources.placeholders())
        yield _family(PLACEHOLDERS, {state.value: tally[state] for state in State})
        yield _family(BRAKE, {"": sources.brake_held()})
        yield _family(READY, {"": sources.ready()})
        yield _family(LEADER, {"": sources.leads()})
        yield _family(TRANSITIONS, {"": sources.lease_transitions()})
        for one, last in ((POLL_AGE, sources.last_poll()), (FILTER_AGE, sources.last_filter())):
            if last is not None:
                yield _family(one, {"": max(0.0, self._clock.now() - last)})
        for one, values in sources.further.items():
            yield _family(one, values())


def _family(one: Described, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily if one.sort is Sort.GAUGE else CounterMetricFamily
    metric = family(f"{PREFIX}_{one.name}", one.text, labels=one.labels)
    for value, number in values.items():
        metric.add_metric([value] if one.labels else [], float(number))
    return metric
