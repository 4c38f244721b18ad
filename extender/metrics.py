"""Metrics, in a registry of their own. No label holds a Pod, a job or a node: their number has no bound.

Durations are seconds. What changes is counted as it happens; what stands still is asked for at each scrape.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from extender import __version__
from extender.domain.placeholder import Placeholder, State
from extender.ports import Clock

PREFIX = "slurm_extender"

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Answers from memory to requests over the network; kube-scheduler gives up after 5 s."""

REQUEST_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""slurmrestd: 2 ms when idle, up to 30 s with slurmctld away."""

LIFE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 259200.0)
"""A placeholder's way: from milliseconds on a free cluster to days in a queue."""


@dataclass(slots=True)
class Sources:
    """What is asked for at a scrape. Each is a function of no arguments; set when the thing it asks exists."""

    placeholders: Callable[[], Iterable[Placeholder]] = tuple
    brake_held: Callable[[], bool] = lambda: False
    ready: Callable[[], bool] = lambda: False
    last_poll: Callable[[], float | None] = lambda: None
    """When Slurm's job states were last read, on the clock."""

    leads: Callable[[], bool] = lambda: False
    lease_transitions: Callable[[], int] = lambda: 0

    gauges: Mapping[str, tuple[str, Callable[[], Mapping[str, float]]]] = field(default_factory=dict)
    """Further gauges: name -> (help, labelled values by the label `kind`)."""

    counters: Mapping[str, tuple[str, Callable[[], Mapping[str, float]]]] = field(default_factory=dict)
    """Further counters, likewise; the values never fall."""


class Metrics:
    """Everything that is counted. `registry` is what `/metrics` shows."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self.sources = Sources()
        self._clock = clock
        self._lives: dict[str, _Life] = {}
        registry = self.registry
        self._filter = prometheus.Histogram(
            f"{PREFIX}_filter_seconds",
            "Time to answer /filter.",
            ["verdict"],
            buckets=ANSWER_BUCKETS,
            registry=registry,
        )
        self._bind = prometheus.Histogram(
            f"{PREFIX}_bind_seconds",
            "Time to answer /bind, the request to the API server included.",
            ["outcome"],
            buckets=ANSWER_BUCKETS,
            registry=registry,
        )
        self._hooks = prometheus.Counter(
            f"{PREFIX}_hook_requests_total", "Calls of /hooks by HTTP status.", ["hook", "code"], registry=registry
        )
        self._slurm = prometheus.Histogram(
            f"{PREFIX}_slurm_request_seconds",
            "Time of requests to slurmrestd, by what was asked and `ok` or the class of the error.",
            ["request", "outcome"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._polls = prometheus.Histogram(
            f"{PREFIX}_poll_seconds",
            "Time of polls of Slurm's job states.",
            ["outcome"],
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self._phases = prometheus.Histogram(
            f"{PREFIX}_placeholder_phase_seconds",
            "Time that placeholders took: `submit` from being wanted to Slurm's acceptance, `grant` to the allocation, "
            "`bind` to the Pods being bound, `gone` from the end of the allocation to the end of the Pods.",
            ["phase"],
            buckets=LIFE_BUCKETS,
            registry=registry,
        )
        self._moves = prometheus.Counter(
            f"{PREFIX}_placeholder_moves_total",
            "Changes of a placeholder's state.",
            ["before", "after"],
            registry=registry,
        )
        self._lost = prometheus.Counter(
            f"{PREFIX}_allocations_lost_total",
            "Allocations that ended before their Pods, by cause.",
            ["cause"],
            registry=registry,
        )
        self._surplus = prometheus.Counter(
            f"{PREFIX}_surplus_jobs_total", "Jobs found beside a unit's own, and cancelled.", registry=registry
        )
        self._given_back = prometheus.Counter(
            f"{PREFIX}_grants_given_back_total",
            "Granted nodes that Kubernetes would not let the Pod use.",
            registry=registry,
        )
        build = prometheus.Gauge(f"{PREFIX}_build_info", "1, with the version.", ["version"], registry=registry)
        build.labels(__version__).set(1)
        prometheus.ProcessCollector(registry=registry)
        prometheus.GCCollector(registry=registry)
        registry.register(_AtScrape(self.sources, clock))

    def filtered(self, verdict: str, seconds: float) -> None:
        """`/filter` was answered."""
        self._filter.labels(verdict.lower()).observe(seconds)

    def bound(self, ok: bool, seconds: float) -> None:
        """`/bind` was answered."""
        self._bind.labels("ok" if ok else "refused").observe(seconds)

    def hooked(self, hook: str, code: int) -> None:
        """A hook was answered."""
        self._hooks.labels(hook, str(code)).inc()

    def slurm_asked(self, request: str, seconds: float, outcome: str) -> None:
        """slurmrestd was asked something; an `ObserveRequest` of the Slurm adapter."""
        self._slurm.labels(request, outcome).observe(seconds)

    def polled(self, seconds: float, ok: bool) -> None:
        """Slurm's job states were polled."""
        self._polls.labels("ok" if ok else "failed").observe(seconds)

    def moved(self, before: Placeholder, after: Placeholder) -> None:
        """A placeholder changed; a listener of the engine."""
        new_surplus = len(after.surplus - before.surplus)
        if new_surplus:
            self._surplus.inc(new_surplus)
        if len(after.refused_nodes) > len(before.refused_nodes):
            self._given_back.inc()
        life = self._lives.setdefault(after.key, _Life(self._clock.now()))
        if before.state is not after.state:
            self._moves.labels(before.state.value, after.state.value).inc()
            if after.state is State.LOST:
                self._lost.labels(after.end_kind.value if after.end_kind else "unknown").inc()
            for phase, seconds in life.reached(after.state, self._clock.now()):
                self._phases.labels(phase).observe(seconds)
        if after.state is State.GONE:
            self._lives.pop(after.key, None)

    @property
    def followed(self) -> int:
        """How many placeholders' ways are being timed."""
        return len(self._lives)

    def render(self) -> tuple[bytes, str]:
        """The text of `/metrics` and its content type."""
        return prometheus.generate_latest(self.registry), prometheus.CONTENT_TYPE_PLAIN_0_0_4


