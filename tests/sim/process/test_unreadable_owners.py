"""Starts where the owners of some Pods cannot be read: a user named an owner whose API does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.domain.wellknown import ALLOCATION_PROOF, GANG_KEY, JOB_ID, POD_UID
from simulator.kube.faults import KubeFault
from simulator.kube.kubelet import RUN_FOR
from simulator.kube.objects import Json, owner_reference
from tests.builders.gang_pods import a_leader, an_owner, job_pods, serve_controllers
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime

DOWN = KubeFault("GET", "jobset", code=503, reason="ServiceUnavailable", times=None)


def a_job_set_that_owns(site: Site) -> Json:
    serve_controllers(site)
    return owner_reference(an_owner(site, "JobSet", "sweep", {}))


def condition(site: Site, name: str) -> str:
    """What kube-scheduler wrote on a Pod that it did not place."""
    conditions = site.pod(name)["status"].get("conditions", [])
    return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")


@asynccontextmanager
async def restarted(site: Site, fault: KubeFault = DOWN) -> AsyncIterator[None]:
    """Run the next extender while owners cannot be read; it is ready in the block."""
    site.kube.faults.add(fault)
    async with site.running(ready=False):
        await site.until(lambda: site.extender.ready, "readiness", within=60)
        yield


async def test_a_pod_whose_owner_cannot_be_read_keeps_no_other_pod_waiting(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    for number in range(40):
        site.kube.add_pod(f"stuck-{number}", owner=owner | {"uid": f"another-{number}"})
    site.kube.add_pod("web")
    async with restarted(site):
        await site.bound("web", within=30)
        assert "503" in site.extender.pod_controller.trouble
        assert any("owner" in note and "503" in note for note in site.notes("stuck-0"))
        assert [job.name.rpartition("-")[0] for job in site.live_jobs()] == ["default/web"]
        await site.until(lambda: "not adopted yet" in condition(site, "stuck-0"), "the answer to kube-scheduler")
        assert "503" in condition(site, "stuck-0")
        lines = (await site.get(8082, "/metrics")).text.splitlines()
        assert "slurm_extender_deferred_pods 40" in [line.removesuffix(".0") for line in lines]
        site.kube.delete_pod("stuck-0", grace_s=1)
        await site.gone("stuck-0")
        site.kube.faults.remove(DOWN)
        await site.bound("stuck-1", within=120)
        assert site.extender.pod_controller.trouble == ""


@pytest.mark.parametrize("gated", [False, True])
async def test_the_unrecorded_job_of_a_deferred_pod_is_neither_cancelled_nor_submitted_twice(
    site: Site, gated: bool
) -> None:
    owner = a_job_set_that_owns(site)
    await a_full_site(site)
    async with site.dying():
        site.kube.add_pod("late", owner=owner, gates=("slurm-extender.io/allocation",) if gated else ())
        await site.until(lambda: len(site.jobs_of("late")) == 1, "its job")
    [job] = site.jobs_of("late")
    async with restarted(site):
        site.kube.delete_pod("first-0", grace_s=1)  # the job gets its node
        await asyncio.sleep(200)
        assert site.jobs_of("late") == [job]
        assert not site.node_of("late")
        site.kube.faults.remove(DOWN)
        await site.bound("late", within=120)
        assert site.jobs_of("late") == [job]


async def a_full_site(site: Site) -> None:
    async with site.running():
        await site.fill()


@pytest.mark.parametrize("down", ["jobset", "jobs/sweep-w-1"])
async def test_members_of_a_gang_are_adopted_together_once_their_owners_can_be_read(site: Site, down: str) -> None:
    await a_full_site(site)
    async with site.dying():
        names = a_job_set_of_two(site)
        await site.until(lambda: len(site.live_jobs()) == 4, "the job of the gang")
    before = {job.job_id for job in site.live_jobs()}
    async with restarted(site, fault := KubeFault("GET", down, code=503, times=None)):
        await asyncio.sleep(400)
        assert {job.job_id for job in site.live_jobs()} == before
        site.free_all()
        await asyncio.sleep(400)
        [kept] = site.live_jobs()
        assert kept.job_id in before
        assert not any(map(site.node_of, names))
        site.kube.faults.remove(fault)
        assert len({await site.bound(name, within=120) for name in names}) == 2
        assert site.live_jobs() == [kept]


def a_job_set_of_two(site: Site) -> list[str]:
    """Add a JobSet that is one gang, with a Pod in each of its two Jobs. Return the names of the Pods."""
    serve_controllers(site)
    entry = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1, "completions": 1}}}
    job_set = an_owner(site, "JobSet", "sweep", {"replicatedJobs": [entry]}, gang="set")
    return [name for number in range(2) for name in pod_of_set(site, job_set, number)]


def pod_of_set(site: Site, job_set: Json, number: int) -> list[str]:
    job = an_owner(site, "Job", f"sweep-w-{number}", {"parallelism": 1, "completions": 1}, job_set)
    said = {"jobset-name": "sweep", "replicatedjob-name": "w", "job-global-index": str(number)}
    return job_pods(site, job, 1, {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()})


async def test_a_new_member_that_comes_before_the_deferred_ones_leaves_the_job_of_the_gang_alone(site: Site) -> None:
    await a_full_site(site)
    async with site.dying():
        first, second = a_job_set_of_two(site)
        await site.until(lambda: len(site.live_jobs()) == 4, "the job of the gang")
    before = {job.job_id for job in site.live_jobs()}
    async with restarted(site, fault := KubeFault("GET", "jobs/sweep-w-1", code=503, times=None)):
        assert len(site.extender.deferred) == 2
        meta = site.pod(first)["metadata"]
        site.kube.delete_pod(first, grace_s=1)
        await site.gone(first)
        site.kube.add_pod("successor", owner=meta["ownerReferences"][0], labels=meta["labels"])
        await asyncio.sleep(5)
        assert site.placeholder("successor").state == "ABSENT"
        await asyncio.sleep(700)
        assert {job.job_id for job in site.live_jobs()} == before
        site.free_all()
        site.kube.faults.remove(fault)
        assert len({await site.bound(name, within=120) for name in ("successor", second)}) == 2
        (kept,) = site.live_jobs()
        assert kept.job_id in before


def an_ordered_job_set_of_two(site: Site) -> Json:
    """Add a JobSet that is one gang, whose second Job is created once the Pod of the first one is Ready."""
    serve_controllers(site)
    entry = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 1, "completions": 1}}}
    spec = {"replicatedJobs": [entry], "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    return an_owner(site, "JobSet", "sweep", spec, gang="set")


@pytest.mark.parametrize("runs", [False, True])
async def test_a_newer_pod_that_starts_its_gang_alone_leaves_the_job_of_the_deferred_ones_alone(
    site: Site, runs: bool
) -> None:
    job_set = an_ordered_job_set_of_two(site)
    await a_full_site(site)
    async with site.dying():
        pod_of_set(site, job_set, 0)
        await site.until(lambda: len(site.live_jobs()) == 4, "the job of the gang")
    before = {job.job_id for job in site.live_jobs()}
    async with restarted(site, fault := KubeFault("GET", "jobs/sweep-w-0", code=503, times=None)):
        assert len(site.extender.deferred) == 1
        if runs:
            site.free_all()
            await site.until(lambda: len(site.live_jobs()) == 1, "the start of its job")
        (newer,) = pod_of_set(site, job_set, 1)
        await asyncio.sleep(40 if runs else 400)
        assert {job.job_id for job in site.live_jobs()} <= before
        assert not site.drained()
        assert not len(site.extender.unknown_members.missing)
        site.kube.faults.remove(fault)
        await asyncio.sleep(60)
        if not runs:
            site.free_all()
        assert len({await site.bound(name, within=120) for name in ("sweep-w-0-0", newer)}) == 2
        (kept,) = site.live_jobs()
        assert kept.job_id in before


async def test_a_gang_that_starts_beside_deferred_pods_of_others_gets_a_job(site: Site) -> None:
    job_set = an_ordered_job_set_of_two(site)
    site.kube.add_pod("stuck", owner=owner_reference(an_owner(site, "JobSet", "another", {})))
    async with restarted(site, KubeFault("GET", "jobsets/another", code=503, times=None)):
        assert len(site.extender.deferred) == 1
        (leader,) = pod_of_set(site, job_set, 0)
        await site.bound(leader, within=60)


async def test_a_member_that_is_deferred_before_its_binding_does_not_count_as_a_removed_pod(site: Site) -> None:
    first, second = a_job_set_of_two(site)
    fault = site.kube.faults.add(KubeFault("POST", f"{second}/binding", code=500, times=None))
    async with site.dying():
        await site.bound(first)
    [job] = site.live_jobs()
    assert not site.node_of(second)
    site.kube.faults.remove(fault)
    async with restarted(site, down := KubeFault("GET", "jobs/sweep-w-1", code=503, times=None)):
        assert site.extender.deferred.uids == (site.uid(second),)
        await asyncio.sleep(30)
        assert not site.drained()
        assert not len(site.extender.unknown_members.missing)
        site.kube.faults.remove(down)
        await site.bound(second, within=120)
        assert site.live_jobs() == [job]


async def test_the_success_of_a_pod_does_not_end_a_later_one_in_its_slot_while_their_owner_cannot_be_read(
    site: Site,
) -> None:
    job = an_owner(site, "Job", "train", {"parallelism": 2, "completions": 4}, gang="true")
    async with site.dying():
        names = job_pods(site, job, 2)
        site.edit_pod(names[1], lambda pod: pod["metadata"].setdefault("annotations", {}).update({RUN_FOR: "20"}))
        for name in names:
            await site.bound(name)
        await site.until(lambda: site.pod(names[1])["status"]["phase"] == "Succeeded", "its end")
        (later,) = job_pods(site, job, 3, first=2)
        node = await site.bound(later, within=60)
        await asyncio.sleep(10)
    site.kubelets.take_down(node)
    site.kube.delete_pod(later, grace_s=0)
    async with restarted(site, KubeFault("GET", "jobs/train", code=503, times=None)):
        await asyncio.sleep(5)
        assert len(site.extender.unknown_members.missing) or site.drained() == [node]


async def test_a_leader_that_completes_its_gang_is_placed_although_another_owner_cannot_be_read(site: Site) -> None:
    leader = a_leader(site)
    site.kube.add_pod("stuck", owner=owner_reference(an_owner(site, "JobSet", "sweep", {})))
    async with restarted(site):
        await site.bound(leader, within=30)
        assert site.extender.deferred.uids == (site.uid("stuck"),)


async def test_a_bound_pod_whose_record_is_proven_is_adopted_without_its_owner(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    async with site.running():
        site.kube.add_pod("runs", owner=owner)
        await site.bound("runs")
    [job] = site.live_jobs()
    async with restarted(site):
        assert site.placeholder("runs").job_id == job.job_id
        await asyncio.sleep(100)
        assert site.live_jobs() == [job]
        assert "deletionTimestamp" not in site.pod("runs")["metadata"]
        site.kube.delete_pod("runs", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_the_job_of_a_deferred_pod_ends_when_the_pod_is_deleted(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    await a_full_site(site)
    async with site.dying():
        site.kube.add_pod("late", owner=owner)
        await site.until(lambda: len(site.jobs_of("late")) == 1, "its job")
    async with restarted(site):
        await asyncio.sleep(30)
        site.kube.delete_pod("late", grace_s=1)
        await site.gone("late")
        await site.until(lambda: not site.jobs_of("late"), "the end of its job")
        assert not len(site.extender.deferred)


async def test_a_deferred_pod_that_changes_meanwhile_is_adopted_as_it_is_then(site: Site) -> None:
    site.kube.add_pod("late", owner=a_job_set_that_owns(site))
    async with restarted(site):
        await site.until(lambda: "not adopted yet" in condition(site, "late"), "the answer to kube-scheduler")
        said = {"slurm-extender.io/partition": "urgent"}
        site.edit_pod("late", lambda pod: pod["metadata"].setdefault("annotations", {}).update(said))
        await asyncio.sleep(60)
        assert not site.live_jobs()
        site.kube.faults.remove(DOWN)
        await site.bound("late", within=120)
        assert [job.partition for job in site.live_jobs()] == ["urgent"]


async def test_a_node_stays_drained_while_a_deferred_pod_is_on_it(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    async with site.dying():
        site.kube.add_pod("web", owner=owner, grace_s=600)
        node = await site.bound("web")
        site.kubelets.take_down(node)
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop(ALLOCATION_PROOF))
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].update({GANG_KEY: "gang-1"}))
    async with restarted(site):
        await asyncio.sleep(60)
        assert site.extender.deferred.uids == (site.uid("web"),)
        assert site.drained() == [node]


async def test_a_bound_pod_without_a_proof_ends_with_its_job_although_its_owner_cannot_be_read(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    async with site.dying():
        site.kube.add_pod("web", owner=owner)
        node = await site.bound("web")
    [job] = site.live_jobs()
    site.edit_pod("web", lambda pod: pod["metadata"]["annotations"].pop(ALLOCATION_PROOF))
    site.kubelets.take_down(node)
    async with restarted(site):
        await site.until(lambda: site.placeholder("web").job_id == job.job_id, "its job")
        assert not len(site.extender.deferred)
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == [node], "the drain")
        await site.until(lambda: "deletionTimestamp" in site.pod("web")["metadata"], "the end of the Pod")


async def test_the_node_of_a_running_member_is_held_when_its_job_ends_before_its_owner_can_be_read(site: Site) -> None:
    async with site.dying():
        names = a_job_set_of_two(site)
        nodes = [await site.bound(name) for name in names]
        await asyncio.sleep(5)
    for name in names:
        site.edit_pod(name, lambda pod: pod["metadata"]["annotations"].pop(ALLOCATION_PROOF))
    for node in nodes:
        site.kubelets.take_down(node)
    (job,) = site.live_jobs()
    async with restarted(site, fault := KubeFault("GET", "jobs/sweep-w", code=503, times=None)):
        assert len(site.extender.deferred) == 2
        await asyncio.sleep(30)
        assert not site.drained()
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await site.until(lambda: site.drained() == nodes, "the drains", within=10)
        site.kube.faults.remove(fault)
        await site.until(lambda: not len(site.extender.deferred), "their adoption", within=120)
        await asyncio.sleep(60)
        assert site.drained() == nodes
        for name in names:
            site.kube.delete_pod(name, grace_s=0)
        await site.until(lambda: not site.drained(), "the end of the drains", within=3600)


@pytest.mark.parametrize("job", ["of another user", "of another namespace", "on another node"])
async def test_a_pod_that_names_a_job_which_is_not_its_own_drains_no_node_when_that_job_ends(
    site: Site, job: str
) -> None:
    owner = a_job_set_that_owns(site)
    namespace = "kube-public" if "namespace" in job else "default"
    async with site.dying():
        if "user" in job:
            await site.submit_as_another_user()
        else:
            site.kube.add_pod("other", namespace)
        await site.until(lambda: any(job.state == "RUNNING" for job in site.live_jobs()), "the job")
        (named,) = site.live_jobs()
        (node,) = named.nodes
        if "node" in job:
            node = next(name for name in NAMES if name != node)
    site.kube.add_pod("forged", owner=owner, node=node)
    said = {JOB_ID: str(named.job_id), POD_UID: site.uid("forged"), GANG_KEY: "gang-1"}
    site.edit_pod("forged", lambda pod: pod["metadata"].setdefault("annotations", {}).update(said))
    async with restarted(site):
        assert site.extender.deferred.uids == (site.uid("forged"),)
        await asyncio.sleep(30)
        if "user" not in job:
            site.kube.delete_pod("other", namespace, grace_s=1)
        site.slurm.controller.end(named.job_id, "CANCELLED")
        await asyncio.sleep(60)
        assert not site.live_jobs()
        assert not site.drained()


async def test_the_node_of_a_running_member_stays_in_its_job_although_its_proof_was_removed(site: Site) -> None:
    async with site.dying():
        names = a_job_set_of_two(site)
        nodes = [await site.bound(name) for name in names]
        await asyncio.sleep(5)
    site.edit_pod(names[1], lambda pod: pod["metadata"]["annotations"].pop(ALLOCATION_PROOF))
    async with restarted(site, fault := KubeFault("GET", "jobs/sweep-w-1", code=503, times=None)):
        assert len(site.extender.deferred) == 1
        await asyncio.sleep(300)
        site.kube.faults.remove(fault)
        await asyncio.sleep(300)
        assert [list(job.nodes) for job in site.live_jobs()] == [nodes]
        for name in names:
            site.kube.delete_pod(name)
        await site.until(lambda: not site.live_jobs() and not len(site.extender.deferred), "the end")


async def test_a_start_waits_while_the_api_server_as_a_whole_does_not_answer(site: Site) -> None:
    owner = a_job_set_that_owns(site)
    site.kube.add_pod("late", owner=owner)
    site.kube.faults.add(DOWN)
    async with site.running(ready=False):
        await site.until(lambda: bool(site.extender.pod_controller.trouble), "the first try")
        site.network.refuse("kube", 6443, True)
        site.network.cut("kube", 6443)
        await asyncio.sleep(100)
        assert not site.extender.pod_controller.ready
        site.network.refuse("kube", 6443, False)
        await site.until(lambda: site.extender.ready, "readiness", within=90)
