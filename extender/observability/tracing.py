"""Trace the placement of a Pod, if an endpoint is configured: from `/filter` to the grant to the Binding.

One trace for each try: `place` is the whole of it; `filter`, `submit`, `wait` and `bind` are its parts, each linked to
the one that led to it. Without an endpoint OpenTelemetry is not imported, and no step costs more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.trace import Link, Span, Status, StatusCode

from extender import __version__
from extender.domain.events import CandidatesChanged
from extender.domain.gangs.membership import is_key_of_gang
from extender.domain.placeholder import Placeholder, State
from extender.domain.ports import Clock
from extender.engine.history import History, HistoryEntry

SERVICE = "slurm-extender"

CLOSE_WITHIN_S = 3.0
"""Seconds at the end for spans that were not sent yet."""

_PHASES = {State.SUBMITTING: "submit", State.WAITING: "wait", State.GRANTED: "bind"}
"""What begins with coming to a state."""

_ENDED = {State.REFUSED, State.GONE, State.RELEASING, State.LOST}


class TracingUnusable(Exception):
    """Tracing is configured and unavailable; the text says why."""


@dataclass(slots=True)
class _Try:
    """One try to place a workload."""

    whole: Span
    part: Span | None = None
    links: list[Link] = field(default_factory=list)
    """To what led to the next part."""


class Traces:
    """Listen to the engine. `history` returns the last steps of a workload."""

    def __init__(self, tracer: trace.Tracer, clock: Clock, history: Callable[[str], History]) -> None:
        self._tracer = tracer
        self._clock = clock
        self._history = history
        self._tries: dict[str, _Try] = {}

    @property
    def open(self) -> int:
        """Return how many tries are under way."""
        return len(self._tries)

    def moved(self, before: Placeholder, after: Placeholder) -> None:
        """Record a change of a placeholder."""
        entries = self._history(after.key).entries
        entry = entries[-1] if entries else None
        now = int(self._clock.wall() * 1e9)
        filtered = entry is not None and isinstance(entry.event, CandidatesChanged)
        begins = before.state is State.ABSENT and (filtered or after.state is State.SUBMITTING)
        one = self._tries.get(after.key)
        if one is None and begins:
            one = self._tries[after.key] = self._begin(after, now)
        if one is None:
            return
        if filtered and entry is not None:
            self._filtered(one, after, entry, now)
        if after.state is not before.state:
            self._turned(one, after, entry.source if entry is not None else "", now)

    def forgotten(self, key: str) -> None:
        """Forget a workload; where a try of it is open, there was no such Pod."""
        if key in self._tries:
            self._end(key, int(self._clock.wall() * 1e9), Status(StatusCode.ERROR, "no such Pod"))

    def _begin(self, p: Placeholder, now: int) -> _Try:
        attributes: dict[str, str | int] = {
            "slurm_extender.workload": p.key,
            "k8s.pod.name": p.pod_names,
            "slurm_extender.attempt": p.attempt,
        }
        if not is_key_of_gang(p.key):
            attributes["k8s.pod.uid"] = p.key  # the key of a workload of one Pod
        return _Try(self._tracer.start_span("place", attributes=attributes, start_time=now))

    def _filtered(self, one: _Try, p: Placeholder, entry: HistoryEntry, now: int) -> None:
        """Record that kube-scheduler offered its nodes, or that the extender computed them."""
        attributes: dict[str, str | int] = {
            "slurm_extender.source": entry.source,
            "slurm_extender.nodes": len(p.candidates or ()),
        }
        self._part(one, "filter", now, attributes).end(now)

    def _turned(self, one: _Try, p: Placeholder, source: str, now: int) -> None:
        if one.part is not None:
            if p.job_id is not None:
                one.part.set_attribute("slurm.job_id", p.job_id)
            one.part.set_attribute("slurm_extender.ended_by", source)
            one.part.end(now)
            one.part = None
        if p.job_id is not None:
            one.whole.set_attribute("slurm.job_id", p.job_id)
        if phase := _PHASES.get(p.state):
            one.part = self._part(one, phase, now, {"slurm_extender.source": source})
        elif p.state is State.BOUND:
            one.whole.set_attribute("k8s.node.name", ", ".join(sorted({m.node for m in p.members if m.node})))
            self._end(p.key, now, Status(StatusCode.OK))
        elif p.state in _ENDED or p.state is State.ABSENT:
            self._end(p.key, now, Status(StatusCode.ERROR, f"{p.state}: {p.reason}"))

    def _part(self, one: _Try, name: str, now: int, attributes: dict[str, str | int]) -> Span:
        inside = trace.set_span_in_context(one.whole)
        span = self._tracer.start_span(name, context=inside, attributes=attributes, links=one.links, start_time=now)
        one.links = [Link(span.get_span_context())]
        return span

    def _end(self, key: str, now: int, status: Status) -> None:
        one = self._tries.pop(key)
        one.whole.set_status(status)
        one.whole.end(now)


class Exporter:
    """Sends spans to an OTLP endpoint, in a thread of its own; what does not fit in its queue is dropped.

    `endpoint` None: as the variables `OTEL_EXPORTER_OTLP_ENDPOINT` and its like say. Raises `TracingUnusable`.
    """

    def __init__(self, endpoint: str | None, instance: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
            from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
            from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
            from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        except ImportError as error:
            raise TracingUnusable(
                f"an endpoint for traces is configured, and the packages for it are missing ({error.name}): install "
                "slurm-extender[tracing], or take the endpoint away"
            ) from error
        about = {"service.name": SERVICE, "service.version": __version__, "service.instance.id": instance}
        self._provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        target = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=target)))

    @property
    def tracer(self) -> trace.Tracer:
        """Return the tracer that makes spans."""
        return self._provider.get_tracer(SERVICE, __version__)

    def close(self) -> None:
        """Send what is left. What the endpoint does not take within `CLOSE_WITHIN_S` is lost.

        The package itself would wait for up to half a minute, of which the Deployment gives no more to the whole end.
        """
        last = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        last.start()
        last.join(CLOSE_WITHIN_S)
