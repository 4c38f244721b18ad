"""A trace for each try to place a Pod: what led to what, and how long it took."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from extender.assembly import Assembly
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from extender.observability.metrics.registry import Metrics
from extender.observability.tracing import Traces
from extender.runtime.topics import PlaceholderChanged, PlaceholderForgotten
from tests.builders.process_site import Site
from tests.builders.services import args

pytestmark = pytest.mark.looptime


def follow(assembly: Assembly, follower: Traces | Metrics) -> None:
    assembly.events.subscribe(PlaceholderChanged, lambda event: follower.moved(event.before, event.after))
    assembly.events.subscribe(PlaceholderForgotten, lambda event: follower.forgotten(event.key))


class Traced:
    """What was sent."""

    def __init__(self, site: Site) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        engine = site.extender.engine
        self.traces = Traces(provider.get_tracer("test"), site.extender.io_context.clock, engine.histories.of)
        follow(site.extender, self.traces)

    def spans(self, name: str = "") -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if name in {"", span.name}]


@asynccontextmanager
async def traced(site: Site) -> AsyncIterator[Traced]:
    async with site.running():
        yield Traced(site)


def said(span: ReadableSpan, key: str) -> object:
    return (span.attributes or {}).get(key)


async def test_the_way_of_a_pod_is_one_trace_of_linked_parts(site: Site) -> None:
    async with traced(site) as found:
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await asyncio.sleep(60)
        site.kube.delete_pod("first-0", grace_s=1)
        node = await site.bound("web")
        uid = site.uid("web")
        [whole] = [span for span in found.spans("place") if said(span, "k8s.pod.uid") == uid]
        assert whole.context is not None
        assert said(whole, "slurm_extender.workload") == uid
        parts = [span for span in found.spans() if span.parent and span.parent.span_id == whole.context.span_id]
        names = [span.name for span in parts]
        assert names[0] == "filter"
        assert [name for name in names if name != "filter"] == ["submit", "wait", "bind"]
        assert {span.context.trace_id for span in parts if span.context} == {whole.context.trace_id}
        begun = sorted(parts, key=lambda span: span.start_time or 0)
        for before, after in pairwise(begun):
            assert [link.context for link in after.links] == [before.context]
        [wait] = [span for span in parts if span.name == "wait"]
        assert (wait.end_time or 0) - (wait.start_time or 0) > 50e9
        assert said(wait, "slurm_extender.ended_by") in {"hint", "poll", "read"}
        assert said(wait, "slurm.job_id") == said(whole, "slurm.job_id") is not None
        assert said(whole, "k8s.node.name") == node
        assert whole.status.is_ok
        assert found.traces.open == 0


async def test_the_trace_of_a_gang_names_its_workload_and_no_pod_by_uid(site: Site) -> None:
    async with traced(site) as found:
        for name in ("ring-0", "ring-1"):
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "2"}, gates=(GATE,))
        for name in ("ring-0", "ring-1"):
            await site.bound(name)
        [workload] = site.extender.engine.placeholders.all
        [whole] = found.spans("place")
        assert said(whole, "slurm_extender.workload") == workload
        assert said(whole, "k8s.pod.uid") is None


async def test_a_pod_that_goes_while_it_waits_ends_its_trace_with_the_reason(site: Site) -> None:
    async with traced(site) as found:
        await site.fill()
        site.kube.add_pod("web", cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        uid = site.uid("web")
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.jobs_of("web"), "the end of its job")
        await asyncio.sleep(5)
        [whole] = [span for span in found.spans("place") if said(span, "k8s.pod.uid") == uid]
        assert not whole.status.is_ok
        assert "RELEASING" in (whole.status.description or "")
        assert found.traces.open == 0


async def test_of_a_pod_that_only_kube_scheduler_has_shown_nothing_stays(site: Site) -> None:
    async with traced(site) as found:
        metrics = Metrics(site.extender.io_context.clock)
        follow(site.extender, metrics)
        await site.post_to_extender("/scheduler/filter", args("n1", "n2"))
        assert (found.traces.open, metrics.followed) == (1, 1)
        await asyncio.sleep(60)
        assert (found.traces.open, metrics.followed) == (0, 0)
        [whole] = found.spans("place")
        assert not whole.status.is_ok
