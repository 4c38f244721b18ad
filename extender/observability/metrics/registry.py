"""Metrics, in a registry of their own.

Durations are seconds. Changes are counted as they happen. Values that a scrape reads are declared in
`observability/process_metrics.py` and `metrics/scrape.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import prometheus_client as prometheus
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from extender import __version__
from extender.domain.cluster import SlurmSnapshot
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.observability.metrics.described import PREFIX, Described, Sort
from extender.observability.metrics.endpoints import kube_endpoint, slurm_endpoint
from extender.observability.metrics.gang_waits import GangWaits
from extender.observability.metrics.lives import Life, PlacementPhase
from extender.observability.metrics.scrape import ALWAYS, AtScrape, Sources, Values
from extender.observability.metrics.slurm_labels import SlurmLabels

ANSWER_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Answers from memory to requests over the network; kube-scheduler gives up after 5 s."""

REQUEST_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""slurmrestd: 2 ms when idle, up to 30 s with slurmctld away."""

LIFE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 259200.0)
"""A placeholder's way: from milliseconds on a free cluster to days in a queue."""

Further = Mapping[Described, Values]
"""Gauges and counters that a scrape reads, with their values."""

CONTENT_TYPE = prometheus.CONTENT_TYPE_PLAIN_0_0_4
"""Of the text of `/metrics`."""

NO_ANSWER = "none"
"""The code of a request to which no answer came."""