@dataclass(slots=True)
class _Life:
    """When a placeholder came to each stage of its way; instants of the clock."""

    wanted: float
    submitted: bool = False
    """Not so for one that was there before this process: its way is not known."""

    accepted: float | None = None
    granted: float | None = None
    bound: float | None = None
    lost: float | None = None

    def reached(self, state: State, now: float) -> list[tuple[str, float]]:
        """The phases that end with coming to `state`. One that an earlier life ended is not counted twice."""
        done: list[tuple[str, float]] = []
        if state is State.ABSENT:  # wanted again: the way begins anew
            self.wanted, self.submitted = now, False
            self.accepted = self.granted = self.bound = self.lost = None
        if state is State.SUBMITTING:
            self.submitted = True
        if state in {State.WAITING, State.GRANTED} and self.submitted and self.accepted is None:
            self.accepted = now
            done.append(("submit", now - self.wanted))
        if state is State.GRANTED and self.granted is None and self.accepted is not None:
            self.granted = now
            done.append(("grant", now - self.accepted))
        if state is State.BOUND and self.bound is None and self.granted is not None:
            self.bound = now
            done.append(("bind", now - self.granted))
        if state is State.LOST and self.lost is None:
            self.lost = now
        if state is State.GONE and self.lost is not None:
            done.append(("gone", now - self.lost))
        return done


class _AtScrape(Collector):
    """Values that are asked for when somebody looks."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        self._sources = sources
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Ask each source."""
        sources = self._sources
        tally = Tally(p.state for p in sources.placeholders())
        states = GaugeMetricFamily(f"{PREFIX}_placeholders", "Placeholders by state.", labels=["state"])
        for state in State:
            states.add_metric([state.value], tally[state])
        yield states
        yield GaugeMetricFamily(
            f"{PREFIX}_brake_held", "1 while the brake holds back a mass ending.", value=float(sources.brake_held())
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_ready", "1 once everything that was in the cluster is known.", value=float(sources.ready())
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_leader",
            "1 while this process may write, 0 while another one does.",
            value=float(sources.leads()),
        )
        yield CounterMetricFamily(
            f"{PREFIX}_lease_transitions",
            "Times that this process has seen the Lease change hands.",
            value=sources.lease_transitions(),
        )
        last = sources.last_poll()
        if last is not None:
            yield GaugeMetricFamily(
                f"{PREFIX}_poll_age_seconds",
                "Time since Slurm's job states were last read.",
                value=max(0.0, self._clock.now() - last),
            )
        for family, given in ((GaugeMetricFamily, sources.gauges), (CounterMetricFamily, sources.counters)):
            for name, (text, values) in given.items():
                metric = family(f"{PREFIX}_{name}", text, labels=["kind"])
                for kind, value in values().items():
                    metric.add_metric([kind], value)
                yield metric
