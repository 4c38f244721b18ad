"""Answers that arrive after newer ones, and information that is missing for a while: neither ends anything."""

from __future__ import annotations

import asyncio

import pytest

from simulator.slurm.faults import SlurmFault
from simulator.slurm.records import SimNode
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime
JOB_ID = "status.slurm-extender.io/job-id"
NODE = "status.slurm-extender.io/node"


@pytest.mark.parametrize("late_s", [0.5, 2, 6])
async def test_a_job_read_before_its_start_and_reported_after_its_binding_ends_nothing(
    site: Site, late_s: float
) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        (job,) = site.jobs_of("waits")
        await asyncio.sleep(3)
        late = site.slurm.restd.faults.add(SlurmFault.DELAY, "GET", f"/job/{job.job_id}", seconds=late_s, times=1)
        await site.until(lambda: not late.times, "a read of the job that is answered late")
        site.kube.delete_pod("first-1", grace_s=1)
        await site.bound("waits")
        await asyncio.sleep(10)
        assert "deletionTimestamp" not in site.pod("waits")["metadata"]
        assert site.jobs_of("waits") == [job]
        assert site.placeholder("waits").state == "BOUND"


async def test_a_pod_without_its_annotation_keeps_its_job_although_slurms_nodes_are_read_late(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    (job,) = site.live_jobs()
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop(JOB_ID))
    site.slurm.restd.faults.add(SlurmFault.DELAY, "GET", "/nodes", seconds=5, times=1)
    async with site.running():
        await asyncio.sleep(90)
        assert site.live_jobs() == [job]
        assert site.placeholder("web").state == "BOUND"


