"""Any author of Pods can name another user's Job as the owner of a Pod: the gang of that Job starts without it."""

from __future__ import annotations

import asyncio

import pytest

from extender.domain.gangs.labels import JOB_INDEX, LWS_SIZE
from simulator.kube.objects import Json, owner_reference
from tests.builders.gang_pods import an_owner, group_member, job_pods, serve_controllers
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

OTHERS = {
    "another time limit": ({"slurm-extender.io/time-limit": "7"}, "waits until a slot"),
    "another constraint": ({"slurm-extender.io/constraints": "fast"}, "constraints: the job of its gang has"),
    "an account that is refused": ({"slurm-extender.io/account": "biology"}, "account"),
}


def a_job(site: Site) -> Json:
    return an_owner(site, "Job", "train", {"parallelism": 2, "completions": 2}, gang="true")


def forge(site: Site, job: Json, index: int, settings: dict[str, str] | None = None) -> None:
    site.kube.add_pod("forged", owner=owner_reference(job), labels={JOB_INDEX: str(index)}, annotations=settings or {})


def is_bound(site: Site, name: str) -> bool:
    return bool(site.pod(name)["spec"].get("nodeName"))


async def both_run(site: Site) -> None:
    for name in ("train-0", "train-1"):
        await site.bound(name)
    assert len(site.jobs_of("Job train")) == 1


@pytest.mark.parametrize(("settings", "said"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_pod_that_forges_its_owner_and_differs_is_refused_alone(
    site: Site, settings: dict[str, str], said: str, index: int
) -> None:
    async with site.running():
        job = a_job(site)
        job_pods(site, job, 1)
        await asyncio.sleep(2)
        forge(site, job, index, settings)
        await asyncio.sleep(2)
        job_pods(site, job, 2, first=1)
        await both_run(site)
        await site.until(lambda: any(said in note for note in site.notes("forged")), "why it is refused")
        await asyncio.sleep(30)
        assert not is_bound(site, "forged")


@pytest.mark.parametrize("index", [0, 1])
async def test_of_two_pods_with_one_index_the_older_one_is_the_member(site: Site, index: int) -> None:
    async with site.running():
        await site.fill()
        job = a_job(site)
        job_pods(site, job, 2)
        await site.until(lambda: bool(site.jobs_of("Job train")), "the job of the gang")
        await asyncio.sleep(2)
        forge(site, job, index)
        await asyncio.sleep(5)
        site.free_all()
        await both_run(site)
        assert not is_bound(site, "forged")


async def test_the_size_of_a_group_is_that_of_its_leader(site: Site) -> None:
    serve_controllers(site)
    async with site.running():
        await site.fill()
        lws = an_owner(site, "LeaderWorkerSet", "vllm", {})
        leader = group_member(site, "vllm-0", 0, an_owner(site, "StatefulSet", "vllm", {}, lws))
        above = site.pod(leader) | {"apiVersion": "v1", "kind": "Pod"}
        workers = an_owner(site, "StatefulSet", leader, {}, above)
        names = [leader, *(group_member(site, f"vllm-0-{number}", number, workers) for number in (1, 2))]
        await asyncio.sleep(5)
        group_member(site, "forged", 7, workers)
        site.edit_pod("forged", lambda pod: pod["metadata"]["annotations"].update({LWS_SIZE: "9"}))
        await asyncio.sleep(120)
        assert not any("of 9 Pods" in note for name in names for note in site.notes(name))
        site.free_all()
        assert sorted([await site.bound(name) for name in names]) == ["n1", "n2", "n3"]
        assert not is_bound(site, "forged")


async def test_a_forged_pod_that_agrees_and_comes_first_takes_a_place_until_it_is_gone(site: Site) -> None:
    """The extent of what is not prevented: nothing distinguishes such a Pod from one of the Job."""
    async with site.running():
        job = a_job(site)
        forge(site, job, 1)
        await asyncio.sleep(2)
        job_pods(site, job, 2)
        await site.bound("forged")
        await site.bound("train-0")
        await asyncio.sleep(30)
        assert not is_bound(site, "train-1")
        site.kube.delete_pod("forged", grace_s=1)
        await site.bound("train-1")
        assert len(site.jobs_of("Job train")) == 1
