"""What an earlier release left behind is understood: nothing is submitted again, nothing that runs is ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from extender import __version__
from extender.domain.jobs.cancelled import decode_cancelled
from extender.domain.jobs.identity import decode_mark, hook_token_matches, is_named_for
from extender.domain.nodes.drain_reasons import drainer, is_own_drain
from extender.domain.pods.allocation_record import AllocationRecord, AllocationRecords
from extender.domain.wellknown import CANCELLED
from simulator.cluster import CLUSTER, SCHEDULER
from tests.builders.process_site import Site
from tests.builders.releases import Recording, recording_of, released, take_place

VERSIONS = released()
ALLOCATION_RECORDS = AllocationRecords([b"secret"], CLUSTER)


def named(recording: Recording, name: str) -> dict[str, Any]:
    return next(pod for pod in recording["pods"] if pod["metadata"]["name"] == name)


def test_there_is_a_recording_of_this_version_or_of_the_one_before() -> None:
    assert VERSIONS
    assert __version__ in VERSIONS, "python -m tests.builders.releases records what this version leaves behind"


@pytest.mark.parametrize("version", VERSIONS)
def test_marks_names_allocation_records_and_drains_are_read(version: str) -> None:
    recording = recording_of(version)
    pods = {pod["metadata"]["uid"]: pod["metadata"] for pod in recording["pods"]}
    for job in recording["jobs"]:
        said = job["submitted"]
        mark = decode_mark(said["admin_comment"])
        assert mark is not None
        assert (mark, mark.cluster, mark.scheduler) == (decode_mark(said["extra"]), CLUSTER, SCHEDULER)
        written = json.loads(said["admin_comment"])
        assert written.pop("slurm-extender") == 1
        read = {"c": mark.cluster, "s": mark.scheduler, "u": mark.workload, "a": mark.attempt, "e": mark.epoch}
        assert written == {**read, "g": mark.grace_s, "p": mark.pod, "r": dict(mark.request_digests)}
        [token] = [text.partition("=")[2] for text in said["environment"] if text.startswith("SLURM_EXTENDER_TOKEN=")]
        assert hook_token_matches(b"secret", mark, token), "its script is believed no more"
        assert is_named_for(said["name"], CLUSTER, SCHEDULER, mark.workload)
        assert pods[mark.workload]["name"] in said["name"]
    job_ids = {"run-0": 1, "run-1": 2, "run-2": 3}
    for name, job_id in job_ids.items():
        pod = named(recording, name)
        node = pod["spec"]["nodeName"]
        assert ALLOCATION_RECORDS.read(pod["metadata"]["annotations"], pod["metadata"]["uid"]) == AllocationRecord(
            job_id, node, slurm_node=node
        )
        assert ALLOCATION_RECORDS.read(pod["metadata"]["annotations"], "of-a-copy").foreign
    refused = named(recording, "refused")["metadata"]
    assert decode_cancelled(refused["annotations"][CANCELLED], refused["uid"]) is not None
    assert [is_own_drain(node["reason"], drainer(CLUSTER, SCHEDULER)) for node in recording["nodes"]] == [True]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.looptime
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_present_code_continues_where_that_release_stopped(site: Site, version: str) -> None:
    recording = recording_of(version)
    site.kubelets.stop_s = 10**6
    await take_place(site, recording)
    before = {job.job_id: (job.state, job.name, job.extra, job.comment) for job in site.live_jobs()}
    drained = site.drained()
    async with site.running():
        await asyncio.sleep(120)
        assert {job.job_id: (job.state, job.name, job.extra, job.comment) for job in site.live_jobs()} == before
        assert site.drained() == drained  # its Pod is still there
        for name in ("run-0", "run-1"):
            record = ALLOCATION_RECORDS.read(site.pod(name)["metadata"]["annotations"], site.uid(name))
            assert site.placeholder(name).job_id == record.job_id
            assert "deletionTimestamp" not in site.pod(name)["metadata"]
        site.kubelets.stop_s = 1.0
        job_of = {job.name.rpartition("-")[0]: job.job_id for job in site.live_jobs()}
        site.kube.delete_pod("run-0", grace_s=1)
        await site.bound("waits")
        assert site.placeholder("waits").job_id == job_of["default/waits"]
        assert not site.node_of("refused")
