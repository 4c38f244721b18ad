"""Metrics of a known sequence of events: each event is counted once, and a start counts none again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extender.domain.wellknown import GATE
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

Sample = tuple[str, frozenset[tuple[str, str]]]


async def counted(site: Site) -> Mapping[Sample, float]:
    shown = (await site.get(8082, "/metrics")).text
    return {
        (sample.name.removeprefix("slurm_extender_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }


def one(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def phases(found: Mapping[Sample, float]) -> dict[str, float]:
    counts = {
        labels: value for (name, labels), value in found.items() if name == "placeholder_phase_duration_seconds_count"
    }
    return {dict(labels)["phase"]: value for labels, value in counts.items()}


async def test_each_thing_is_counted_once(site: Site) -> None:
    async with site.running():
        await site.fill()  # 3 Pods that are placed at once
        for name in ("second", "third"):
            site.kube.add_pod(name, cpu="8", gates=[GATE])
        site.kube.add_pod("odd", gates=[GATE], annotations={"slurm-extender.io/mode": "what"})
        await site.until(lambda: len(site.live_jobs()) == 5, "two more jobs")
        await asyncio.sleep(60)
        site.kube.delete_pod("third", grace_s=1)
        await site.until(lambda: len(site.live_jobs()) == 4, "the end of a waiting job")
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("second")
        site.slurm.controller.cancel(site.jobs_of("first-1")[0].job_id)
        await site.gone("first-1")
        await asyncio.sleep(5)
        found = await counted(site)
        assert phases(found) == {"submit": 5, "grant": 4, "bind": 4, "placed": 4, "gone": 1, "release": 2}
        assert found[one("bind_duration_seconds_count", result="ok")] == 4
        assert found[one("allocations_lost_total", reason="cancelled")] == 1
        assert found[one("placeholders", state="BOUND")] == 2
        assert found[one("placeholders", state="REFUSED")] == 1
        assert found[one("placeholders", state="WAITING")] == 0
        assert found[one("placeholder_transitions_total", **{"from": "SUBMITTING", "to": "WAITING"})] == 5
        # Those who were placed at once waited for the first back-off of kube-scheduler, a second.
        assert found[one("placeholder_phase_duration_seconds_bucket", phase="placed", le="2.5")] == 3
        assert found[one("placeholder_phase_duration_seconds_sum", phase="placed")] > 60
        assert found[one("pending_pods", reason="InvalidSlurmSettings")] == 1
        assert not any(name == "duplicate_jobs_total" and value for (name, _), value in found.items())


async def test_a_start_counts_no_pod_again(site: Site) -> None:
    async with site.dying():
        await site.fill()
        site.kube.add_pod("second", cpu="8", gates=[GATE])
        await site.until(lambda: len(site.live_jobs()) == 4, "one that waits")
    async with site.running():
        await asyncio.sleep(30)
        assert phases(await counted(site)) == {}
        site.kube.delete_pod("first-0", grace_s=1)
        await site.bound("second")
        await asyncio.sleep(5)
        found = await counted(site)
        assert phases(found) == {"release": 1}
        assert found[one("bind_duration_seconds_count", result="ok")] == 1
        assert found[one("placeholders", state="BOUND")] == 3


async def test_what_pods_wait_for_is_shown_by_partition_where_the_site_wants_that(site: Site) -> None:
    site.config = site.config.replace("observability: {", "observability: {partitionLabel: true, ")
    async with site.running():
        await site.fill()
        site.kube.add_pod("second", cpu="8", gates=[GATE])
        await site.until(lambda: len(site.jobs_of("second")) == 1, "its job")
        await asyncio.sleep(60)
        found = await counted(site)
        assert found[one("pending_cpus", partition="batch")] == 8
        assert sum(value for (name, labels), value in found.items() if name == "pending_pods") == 1
        assert found[one("placeholder_phase_duration_seconds_count", partition="batch", phase="placed")] == 3
