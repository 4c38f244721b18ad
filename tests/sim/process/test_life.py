"""A Pod and its job live and die together, seen from outside: by kube-scheduler, kubelets, Slurm and an operator."""

from __future__ import annotations

import pytest

from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
MODE = "slurm-extender.io/mode"
MODES = ["batch", "allocation", "auto"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_pod_is_bound_to_the_node_that_slurm_chose_and_its_job_ends_with_it(site: Site, mode: str) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={MODE: mode})
        node = await site.bound("web")
        (job,) = site.live_jobs()
        assert job.nodes == (node,)
        assert job.name.startswith("default/web-")
        site.kube.delete_pod("web", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the job's end")


@pytest.mark.parametrize("annotation", [RUN_FOR, FAIL_AFTER])
async def test_a_pod_that_finishes_ends_its_job(site: Site, annotation: str) -> None:
    async with site.running():
        site.kube.add_pod("work", annotations={annotation: "5"})
        await site.bound("work")
        await site.until(lambda: not site.live_jobs(), "the job's end")
        assert site.pod("work")["status"]["phase"] in {"Succeeded", "Failed"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_job_cancelled_by_a_user_ends_the_running_pod(site: Site, mode: str) -> None:
    async with site.running():
        site.kube.add_pod("web", annotations={MODE: mode}, grace_s=3)
        await site.bound("web")
        (job,) = site.live_jobs()
        site.slurm.controller.cancel(job.job_id)
        await site.until(lambda: site.kube.pod("web") is None, "the Pod's end")
        await site.until(lambda: "SlurmAllocationLost" in site.events("web"), "an Event")
        await site.until(
            lambda: not any(n.drained for n in site.slurm.controller.cluster.nodes.values()), "no drain left"
        )


async def test_a_waiting_job_cancelled_by_a_user_is_not_submitted_again(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("second", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 4, "the second's job")
        (waiting,) = [job for job in site.live_jobs() if job.state == "PENDING"]
        site.slurm.controller.cancel(waiting.job_id)
        await site.until(lambda: "SlurmJobCancelled" in site.events("second"), "an Event")
        made = len(site.jobs())
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: len(site.live_jobs()) == 2, "room")
        assert not site.node_of("second")
        assert len(site.jobs()) == made


async def test_a_full_cluster_queues_the_pod_in_slurm_and_binds_it_when_room_comes(site: Site) -> None:
    async with site.running():
        await site.fill()
        site.kube.add_pod("second", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 4, "the second's job")
        freed = site.node_of("first-0")
        site.kube.delete_pod("first-0", grace_s=1)
        assert await site.bound("second") == freed


async def test_a_start_finds_the_jobs_of_waiting_and_running_pods_again(site: Site) -> None:
    async with site.running():
        for number in range(3):
            site.kube.add_pod(f"run-{number}", cpu="8")
            await site.bound(f"run-{number}")
        site.kube.add_pod("wait", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 4, "the waiting job")
    async with site.running():
        site.kube.delete_pod("run-1", grace_s=1)
        await site.bound("wait")
        made = site.jobs()
        assert len(made) == len({job.name for job in made}) == 4
        for name in ("run-0", "run-2", "wait"):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "every job's end")


async def test_faulty_settings_are_reported_at_once_and_submitted_when_repaired(site: Site) -> None:
    async with site.running():
        site.kube.add_pod(
            "web", annotations={"slurm-extender.io/time-limit": "soon", "slurm-extender.io/colour": "red"}
        )
        await site.until(lambda: "InvalidSlurmSettings" in site.events("web"), "an Event")
        assert not site.jobs()
        site.edit_pod("web", lambda pod: pod["metadata"].update(annotations={"slurm-extender.io/time-limit": "20"}))
        assert await site.bound("web")


async def test_operators_see_the_story_of_a_pod(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        uid = site.pod("web")["metadata"]["uid"]
        shown = (await site.get(8083, f"/debug/placeholders/{uid}")).json()
        assert shown["state"] == "BOUND"
        assert any("JobGranted" in chapter["line"] for chapter in shown["history"])
        assert (await site.get(8081, "/readyz")).status_code == 200
        assert "slurm_extender_filter_duration_seconds" in (await site.get(8082, "/metrics")).text
