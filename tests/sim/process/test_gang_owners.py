"""Gangs of Jobs, JobSets and LeaderWorkerSets."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR
from simulator.kube.objects import owner_reference
from simulator.kube.pods import pod_key
from simulator.kube.resources import JOBS
from simulator.kube.storage import ObjectKey
from tests.builders.gang_pods import (
    JOB_SETS,
    a_leader,
    an_owner,
    gang,
    group_member,
    job_pods,
    job_set_labels,
    serve_controllers,
    workers_of,
)
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


async def test_an_annotated_job_is_a_gang_and_its_author_is_not_warned(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "train", {"parallelism": 3, "completions": 3}, gang="true")
        names = job_pods(site, job, 2)
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        names += job_pods(site, job, 3, first=2)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == 1
        assert not any("PodsPlacedOneByOne" in site.events(name) for name in names)
        said = [site.pod(name)["metadata"]["annotations"] for name in names]
        assert [one["status.slurm-extender.io/gang-rank"] for one in said] == ["0", "1", "2"]
        assert {one["status.slurm-extender.io/gang-members"] for one in said} == {"3"}
        assert {one["status.slurm-extender.io/gang-nodes"] for one in said} == {"n1,n2,n3"}


async def test_a_job_some_of_whose_pods_have_succeeded_is_complete_with_those_that_are_left(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "train", {"parallelism": 3, "completions": 3}, gang="true")
        names = job_pods(site, job, 3)
        soon = {RUN_FOR: "5"}
        site.kube.change(pod_key("default", "train-0"), lambda pod: pod["metadata"].update(annotations=soon))
        for name in names:
            await site.bound(name)
        await site.until(lambda: site.pod("train-0")["status"]["phase"] == "Succeeded", "its end")
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        for name in names[1:]:
            await site.gone(name)
        job_pods(site, job, 3, first=1)  # before the Job's status says that one has succeeded
        await asyncio.sleep(1)
        key = ObjectKey(JOBS, "default", "train")
        site.kube.change(key, lambda one: one.update(status={"succeeded": 1}))
        assert [await site.bound(name) for name in names[1:]] == ["n1", "n2"]


async def test_a_successor_after_a_start_learns_the_size_with_which_its_gang_started_again(site: Site) -> None:
    names = [f"train-{index}" for index in range(3)]
    async with site.dying():
        job = an_owner(site, "Job", "train", {"parallelism": 3, "completions": 3}, gang="true")
        key = ObjectKey(JOBS, "default", "train")
        site.kube.change(key, lambda one: one.update(status={"succeeded": 1}))
        job_pods(site, job, 3, first=1)
        for name in names[1:]:
            await site.bound(name)
        (running,) = site.live_jobs()
        site.edit_pod(names[2], lambda pod: pod["metadata"]["annotations"].update({FAIL_AFTER: "1"}))
        await site.until(lambda: site.pod(names[2])["status"]["phase"] == "Failed", "its end")
    async with site.running():
        await asyncio.sleep(10)
        site.kube.add_pod("train-2-again", owner=owner_reference(job), labels={JOB_INDEX: "2"})
        await site.bound("train-2-again")
        said = [site.pod(name)["metadata"]["annotations"] for name in (names[1], "train-2-again")]
        assert [one["status.slurm-extender.io/gang-members"] for one in said] == ["2", "2"]
        assert [one.job_id for one in site.live_jobs()] == [running.job_id]


async def test_a_pod_that_its_job_does_not_need_any_more_starts_by_itself(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "train", {"parallelism": 3, "completions": 3}, gang="true")
        site.kube.change(ObjectKey(JOBS, "default", "train"), lambda one: one.update(status={"succeeded": 3}))
        job_pods(site, job, 1)
        assert await site.bound("train-0") == "n1"


async def test_a_gang_that_was_refused_and_then_lacks_a_member_waits_for_it(site: Site) -> None:
    async with site.running():
        said = {GANG: "ring", GANG_SIZE: "3", "slurm-extender.io/comment": "x"}
        site.kube.add_pod("ring-1", annotations=said)
        gang(site, range(1), 3)
        gang(site, range(2, 3), 3)
        names = ["ring-0", "ring-1", "ring-2"]
        await site.until(lambda: "InvalidSlurmSettings" in site.events("ring-1"), "the faults")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(10)
        assert site.extender.ready
        gang(site, range(1, 2), 3)
        for name in names:
            await site.bound(name)


async def test_the_jobs_of_a_job_set_are_one_gang_where_it_says_so(site: Site) -> None:
    serve_controllers(site)
    entry = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1, "completions": 1}}}
    async with site.running():
        job_set = an_owner(site, "JobSet", "sweep", {"replicatedJobs": [entry]}, gang="set")
        names: list[str] = []
        for number in range(2):
            job = an_owner(site, "Job", f"sweep-w-{number}", {"parallelism": 1, "completions": 1}, job_set)
            names += job_pods(site, job, 1, job_set_labels(job_set, "w", number))
            if not number:
                await asyncio.sleep(30)
                assert site.live_jobs() == []
        assert [await site.bound(name) for name in names] == ["n1", "n2"]
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize(("restarted", "kept"), [(False, True), (True, True), (True, False)])
async def test_a_job_set_some_of_whose_pods_have_succeeded_starts_again_with_those_that_are_left(
    site: Site, restarted: bool, kept: bool
) -> None:
    serve_controllers(site)
    one = {"parallelism": 1, "completions": 1}
    entries = [{"name": name, "replicas": 1, "template": {"spec": one}} for name in ("driver", "worker")]
    names = ["sweep-driver-0-0", "sweep-worker-0-0"]
    async with site.running():
        job_set = an_owner(site, "JobSet", "sweep", {"replicatedJobs": entries}, gang="set")
        jobs = [an_owner(site, "Job", name.removesuffix("-0"), one, job_set) for name in names]
        for number, job in enumerate(jobs):
            job_pods(site, job, 1, job_set_labels(job_set, ("driver", "worker")[number], number))
        site.kube.change(pod_key("default", names[0]), lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
        for name in names:
            await site.bound(name)
        await site.until(lambda: site.pod(names[0])["status"]["phase"] == "Succeeded", "its end")
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        await site.gone(names[1])
        if not restarted:
            job_pods(site, jobs[1], 1, job_set_labels(job_set, "worker", 1))
            assert await site.bound(names[1]) == "n1"
    if not kept:
        site.kube.delete_pod(names[0], grace_s=0)
        done = {"replicatedJobsStatus": [{"name": "driver", "succeeded": 1}]}
        site.kube.change(ObjectKey(JOB_SETS, "default", "sweep"), lambda one: one.update(status=done))
    if restarted:
        job_pods(site, jobs[1], 1, job_set_labels(job_set, "worker", 1))
        async with site.running():
            assert await site.bound(names[1]) == "n1"


async def test_a_later_pod_of_a_job_of_a_job_set_takes_the_slot_of_one_that_succeeded(site: Site) -> None:
    serve_controllers(site)
    spec = {"parallelism": 2, "completions": 3}
    async with site.running():
        entry = {"name": "w", "replicas": 1, "template": {"spec": spec}}
        job_set = an_owner(site, "JobSet", "sweep", {"replicatedJobs": [entry]}, gang="set")
        job = an_owner(site, "Job", "sweep-w-0", spec, job_set)
        names = job_pods(site, job, 2, job_set_labels(job_set, "w", 0))
        site.edit_pod(names[1], lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
        for name in names:
            await site.bound(name)
        await site.until(lambda: site.pod(names[1])["status"]["phase"] == "Succeeded", "its end")
        await asyncio.sleep(3)
        (later,) = job_pods(site, job, 3, job_set_labels(job_set, "w", 0), first=2)
        assert await site.bound(later) == "n2"
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize("policy", ["LeaderCreated", "LeaderReady"])
async def test_edge_case_27_a_group_of_a_leader_worker_set_is_a_gang_and_a_ready_leader_may_start_alone(
    site: Site, policy: str
) -> None:
    serve_controllers(site)
    async with site.running():
        lws = an_owner(site, "LeaderWorkerSet", "vllm", {"startupPolicy": policy})
        leaders = an_owner(site, "StatefulSet", "vllm", {}, lws)
        group_member(site, "vllm-0", 0, leaders)
        if policy == "LeaderReady":
            assert await site.bound("vllm-0") == "n1"
        else:
            await asyncio.sleep(30)
            assert site.live_jobs() == []
        workers = an_owner(site, "StatefulSet", "vllm-0", {}, site.pod("vllm-0") | {"apiVersion": "v1", "kind": "Pod"})
        for number in (1, 2):
            group_member(site, f"vllm-0-{number}", number, workers)
        assert [await site.bound(name) for name in ("vllm-0", "vllm-0-1", "vllm-0-2")] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == 1


async def test_edge_case_27_slots_without_their_first_pod_are_reported_once_after_the_time_and_kept(site: Site) -> None:
    def reported() -> list[str]:
        return [note for note in site.notes(leader) if "first Pod" in note]

    async with site.running(changed="gangs: {lateWithin: 2m}\n"):
        leader = a_leader(site)
        await site.bound(leader)
        await asyncio.sleep(110)
        assert reported() == []
        await asyncio.sleep(20)
        assert reported() == [
            "2 of the 3 nodes of the gang wait for their first Pod, 120 s after the others were bound."
        ]
        await asyncio.sleep(600)
        assert len(reported()) == site.events(leader).count("GangNodesKept") == 1
        (job,) = site.live_jobs()
        assert job.nodes == ("n1", "n2", "n3")
        assert [await site.bound(name) for name in workers_of(site, leader)] == ["n2", "n3"]
        assert site.live_jobs() == [job]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_pod_that_runs_alone_and_names_a_gang_later_survives_a_start(site: Site, beside: bool) -> None:
    async with site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        running = site.live_jobs()
        said = {GANG: "ring", GANG_SIZE: "3"}
        site.edit_pod("web", lambda pod: pod["metadata"].setdefault("annotations", {}).update(said))
        if beside:
            site.kube.add_pod("ring-1", annotations=said, gates=(GATE,))
        await asyncio.sleep(60)
        assert site.live_jobs() == running
    async with site.running():
        await asyncio.sleep(120)
        assert "deletionTimestamp" not in site.pod("web")["metadata"]
        assert site.live_jobs() == running


@pytest.mark.parametrize("choice", ["all", "indexed"])
async def test_pods_of_a_job_that_run_alone_survive_a_start_that_takes_jobs_for_gangs(site: Site, choice: str) -> None:
    async with site.running():
        spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
        names = job_pods(site, an_owner(site, "Job", "train", spec), 2)
        for name in names:
            await site.bound(name)
        running = site.live_jobs()
        await asyncio.sleep(30)
    async with site.running(changed=f"gangs: {{jobs: {choice}}}\n"):
        await asyncio.sleep(120)
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in names)
        assert site.live_jobs() == running