async def test_a_grant_on_a_node_that_slurm_got_since_the_last_read_is_used(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        (job,) = site.jobs_of("waits")
        site.kube.add_node("n4")
        join(site, "n4")
        assert await site.bound("waits", within=60) == "n4"
        assert site.jobs_of("waits") == [job]


async def test_a_grant_whose_node_is_not_in_kubernetes_yet_waits_for_it_a_while(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        (job,) = site.jobs_of("waits")
        join(site, "n4")
        await asyncio.sleep(8)
        site.kube.add_node("n4")
        assert await site.bound("waits", within=60) == "n4"
        assert site.jobs_of("waits") == [job]


async def test_a_granted_node_that_registers_again_is_not_released(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        (job,) = site.jobs_of("waits")
        node = site.node_of("first-1")
        site.network.refuse("extender", 8080)  # kube-scheduler does not get through
        site.network.cut("extender", 8080)
        site.kube.delete_pod("first-1", grace_s=1)
        await site.until(lambda: site.placeholder("waits").state == "GRANTED", "the grant")
        site.delete_node(node)
        await asyncio.sleep(3)
        site.kube.add_node(node)
        site.network.refuse("extender", 8080, refused=False)
        assert await site.bound("waits", within=60) == node
        assert site.jobs_of("waits") == [job]


@pytest.mark.parametrize("restart", [False, True])
async def test_a_pod_that_is_bound_to_another_node_after_its_grant_is_left_alone(site: Site, restart: bool) -> None:
    async with site.dying() as die:
        site.network.refuse("extender", 8080)
        site.kube.add_pod("web")
        await asyncio.sleep(5)
        site.network.refuse("extender", 8080, refused=False)
        await site.until(lambda: JOB_ID in site.pod("web")["metadata"].get("annotations", {}), "the grant")
        site.network.cut("extender", 8080)
        site.network.refuse("extender", 8080)
        assert not site.node_of("web")
        (job,) = site.live_jobs()
        if restart:
            die()
        other = next(name for name in NAMES if name not in job.nodes)
        site.edit_pod("web", lambda pod: pod["spec"].update(nodeName=other))
        await asyncio.sleep(30)
    async with site.running():
        await asyncio.sleep(30)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert not site.live_jobs()
        assert "BoundWithoutSlurm" in site.events("web")
        assert not site.drained()


async def test_a_pod_made_from_anothers_manifest_does_not_take_its_job_away(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", cpu="4")
        await site.bound("web")
    (job,) = site.jobs_of("web")
    written = {key: site.pod("web")["metadata"]["annotations"][key] for key in (JOB_ID, NODE)}
    site.kube.add_pod("copy", cpu="4", annotations=written)
    async with site.running():
        await site.bound("copy")
        await asyncio.sleep(10)
        assert site.jobs_of("web") == [job]
        (own,) = site.jobs_of("copy")
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await site.gone("web", within=30)
        assert site.jobs_of("copy") == [own]


async def test_a_job_without_its_mark_whose_pod_is_called_otherwise_now_is_not_missing(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    (job,) = site.live_jobs()
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({"slurm-extender.io/job-name": "other"}))
    async with site.running():
        await asyncio.sleep(10)
        assert site.placeholder("web").state == "BOUND"
        job.extra = job.admin_comment = ""  # the owner of a job may edit the one, and not everybody may write the other
        await asyncio.sleep(30)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.live_jobs() == [job]


async def test_a_running_job_without_its_mark_is_not_missing_after_a_restart(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    (job,) = site.live_jobs()
    job.extra = job.admin_comment = ""
    async with site.running():
        await asyncio.sleep(90)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.live_jobs() == [job]
        assert site.placeholder("web").state == "BOUND"


async def test_the_job_of_a_pod_that_cannot_be_read_is_ended_with_the_pod_and_not_before(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    site.edit_pod("web", lambda pod: pod["spec"].update(hostNetwork="perhaps"))
    async with site.running():
        await asyncio.sleep(60)
        assert [job.state for job in site.live_jobs()] == ["RUNNING"]
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the job's end", within=60)


async def test_a_pod_that_can_be_read_again_runs_on_with_its_job(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    site.edit_pod("web", lambda pod: pod["spec"].update(hostNetwork="perhaps"))
    async with site.running():
        await asyncio.sleep(30)
        site.edit_pod("web", lambda pod: pod["spec"].update(hostNetwork=False))
        await asyncio.sleep(60)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert [job.state for job in site.live_jobs()] == ["RUNNING"]
        assert site.placeholder("web").state == "BOUND"


async def test_when_kubernetes_shows_no_node_no_grant_is_released_and_no_pod_ended(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        site.network.refuse("extender", 8080)  # kube-scheduler does not get through
        site.network.cut("extender", 8080)
        site.kube.delete_pod("first-1", grace_s=1)
        await site.until(lambda: site.placeholder("waits").state == "GRANTED", "the grant")
        jobs = site.live_jobs()
        for name in NAMES:
            site.delete_node(name)
        await asyncio.sleep(60)
        assert site.live_jobs() == jobs
        assert sorted(site.bound_pods()) == ["first-0", "first-2"]
        for name in NAMES:
            site.kube.add_node(name)
        site.network.refuse("extender", 8080, refused=False)
        await site.bound("waits")
        assert site.live_jobs() == jobs


async def test_when_slurm_shows_no_node_no_pod_is_ended_or_refused(site: Site) -> None:
    nodes = site.slurm.controller.nodes
    async with site.running():
        await site.fill()
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "a waiting job")
        jobs, shown = site.live_jobs(), dict(nodes)
        nodes.clear()
        await asyncio.sleep(5)
        site.kube.add_pod("late", cpu="8")
        await asyncio.sleep(60)
        assert site.live_jobs() == jobs
        assert len(site.bound_pods()) == 3
        nodes.update(shown)
        site.kube.delete_pod("first-1", grace_s=1)
        await site.bound("waits")
        site.kube.delete_pod("first-2", grace_s=1)
        await site.bound("late")


def join(site: Site, name: str) -> None:
    """A node joins Slurm, in the partition of everybody."""
    controller = site.slurm.controller
    controller.nodes[name] = SimNode(name, cpus=8, memory_mb=64_000)
    controller.changed(0.1)