class Metrics:
    """Everything that is counted. `registry` is what `/metrics` shows.

    `further` are gauges and counters that exist before the rest of the process.
    """

    def __init__(self, clock: Clock, *, by_partition: bool = False, further: Further = MappingProxyType({})) -> None:
        self._further = further
        self._sources = Sources(further=further)
        self.labels = SlurmLabels(self._slurm_snapshot, by_partition=by_partition)
        self.registry = CollectorRegistry()
        self._described: list[Described] = []
        self._clock = clock
        self._lives: dict[str, Life] = {}
        self._gang_waits = GangWaits()
        self._filtered_at: float | None = None
        self._filter = self._histogram(
            "filter_duration_seconds", "Time to answer /filter, by the answer.", ("result",), ANSWER_BUCKETS
        )
        self._bind = self._histogram(
            "bind_duration_seconds",
            "Time to answer /bind, including the request to the API server.",
            ("result",),
            ANSWER_BUCKETS,
        )
        self._hooks = self._counter("hook_requests_total", "Calls of /hooks, by HTTP status.", ("hook", "code"))
        self._refused = self._counter(
            "http_rejections_total", "HTTP requests and connections that were rejected, by reason.", ("reason",)
        )
        self._slurm = self._histogram(
            "slurm_request_duration_seconds",
            "Time of operations on Slurm, including retries, by operation and by `ok` or the class of the error.",
            ("request", "result"),
            REQUEST_BUCKETS,
        )
        self._slurm_http = self._counter(
            "slurm_http_requests_total",
            "HTTP requests to slurmrestd, each retry counted by itself, by HTTP status; `none`: no answer came.",
            ("method", "endpoint", "code"),
        )
        self._kube_http = self._histogram(
            "kube_request_duration_seconds",
            "Time of requests to the API server except watches, by HTTP status; `none`: no answer came.",
            ("method", "endpoint", "code"),
            REQUEST_BUCKETS,
        )
        self._polls = self._histogram(
            "poll_duration_seconds", "Time to poll the states of Slurm's jobs.", ("result",), REQUEST_BUCKETS
        )
        self._phases = self._histogram(
            "placeholder_phase_duration_seconds",
            "Time that placeholders took, by phase: "
            + "; ".join(f"`{one}`: {one.text}" for one in PlacementPhase)
            + ".",
            self.labels.names("phase"),
            LIFE_BUCKETS,
        )
        self._gang_wait = self._histogram(
            "gang_wait_duration_seconds",
            "Time from all Pods of a gang being known to all of them being bound, over all jobs that this took.",
            (),
            LIFE_BUCKETS,
        )
        self._moves = self._counter(
            "placeholder_transitions_total", "Changes of the states of placeholders.", ("from", "to")
        )
        self._lost = self._counter(
            "allocations_lost_total", "Allocations that ended before their Pods, by reason.", ("reason",)
        )
        self._duplicates = self._counter(
            "duplicate_jobs_total",
            "Duplicate jobs of one workload: each is counted once when it is `found` and cancelled, and once when it "
            "has `ended`.",
            ("result",),
        )
        for result in ("found", "ended"):
            self._duplicates.labels(result)
        self._released = self._counter(
            "allocations_released_total", "Allocations released because Kubernetes would not run the Pod on the node."
        )
        self._build = self._gauge("build_info", "1, with the version.", ("version",))
        self._build.labels(__version__).set(1)
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.GCCollector(registry=self.registry)
        self.registry.register(AtScrape(lambda: self._sources, lambda: self._filtered_at, clock, self.labels))

    @property
    def described(self) -> tuple[Described, ...]:
        """Return every metric of the extender."""
        return (*self._described, *ALWAYS, *self._sources.further)

    def read_from(self, sources: Sources) -> None:
        """Show these values from now on, and those that were given at construction."""
        self._sources = replace(sources, further={**self._further, **sources.further})

    def answers(self) -> None:
        """Record that this process is the one that kube-scheduler should be calling."""
        self._filtered_at = self._clock.now()

    def filtered(self, verdict: str, seconds: float) -> None:
        """Count an answer to `/filter`."""
        self._filter.labels(verdict.lower()).observe(seconds)
        if self._filtered_at is not None:
            self._filtered_at = self._clock.now()

    def bound(self, ok: bool, seconds: float) -> None:
        """Count an answer to `/bind`."""
        self._bind.labels("ok" if ok else "refused").observe(seconds)

    def hooked(self, hook: str, code: int) -> None:
        """Count an answer to a hook."""
        self._hooks.labels(hook, str(code)).inc()

    def refused(self, reason: str) -> None:
        """Count a request or a connection that was not served; there are a dozen reasons."""
        self._refused.labels(reason).inc()

    def slurm_requested(self, request: str, seconds: float, outcome: str) -> None:
        """Record a request of the Slurm adapter to slurmrestd, as an `ObserveRequest`."""
        self._slurm.labels(request, outcome).observe(seconds)

    def slurm_answered(self, method: str, path: str, code: int) -> None:
        """Count the answer to one HTTP request to slurmrestd; code 0: there was none."""
        self._slurm_http.labels(method, slurm_endpoint(path), str(code or NO_ANSWER)).inc()

    def kube_answered(self, method: str, path: str, seconds: float, code: int) -> None:
        """Count the answer to one request to the API server; code 0: there was none."""
        self._kube_http.labels(method, kube_endpoint(path), str(code or NO_ANSWER)).observe(seconds)

    def polled(self, seconds: float, ok: bool) -> None:
        """Record a poll of Slurm's job states."""
        self._polls.labels("ok" if ok else "failed").observe(seconds)

    def moved(self, before: Placeholder, after: Placeholder) -> None:
        """Record a change of a placeholder, as a listener of the engine."""
        if after.duplicate_jobs is not before.duplicate_jobs:
            self._duplicates.labels("found").inc(len(after.duplicate_jobs - before.duplicate_jobs))
            self._duplicates.labels("ended").inc(len(before.duplicate_jobs - after.duplicate_jobs))
        if len(after.refused_nodes) > len(before.refused_nodes):
            self._released.inc()
        now, left, state = self._clock.now(), before.state, after.state
        life = self._lives.get(after.key)
        if life is None:
            life = self._lives[after.key] = Life(now)
        if (waited := self._gang_waits.moved(before, after, now)) is not None:
            self._gang_wait.observe(waited)
        if left is not state:
            self._moves.labels(left.value, state.value).inc()
            if state is State.LOST:
                self._lost.labels(after.end_kind.value if after.end_kind else "unknown").inc()
            for phase, seconds in life.reached(left, state, now):
                self._phases.labels(*self.labels.values(after.request or after.submitted_request, phase.value)).observe(
                    seconds
                )
        if state is State.GONE:
            self._lives.pop(after.key, None)

    def forgotten(self, key: str) -> None:
        """Forget a workload; one that was no Pod after all never came to its end."""
        self._lives.pop(key, None)
        self._gang_waits.forgotten(key)

    @property
    def followed(self) -> int:
        """Return how many placeholders are being timed."""
        return len(self._lives) + len(self._gang_waits)

    def parts(self) -> Iterator[bytes]:
        """Yield the text of `/metrics`, metric by metric: some are collected from all workloads."""
        for metric in self.registry.collect():
            yield prometheus.generate_latest(_Single(metric))

    def render(self) -> bytes:
        """Return the text of `/metrics`."""
        return b"".join(self.parts())

    def _slurm_snapshot(self) -> SlurmSnapshot:
        return self._sources.snapshot()

    def _histogram(
        self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> prometheus.Histogram:
        self._described.append(Described(name, Sort.HISTOGRAM, text, labels))
        return prometheus.Histogram(f"{PREFIX}_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> prometheus.Counter:
        self._described.append(Described(name, Sort.COUNTER, text, labels))
        return prometheus.Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> prometheus.Gauge:
        self._described.append(Described(name, Sort.GAUGE, text, labels))
        return prometheus.Gauge(f"{PREFIX}_{name}", text, labels, registry=self.registry)


class _Single(Collector):
    """Collect one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        """Return the metric."""
        return (self._metric,)
