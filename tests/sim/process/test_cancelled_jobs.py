"""A person cancels the job of a Pod that waits: that is an answer, and a start of the extender does not undo it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.kube.faults import KubeFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
COMMENT = "slurm-extender.io/comment"
CANCELLED = "status.slurm-extender.io/cancelled"


@pytest.mark.usefixtures("unhurried")
async def test_a_cancelled_job_is_not_made_again_by_a_restart(site: Site) -> None:
    async with site.dying():
        await cancel_while_waiting(site)
        await site.until(lambda: noted(site), "the note")
    site.kube.delete_pod("first-0", grace_s=1)
    async with site.running():
        await asyncio.sleep(120)
        assert not site.jobs_of("second")
        assert not site.node_of("second")
        site.edit_pod("second", lambda pod: pod["metadata"]["annotations"].update({COMMENT: "again"}))
        await site.bound("second", within=30)


async def test_settings_that_changed_meanwhile_are_requested(site: Site) -> None:
    async with site.dying():
        await cancel_while_waiting(site)
        await site.until(lambda: noted(site), "the note")
    site.edit_pod("second", lambda pod: pod["metadata"]["annotations"].update({COMMENT: "again"}))
    site.kube.delete_pod("first-0", grace_s=1)
    async with site.running():
        await site.bound("second", within=30)


async def test_a_copy_of_the_pod_is_another_pod(site: Site) -> None:
    async with site.dying():
        await cancel_while_waiting(site)
        await site.until(lambda: noted(site), "the note")
    site.kube.delete_pod("first-0", grace_s=1)
    site.kube.add_pod("third", annotations=dict(site.pod("second")["metadata"]["annotations"]), cpu="8")
    async with site.running():
        await site.bound("third", within=30)
        assert not site.node_of("second")
        assert "InvalidSlurmSettings" not in site.events("third")


@pytest.mark.parametrize("text", ["", "yes", "{}", '{"job":"1"}', "[1]", '{"job":1,"pod":2,"request":null}'])
async def test_a_note_that_says_nothing_forbids_nothing(site: Site, text: str) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={CANCELLED: text})
        await site.bound("web", within=30)
        assert "InvalidSlurmSettings" not in site.events("web")


@pytest.mark.usefixtures("unhurried")
async def test_it_is_written_down_when_the_api_server_takes_it_at_last(site: Site) -> None:
    async with site.dying():
        closed = site.kube.faults.add(KubeFault(method="PATCH", path="/pods/second$", code=503, times=None))
        await cancel_while_waiting(site)
        await asyncio.sleep(60)
        assert not noted(site)
        site.kube.faults.rules.remove(closed)
        await site.until(lambda: noted(site), "the note", within=60)
    site.kube.delete_pod("first-0", grace_s=1)
    async with site.running():
        await asyncio.sleep(60)
        assert not site.jobs_of("second")


@pytest.mark.usefixtures("unhurried")
async def test_it_is_written_once(site: Site) -> None:
    async with site.running():
        await cancel_while_waiting(site)
        await asyncio.sleep(120)
        patches = [one for one in site.kube.requests if one.method == "PATCH" and one.path.endswith("/pods/second")]
        assert len(patches) == 1


async def test_a_pod_with_a_controller_says_for_as_long_as_it_waits_who_refused_it(site: Site) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-1", "controller": True}
    async with site.running():
        await cancel_while_waiting(site, owner=owner)
        await asyncio.sleep(60)
        assert not site.jobs_of("second")
        assert "deletionTimestamp" not in site.pod("second")["metadata"]
        conditions = site.pod("second")["status"]["conditions"]
        (scheduled,) = (one for one in conditions if one["type"] == "PodScheduled")
        assert scheduled["status"] == "False"
        assert "was cancelled. Re-create or change the Pod" in scheduled["message"]


async def cancel_while_waiting(site: Site, **fields: Any) -> None:
    """Pod `second` waits behind three others, and an administrator cancels its job."""
    await site.fill()
    site.kube.add_pod("second", annotations={"slurm-extender.io/mode": "batch"}, cpu="8", **fields)
    await site.until(lambda: bool(site.jobs_of("second")), "its job")
    await asyncio.sleep(2)
    (job,) = site.jobs_of("second")
    site.slurm.controller.cancel(job.job_id)
    await site.until(lambda: "SlurmJobCancelled" in site.events("second"), "an Event")


def noted(site: Site) -> bool:
    return CANCELLED in site.pod("second")["metadata"]["annotations"]
