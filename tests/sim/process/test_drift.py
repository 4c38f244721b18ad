"""What somebody else changes is found, set right and counted; so is every request."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.wellknown import JOB_ID
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def drift(site: Site, kind: str) -> tuple[float, float]:
    found = await site.metric(f'drift_total{{object="{kind}",result="found"}}')
    return found, await site.metric(f'drift_total{{object="{kind}",result="repaired"}}')


async def test_what_was_written_on_a_running_pod_is_written_again_and_counted_once(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        await asyncio.sleep(10)
        assert await drift(site, "annotations") == (0, 0)
        site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({JOB_ID: "4711"}))
        await asyncio.sleep(20)
        assert site.pod("web")["metadata"]["annotations"][JOB_ID] == str(site.placeholder("web").job_id)
        assert await drift(site, "annotations") == (1, 1)


async def test_a_drain_that_is_lifted_under_a_pod_is_set_again_and_counted(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 500.0
        site.kube.add_pod("web", grace_s=500)
        node = await site.bound("web")
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.until(lambda: site.drained() == [node], "the drain")
        await asyncio.sleep(5)
        await site.slurm_request("POST", f"node/{node}", {"state": ["RESUME"]})
        await asyncio.sleep(10)
        assert site.drained() == [node]
        assert await drift(site, "drain") == (1, 1)


async def test_the_job_is_a_label_of_its_pod_and_comes_back_where_it_is_removed(site: Site) -> None:
    def label() -> object:
        return (site.pod("web")["metadata"].get("labels") or {}).get("slurm-extender.io/job-id")

    async with site.running():
        site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"})
        await site.bound("web")
        job_id = str(site.jobs_of("web")[0].job_id)
        assert label() == job_id
        site.edit_pod("web", lambda pod: pod["metadata"].update(labels={"app": "a"}))
        await site.until(lambda: label() == job_id, "the label", within=20)
        assert site.pod("web")["metadata"]["labels"]["app"] == "a"


async def test_requests_to_both_sides_are_counted_by_endpoint_and_status(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"})
        await site.bound("web")
        await asyncio.sleep(5)
        shown = (await site.get(8082, "/metrics")).text
    for line in (
        'slurm_extender_kube_request_duration_seconds_count{code="201",endpoint="pods/binding",method="POST"} 1.0',
        'slurm_extender_slurm_http_requests_total{code="200",endpoint="job/submit",method="POST"} 1.0',
        "slurm_extender_pending_job_reads 0.0",
        "slurm_extender_pending_events 0.0",
        'slurm_extender_placeholder_phase_duration_seconds_count{phase="placed"} 1.0',
    ):
        assert line in shown
    assert "slurm_extender_kube_last_message_timestamp_seconds" in shown
