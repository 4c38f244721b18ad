"""Groups that are not read warn their author, and each incarnation of an owner's Pods is a gang of its own."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from extender.domain.gangs import labels
from simulator.kube.kubelet import STOP_FOR
from simulator.kube.objects import Json, a_pod, owner_reference
from tests.builders.gang_pods import an_owner, gang, serve_controllers
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


def set_containers(pod: Json, states: list[Json]) -> None:
    pod["status"]["containerStatuses"] = states


def group_pods(site: Site, *, scheduling_group: str = "", **fields: Any) -> list[str]:
    names = ["ring-0", "ring-1"]
    for name in names:
        pod = a_pod(name, **fields)
        if scheduling_group:
            pod["spec"]["schedulingGroup"] = {"podGroupName": scheduling_group}
        site.kube.create(pod)
    return names


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduling_group": "ring"},
        {"labels": {labels.COSCHEDULING_GROUP: "ring"}},
        {"annotations": {labels.VOLCANO_GROUPS[0]: "ring"}},
    ],
)
async def test_pods_of_a_pod_group_are_placed_one_by_one_and_their_author_is_warned_once(
    site: Site, fields: dict[str, Any]
) -> None:
    async with site.running():
        names = group_pods(site, **fields)
        for name in names:
            await site.bound(name)
        assert len(site.live_jobs()) == 2
        await site.until(lambda: any("PodsPlacedOneByOne" in site.events(name) for name in names), "the Event")
        said = [note for name in names for note in site.notes(name) if "instead of naming the PodGroup" in note]
        assert len(said) == 1


async def test_edge_case_32_pods_of_the_next_incarnation_get_their_own_job_while_the_old_ones_end(site: Site) -> None:
    """A JobSet restarts: the job of its former Pods is held until the last of them is gone."""
    serve_controllers(site)
    entry = {"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2}}}
    async with site.running():
        job_set = an_owner(site, "JobSet", "sweep", {"replicatedJobs": [entry]}, gang="set")

        def pods_of(attempt: int) -> list[str]:
            job = an_owner(site, "Job", f"sweep-w-{attempt}", {"parallelism": 2, "completions": 2}, job_set)
            said = {"jobset-name": "sweep", "replicatedjob-name": "w", "restart-attempt": str(attempt)}
            marks = {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()}
            names = [f"sweep-w-{attempt}-{number}" for number in range(2)]
            for number, name in enumerate(names):
                index = marks | {labels.JOB_INDEX: str(number)}
                site.kube.add_pod(name, owner=owner_reference(job), labels=index, annotations={STOP_FOR: "60"})
            return names

        old = pods_of(0)
        for name in old:
            await site.bound(name)
        (before,) = site.live_jobs()
        for name in old:
            site.kube.delete_pod(name, grace_s=120)
        new = pods_of(1)
        for name in new:
            await site.bound(name, within=30)
        assert {job.job_id for job in site.live_jobs()} > {before.job_id}
        assert len(site.live_jobs()) == 2
        for name in old:
            await site.gone(name)
        await site.until(lambda: before.job_id not in {job.job_id for job in site.live_jobs()}, "the end of its job")
        assert len(site.live_jobs()) == 1


async def test_edge_case_31_a_group_that_a_rolling_update_adds_is_a_gang_of_its_own(site: Site) -> None:
    """`maxSurge` of a LeaderWorkerSet adds groups with the next index, beside those that run."""
    serve_controllers(site)
    async with site.running():
        lws = an_owner(site, "LeaderWorkerSet", "vllm", {"startupPolicy": "LeaderCreated"})
        leaders = an_owner(site, "StatefulSet", "vllm", {}, lws)

        def member(name: str, group: int, worker: int, owner: Json) -> None:
            said = {"name": "vllm", "group-index": str(group), "worker-index": str(worker)}
            marks = {f"{labels.LWS_PREFIX}{key}": value for key, value in said.items()}
            # With Volcano as its provider the controller also names a PodGroup, which is not read.
            notes = {labels.LWS_SIZE: "2", labels.VOLCANO_GROUPS[0]: f"vllm-{group}"}
            site.kube.add_pod(name, owner=owner_reference(owner), labels=marks, annotations=notes)

        for group in range(2):
            member(f"vllm-{group}", group, 0, leaders)
            await asyncio.sleep(10)
            assert len(site.live_jobs()) == group
            leader = site.pod(f"vllm-{group}") | {"apiVersion": "v1", "kind": "Pod"}
            workers = an_owner(site, "StatefulSet", f"vllm-{group}", {}, leader)
            member(f"vllm-{group}-1", group, 1, workers)
            for name in (f"vllm-{group}", f"vllm-{group}-1"):
                await site.bound(name)
            assert len(site.live_jobs()) == group + 1


async def test_edge_case_35_a_member_whose_container_starts_again_keeps_its_slot_and_the_job(site: Site) -> None:
    """With `restartPolicy: Always` the kubelet starts the container of the same Pod again."""
    async with site.running():
        names = gang(site, range(2), 2)
        nodes = [await site.bound(name) for name in names]
        jobs = [job.job_id for job in site.live_jobs()]
        for count in range(1, 4):
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
            states = [{"name": "main", "restartCount": count, "state": state}]
            site.edit_pod("ring-1", partial(set_containers, states=states))
            await asyncio.sleep(30)
        assert [site.node_of(name) for name in names] == nodes
        assert [job.job_id for job in site.live_jobs()] == jobs
