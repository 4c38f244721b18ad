"""The process dies in any instant and another one starts: Pods and jobs still live and die together."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kube.kubelet import RUN_FOR
from simulator.slurm.faults import SlurmFault
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
JOB_ID = "status.slurm-extender.io/job-id"

INSTANTS = [0.0, 0.001, 0.002, 0.003, 0.005, 0.008, 0.02, 0.1, 0.3, 0.301, 0.31, 0.35, 0.4, 0.5, 0.55, 0.6, 1.0, 1.5]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("mode", ["batch", "allocation"])
@pytest.mark.parametrize("after", INSTANTS)
async def test_a_crash_on_the_way_to_the_binding_loses_and_doubles_nothing(site: Site, mode: str, after: float) -> None:
    slow(site)
    async with site.dying() as die:
        site.kube.add_pod("web", annotations={MODE: mode})
        await asyncio.sleep(after)
        die()
    async with site.running():
        node = await site.bound("web")
        await asyncio.sleep(5)
        (job,) = site.live_jobs()
        assert job.nodes == (node,)
        assert site.pod("web")["metadata"]["annotations"][JOB_ID] == str(job.job_id)
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the job's end")


async def test_a_grant_seen_before_it_is_known_which_node_is_which_is_not_released(site: Site) -> None:
    slow(site)
    async with site.dying() as die:
        site.kube.add_pod("web")
        await site.until(lambda: bool(site.live_jobs()), "a job")
        die()
    (job,) = site.live_jobs()
    await asyncio.sleep(5)
    assert job.state == "RUNNING"
    late = site.slurm.restd.faults.add(SlurmFault.DELAY, "GET", "/nodes", seconds=3, times=1)
    async with site.running():
        await asyncio.sleep(10)
        assert not late.times
        assert await site.bound("web") == job.nodes[0]
        assert site.live_jobs() == [job]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("after", [0.1, 0.31, 0.5, 2.0])
async def test_searching_for_jobs_after_a_crash_does_not_cost_slurm_a_node_without_slurmd(
    site: Site, after: float
) -> None:
    slow(site)
    for node in site.slurm.controller.nodes.values():
        node.external = True
    async with site.dying() as die:
        for number in range(4):
            site.kube.add_pod(f"web-{number}", cpu="8")
        await asyncio.sleep(after)
        die()
    await asyncio.sleep(5)
    async with site.running():
        await asyncio.sleep(60)
        assert not any(node.silent for node in site.slurm.controller.nodes.values())
        assert len(site.live_jobs()) == 4
        assert all(job.external for job in site.live_jobs())
        for _ in range(4):
            await site.until(lambda: bool(site.bound_pods()), "room for the next")
            site.kube.delete_pod(site.bound_pods()[0], grace_s=1)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "NODE_FAIL"])
@pytest.mark.parametrize("after", [0.0, 0.005, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0])
async def test_a_crash_while_a_pod_outlives_its_job_ends_both_and_the_drain(
    site: Site, state: str, after: float
) -> None:
    slow(site)
    site.kubelets.stop_s = 3.0
    async with site.dying() as die:
        site.kube.add_pod("web", annotations={MODE: "batch"}, grace_s=3)
        await site.bound("web")
        (job,) = site.live_jobs()
        site.slurm.controller.end(job.job_id, state)
        await asyncio.sleep(after)
        die()
    await asyncio.sleep(2)
    async with site.running():
        await site.gone("web")
        await site.until(lambda: not site.live_jobs() and not site.drained(), "no job and no drain")


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("after", [0.0, 0.005, 0.1, 0.3, 1.0, 2.5])
async def test_a_crash_while_a_deleted_pods_job_is_cancelled_ends_the_job(site: Site, after: float) -> None:
    slow(site)
    async with site.dying() as die:
        site.kube.add_pod("web", annotations={MODE: "batch"}, grace_s=2)
        await site.bound("web")
        site.kube.delete_pod("web")
        await asyncio.sleep(after)
        die()
    async with site.running():
        await site.gone("web")
        await site.until(lambda: not site.live_jobs(), "the job's end")


@pytest.mark.usefixtures("unhurried")
async def test_jobs_of_pods_that_left_or_finished_meanwhile_are_ended(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("finishes", annotations={RUN_FOR: "10"})
        site.kube.add_pod("left")
        site.kube.add_pod("stays")
        for name in ("finishes", "left", "stays"):
            await site.bound(name)
        await site.fill(cpu="5")
        site.kube.add_pod("waits", cpu="8")
        await site.until(lambda: bool(site.jobs_of("waits")), "its job")
    site.kube.delete_pod("left", grace_s=1)
    site.kube.delete_pod("waits", grace_s=1)
    await asyncio.sleep(15)
    kept = {job.job_id for name in ("stays", "first-0", "first-1", "first-2") for job in site.jobs_of(name)}
    others = [await site.submit_as_another_user(number) for number in range(3)]
    async with site.running():
        await site.until(lambda: {job.job_id for job in site.live_jobs()} == kept | set(others), "only those")
        await asyncio.sleep(100)
        assert {job.job_id for job in site.live_jobs()} == kept | set(others)


async def test_when_many_pods_left_meanwhile_their_jobs_wait_until_it_is_sure(site: Site) -> None:
    jobs = await site.left_alone(6, marked=False)
    async with site.running():
        await asyncio.sleep(30)
        assert [job.job_id for job in site.live_jobs()] == jobs
        await site.until(lambda: not site.live_jobs(), "their end", within=600)


async def test_a_drain_of_the_process_before_is_lifted_when_the_pod_is_gone_and_not_sooner(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", grace_s=600)
        node = await site.bound("web")
        site.kubelets.take_down(node)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
    async with site.running():
        await asyncio.sleep(60)
        assert site.drained() == [node]
        site.kubelets.stop_s = 0.1
        site.kubelets.bring_back(node)
        await site.gone("web")
        await site.until(lambda: not site.drained(), "no drain", within=30)


async def test_a_drain_of_the_process_before_is_lifted_when_its_pod_left_meanwhile(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web", grace_s=600)
        node = await site.bound("web")
        site.kubelets.take_down(node)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
    site.kubelets.bring_back(node)
    site.kube.delete_pod("web", grace_s=1)
    await site.gone("web")
    async with site.running():
        await site.until(lambda: not site.drained(), "no drain", within=30)


@pytest.mark.usefixtures("unhurried")
async def test_a_drain_of_an_administrator_is_never_lifted(site: Site) -> None:
    site.slurm.controller.drain("n3", "broken fan")
    async with site.running():
        site.kube.add_pod("web", grace_s=2)
        node = await site.bound("web")
        site.slurm.controller.drain(node, "new disk")
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.gone("web")
        await asyncio.sleep(60)
        assert site.drained() == sorted({node, "n3"})
        assert site.slurm.controller.nodes[node].reason == "new disk"
    async with site.running():
        await asyncio.sleep(60)
        assert site.drained() == sorted({node, "n3"})


@pytest.mark.usefixtures("unhurried")
async def test_a_running_pod_whose_annotation_was_taken_away_keeps_its_job(site: Site) -> None:
    async with site.dying():
        site.kube.add_pod("web")
        await site.bound("web")
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop(JOB_ID))
    async with site.running():
        await asyncio.sleep(90)
        assert [job.state for job in site.live_jobs()] == ["RUNNING"]
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the job's end")


def slow(site: Site) -> None:
    """Let each message take a millisecond, so that a crash can come between any two."""
    site.network.latency = one_millisecond


def one_millisecond() -> float:
    return 0.001
