"""The members of a gang start together, or none of them does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.wellknown import GANG, GANG_RANK, GANG_SIZE, GATE
from simulator.cluster import simulated_cluster, three_nodes
from simulator.kube.kubelet import RUN_FOR, STOP_FOR
from simulator.kube.objects import Json, owner_reference
from simulator.kube.pods import pod_key
from simulator.kube.resources import JOBS, Resource
from simulator.kube.storage import ObjectKey
from tests.builders.process_site import Site, a_site

pytestmark = pytest.mark.looptime

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")


def gang(site: Site, numbers: range, size: int, name: str = "ring", **fields: Any) -> list[str]:
    names = [f"{name}-{number}" for number in numbers]
    for one in names:
        site.kube.add_pod(one, annotations={GANG: name, GANG_SIZE: str(size)}, **fields)
    return names


def bound(site: Site, names: list[str]) -> int:
    return sum(bool(site.pod(name)["spec"].get("nodeName")) for name in names)


@pytest.mark.parametrize("gates", [(), (GATE,)])
async def test_a_gang_gets_one_job_and_its_members_are_bound_in_the_order_of_its_nodes(
    site: Site, gates: tuple[str, ...]
) -> None:
    async with site.running():
        names = gang(site, range(3), 3, gates=gates)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == 1
        assert site.extender.gang_barrier.outcomes["passed"] == 1
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        for name in names:
            await site.gone(name)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_edge_case_1_no_job_exists_before_all_pods_do_and_each_says_how_many_are_missing(site: Site) -> None:
    async with site.running():
        names = gang(site, range(2), 3)
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        for name in names:
            condition = next(
                one for one in site.pod(name)["status"]["conditions"] if one["type"] == "slurm-extender.io/Allocated"
            )
            assert (condition["reason"], condition["message"]) == (
                "GangIncomplete",
                "2 of 3 Pods of gang ring exist.",
            )
        names += gang(site, range(2, 3), 3)
        for name in names:
            await site.bound(name)


async def test_edge_case_8_a_taint_on_one_node_after_the_grant_binds_no_member_before_it_goes(site: Site) -> None:
    async with site.running():
        await site.fill()
        names = gang(site, range(3), 3, cpu="8")
        await asyncio.sleep(10)
        assert bound(site, names) == 0
        for name in ("first-0", "first-1", "first-2"):
            site.kube.delete_pod(name, grace_s=1)
        for name in names:
            await site.bound(name)


async def test_edge_case_8_a_node_that_refuses_a_member_is_excluded_and_none_is_bound_meanwhile(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang(site, range(2), 2, gates=(GATE,))
        site.edit_node("n1", lambda node: node["spec"].update(taints=[taint]))
        most = 0
        for _ in range(600):
            await asyncio.sleep(0.2)
            most = max(most, bound(site, names))
            assert bound(site, names) in {0, 2}
        assert {await site.bound(name) for name in names} <= {"n2", "n3"}


async def test_edge_case_7_a_member_deleted_between_grant_and_binding_lets_no_other_be_bound_before_its_successor(
    site: Site,
) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang(site, range(3), 3, gates=(GATE,))
        site.edit_node("n1", lambda node: node["spec"].update(taints=[taint]))
        await asyncio.sleep(5)
        assert bound(site, names) == 0
        site.kube.delete_pod("ring-0", grace_s=0)
        for _ in range(100):
            await asyncio.sleep(0.2)
            assert bound(site, names[1:]) == 0
        gang(site, range(1), 3)
        site.edit_node("n1", lambda node: node["spec"].pop("taints"))
        for name in names:
            await site.bound(name)
        assert len(site.live_jobs()) == 1


async def test_edge_case_7_without_a_successor_the_nodes_are_released_after_the_time_for_bindings(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang(site, range(3), 3, gates=(GATE,))
        site.edit_node("n1", lambda node: node["spec"].update(taints=[taint]))
        await asyncio.sleep(5)
        site.kube.delete_pod("ring-0", grace_s=0)
        await asyncio.sleep(60)
        assert site.live_jobs() == []
        assert bound(site, names[1:]) == 0


async def test_edge_case_13_the_successor_of_a_failed_member_gets_its_slot_of_the_same_job(site: Site) -> None:
    async with site.running():
        names = gang(site, range(3), 3)
        for name in names:
            await site.bound(name)
        jobs = [job.job_id for job in site.live_jobs()]
        node = site.node_of("ring-1")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == node
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_edge_case_2_a_pod_beyond_the_size_waits_until_a_slot_is_free(site: Site) -> None:
    async with site.running():
        names = gang(site, range(2), 2)
        for name in names:
            await site.bound(name)
        gang(site, range(2, 3), 2)
        await asyncio.sleep(60)
        assert bound(site, ["ring-2"]) == 0
        assert "SlurmJobPending" in site.events("ring-2")
        site.kube.delete_pod("ring-0", grace_s=1)
        await site.gone("ring-0")
        await site.bound("ring-2")


async def test_edge_case_4_members_that_differ_in_their_account_are_different_gangs(site: Site) -> None:
    async with site.running():
        site.kube.add_pod("a", annotations={GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/comment": "x"})
        site.kube.add_pod("b", annotations={GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/comment": "y"})
        await site.until(lambda: "InvalidSlurmSettings" in site.events("b"), "the faults")
        assert site.live_jobs() == []


async def test_edge_case_19_a_cancel_ends_every_member(site: Site) -> None:
    async with site.running():
        names = gang(site, range(3), 3)
        for name in names:
            await site.bound(name)
        site.slurm.controller.cancel(site.live_jobs()[0].job_id)
        for name in names:
            await site.gone(name)


async def test_each_node_is_kept_until_the_member_there_is_gone_and_no_longer(site: Site) -> None:
    async with site.running():
        for number, stop in enumerate(("0.2", "20", "20")):
            said = {GANG: "ring", GANG_SIZE: "3", STOP_FOR: stop}
            site.kube.add_pod(f"ring-{number}", annotations=said, grace_s=30)
        for number in range(3):
            assert await site.bound(f"ring-{number}") == f"n{number + 1}"
        site.slurm.controller.end(site.live_jobs()[0].job_id, "PREEMPTED")
        await site.gone("ring-0")
        await site.until(lambda: site.drained() == ["n2", "n3"], "the drains of the other nodes alone")
        assert "default/ring-1 outlives" in site.slurm.controller.nodes["n2"].reason
        assert "ring-2" not in site.slurm.controller.nodes["n2"].reason
        await site.gone("ring-2")
        await site.until(lambda: site.drained() == [], "no drain")


async def test_a_member_that_is_removed_by_force_keeps_its_own_node_alone(site: Site) -> None:
    async with site.running():
        for name in (names := gang(site, range(3), 3)):
            await site.bound(name)
        site.kubelets.take_down("n2")
        site.kube.delete_pod(names[1], grace_s=0)
        await site.until(lambda: bool(site.drained()), "a drain")
        await asyncio.sleep(5)
        assert site.drained() == ["n2"]


async def test_edge_case_9_a_start_finds_a_gang_that_runs_and_one_that_waits(site: Site) -> None:
    async with site.dying():
        names = gang(site, range(3), 3)
        for name in names:
            await site.bound(name)
        more = gang(site, range(3), 3, name="next", cpu="8")
        await site.until(lambda: len(site.live_jobs()) == 2, "its job")
    before = [job.job_id for job in site.live_jobs()]
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == before
        assert (bound(site, names), bound(site, more)) == (3, 0)
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        for name in more:
            await site.bound(name)


@pytest.mark.parametrize("when", ["waiting", "bound"])
async def test_after_a_restart_members_that_name_a_partition_are_one_gang_again(site: Site, when: str) -> None:
    said = {GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/partition": "urgent"}
    async with site.dying():
        if when == "waiting":
            for number in range(1, 4):
                site.slurm.controller.drain(f"n{number}", "disk")
        for name in ("ring-0", "ring-1"):
            site.kube.add_pod(name, annotations=said)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        if when == "bound":
            for name in ("ring-0", "ring-1"):
                await site.bound(name)
    jobs = [job.job_id for job in site.live_jobs()]
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == jobs
        for number in range(1, 4):
            site.slurm.controller.undrain(f"n{number}")
        for name in ("ring-0", "ring-1"):
            await site.bound(name)
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_after_a_restart_with_a_stricter_policy_a_gang_that_runs_keeps_its_job(site: Site) -> None:
    said = {GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/comment": "mine"}
    async with site.dying():
        for name in ("ring-0", "ring-1"):
            site.kube.add_pod(name, annotations=said, grace_s=100)
        for name in ("ring-0", "ring-1"):
            await site.bound(name)
    jobs = [job.job_id for job in site.live_jobs()]
    site.config = site.config.replace("limits: {", "limits: {maxPodGrace: 50s, ")
    async with site.running():
        await asyncio.sleep(120)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert bound(site, ["ring-0", "ring-1"]) == 2


async def test_a_member_whose_account_changes_while_its_gang_waits_stays_a_member_and_refuses_it(site: Site) -> None:
    async with site.running():
        for number in range(1, 4):
            site.slurm.controller.drain(f"n{number}", "disk")
        gang(site, range(2), 2)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        account = {"slurm-extender.io/account": "other"}
        site.kube.change(pod_key("default", "ring-1"), lambda pod: pod["metadata"]["annotations"].update(account))
        await site.until(lambda: "InvalidSlurmSettings" in site.events("ring-0"), "the faults")
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        site.kube.change(pod_key("default", "ring-1"), lambda pod: pod["metadata"]["annotations"].pop(*account))
        await site.until(lambda: len(site.live_jobs()) == 1, "one job for both")


async def test_the_last_pod_of_a_job_whose_others_have_succeeded_stays_in_its_gang(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "train", {"parallelism": 2, "completions": 2}, gang="true")
        names = job_pods(site, job, 2)
        soon = {RUN_FOR: "5"}
        site.kube.change(pod_key("default", "train-0"), lambda pod: pod["metadata"].update(annotations=soon))
        for name in names:
            await site.bound(name)
        await site.until(lambda: site.pod("train-0")["status"]["phase"] == "Succeeded", "its end")
        site.kube.change(ObjectKey(JOBS, "default", "train"), lambda one: one.update(status={"succeeded": 1}))
        site.kube.delete_pod("train-1", grace_s=1)
        await site.gone("train-1")
        await asyncio.sleep(40)
        job_pods(site, job, 2, first=1)
        await site.bound("train-1")
        assert site.live_jobs()[0].name.startswith("default/Job train")
        assert site.pod("train-1")["metadata"]["annotations"]["status.slurm-extender.io/gang-rank"] == "0"


def _set_index(index: str, pod: Json) -> None:
    pod["metadata"]["labels"][JOB_INDEX] = index


async def test_edge_case_9_ranks_of_bound_members_stay_when_one_is_lost_and_the_labels_change_meanwhile(
    site: Site,
) -> None:
    async with site.dying():
        job = an_owner(site, "Job", "train", {"parallelism": 3, "completions": 3}, gang="true")
        names = job_pods(site, job, 3)
        nodes = [await site.bound(name) for name in names]
        before = [one.job_id for one in site.live_jobs()]
    site.kube.delete_pod(names[0], grace_s=1)
    await site.gone(names[0])
    for name, index in ((names[1], "2"), (names[2], "1")):
        site.edit_pod(name, partial(_set_index, index))
    async with site.running():
        await asyncio.sleep(60)
        for rank in (1, 2):
            said = site.pod(names[rank])["metadata"]["annotations"]
            assert said["status.slurm-extender.io/gang-rank"] == str(rank)
            assert said["status.slurm-extender.io/slurm-node"] == nodes[rank]
        site.edit_pod(names[1], lambda pod: pod["metadata"]["annotations"].update({GANG_RANK: "0"}))
        await site.until(
            lambda: site.pod(names[1])["metadata"]["annotations"][GANG_RANK] == "1", "the rank as it was written"
        )
        assert [one.job_id for one in site.live_jobs()] == before


def an_owner(site: Site, kind: str, name: str, spec: Json, above: Json | None = None, **annotations: str) -> Json:
    group = {"Job": "batch/v1", "StatefulSet": "apps/v1"}.get(kind)
    version = group or {"JobSet": "jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1"}[kind]
    said = {f"slurm-extender.io/{key}": value for key, value in annotations.items()}
    meta: Json = {"name": name, "namespace": "default", "annotations": said}
    if above is not None:
        meta["ownerReferences"] = [owner_reference(above)]
    return site.kube.create({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})


def serve_controllers(site: Site) -> None:
    """An API server with the kinds of JobSet and LeaderWorkerSet."""
    site.kube.resources = (*site.kube.resources, JOB_SETS, LEADER_WORKER_SETS)


def job_pods(site: Site, job: Json, count: int, labels: dict[str, str] | None = None, first: int = 0) -> list[str]:
    names = [f"{job['metadata']['name']}-{number}" for number in range(first, count)]
    for number, name in enumerate(names, first):
        index = {JOB_INDEX: str(number)} | (labels or {})
        site.kube.add_pod(name, owner=owner_reference(job), labels=index)
    return names


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
            said = {"jobset-name": "sweep", "replicatedjob-name": "w", "job-global-index": str(number)}
            labels = {f"jobset.sigs.k8s.io/{key}": value for key, value in said.items()}
            names += job_pods(site, job, 1, labels)
            if not number:
                await asyncio.sleep(30)
                assert site.live_jobs() == []
        assert [await site.bound(name) for name in names] == ["n1", "n2"]
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize("policy", ["LeaderCreated", "LeaderReady"])
async def test_edge_case_27_a_group_of_a_leader_worker_set_is_a_gang_and_a_ready_leader_may_start_alone(
    site: Site, policy: str
) -> None:
    serve_controllers(site)
    async with site.running():
        lws = an_owner(site, "LeaderWorkerSet", "vllm", {"startupPolicy": policy})
        leaders = an_owner(site, "StatefulSet", "vllm", {}, lws)

        def member(name: str, number: int, owner: Json) -> None:
            labels = {f"leaderworkerset.sigs.k8s.io/{key}": "0" for key in ("name", "group-index")}
            labels["leaderworkerset.sigs.k8s.io/worker-index"] = str(number)
            size = {"leaderworkerset.sigs.k8s.io/size": "3"}
            site.kube.add_pod(name, owner=owner_reference(owner), labels=labels, annotations=size)

        member("vllm-0", 0, leaders)
        if policy == "LeaderReady":
            assert await site.bound("vllm-0") == "n1"
        else:
            await asyncio.sleep(30)
            assert site.live_jobs() == []
        workers = an_owner(site, "StatefulSet", "vllm-0", {}, site.pod("vllm-0") | {"apiVersion": "v1", "kind": "Pod"})
        for number in (1, 2):
            member(f"vllm-0-{number}", number, workers)
        assert [await site.bound(name) for name in ("vllm-0", "vllm-0-1", "vllm-0-2")] == ["n1", "n2", "n3"]
        assert len(site.live_jobs()) == 1


@pytest.mark.parametrize("after", [0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5, 1.0])
async def test_a_crash_at_any_step_leaves_no_gang_half_bound_and_no_job_twice(site: Site, after: float) -> None:
    async with site.dying():
        names = gang(site, range(3), 3, gates=(GATE,))
        await asyncio.sleep(after)
    async with site.running():
        for name in names:
            await site.bound(name)
        await asyncio.sleep(60)
        assert bound(site, names) == 3
        assert len(site.live_jobs()) == 1
        assert [site.node_of(name) for name in names] == ["n1", "n2", "n3"]
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_edge_case_26_a_gang_larger_than_the_cluster_is_told_how_many_nodes_are_suitable(site: Site) -> None:
    async with site.running():
        names = gang(site, range(4), 4)
        await site.until(lambda: "NoSuitableNode" in site.events(names[0]), "the reason")
        assert "3 nodes are suitable, 4 are needed." in site.notes(names[0])
        assert site.live_jobs() == []
        for name in names:
            site.kube.delete_pod(name, grace_s=1)


async def test_edge_case_25_two_gangs_that_each_need_most_of_the_cluster_run_one_after_the_other(site: Site) -> None:
    async with site.running():
        first = gang(site, range(2), 2, name="first", cpu="8")
        second = gang(site, range(2), 2, name="second", cpu="8")
        await site.until(lambda: bound(site, first) + bound(site, second) == 2, "one of them")
        await asyncio.sleep(30)
        assert {bound(site, first), bound(site, second)} == {0, 2}
        done, waits = (first, second) if bound(site, first) else (second, first)
        for name in done:
            site.kube.delete_pod(name, grace_s=1)
        for name in waits:
            await site.bound(name)


class UnprovenGangSite(Site):
    """An installation in which no call of a fence script was ever received."""

    fences_proven = False


@pytest.mark.parametrize("unfenced", ["refuse", "allow"])
async def test_a_gang_waits_for_fences_unless_the_site_allows_nodes_without_one(unfenced: str) -> None:
    async with (
        simulated_cluster(UnprovenGangSite, nodes=three_nodes()) as site,
        site.running(changed=f"gangs: {{unfenced: {unfenced}}}\n"),
    ):
        names = gang(site, range(2), 2)
        if unfenced == "allow":
            for name in names:
                await site.bound(name)
        else:
            await site.until(lambda: "SlurmRetrying" in site.events(names[0]), "the reason")
            assert "GangNeedsFence: install the fence script on n1, n2, n3." in site.notes(names[0])
            assert site.live_jobs() == []


async def running_gang(site: Site, size: int = 3, **of: dict[str, str]) -> list[str]:
    """A gang whose members run; `of` has further annotations of single members, by number as `m0`."""
    for number in range(size):
        said = {GANG: "ring", GANG_SIZE: str(size)} | of.get(f"m{number}", {})
        site.kube.add_pod(f"ring-{number}", annotations=said)
    names = [f"ring-{number}" for number in range(size)]
    for name in names:
        await site.bound(name)
    return names


async def succeeded(site: Site, name: str) -> None:
    await site.until(lambda: site.pod(name)["status"]["phase"] == "Succeeded", f"the end of {name}")


def nodes_of_job(site: Site) -> tuple[str, ...]:
    (job,) = site.live_jobs()
    return job.nodes


async def test_edge_case_14_slurm_has_the_node_of_a_member_that_succeeded_within_a_second(site: Site) -> None:
    async with site.running():
        names = await running_gang(site, m1={RUN_FOR: "5"})
        jobs = [job.job_id for job in site.live_jobs()]
        await succeeded(site, "ring-1")
        await asyncio.sleep(1)
        assert nodes_of_job(site) == ("n1", "n3")
        await asyncio.sleep(30)
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert bound(site, names) == 3
        for name in names:
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")
        assert site.drained() == []


async def test_edge_case_14_another_pod_gets_the_node_that_a_member_freed(site: Site) -> None:
    async with site.running():
        for number in range(3):
            said = {GANG: "ring", GANG_SIZE: "3", RUN_FOR: "5" if number == 2 else "1000"}
            site.kube.add_pod(f"ring-{number}", annotations=said, cpu="8")
        for number in range(3):
            await site.bound(f"ring-{number}")
        site.kube.add_pod("alone", cpu="8")
        assert await site.bound("alone") == "n3"


async def test_edge_case_14_a_site_that_forbids_shrinking_is_asked_once_and_keeps_the_nodes(site: Site) -> None:
    site.slurm.controller.config = site.slurm.controller._lives._config = replace(
        site.slurm.controller.config, job_shrink=False
    )
    async with site.running():
        await running_gang(site, m1={RUN_FOR: "5"}, m2={RUN_FOR: "50"})
        await succeeded(site, "ring-2")
        await asyncio.sleep(100)
        assert nodes_of_job(site) == ("n1", "n2", "n3")
        assert sum("GangNodesKept" in site.events(name) for name in ("ring-0", "ring-1", "ring-2")) == 1
        site.kube.delete_pod("ring-0", grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_edge_case_15_the_node_of_the_batch_script_is_kept_and_an_event_says_so(site: Site) -> None:
    async with site.running():
        said = {"slurm-extender.io/mode": "batch"}
        await running_gang(site, m0={RUN_FOR: "5"} | said, m1=said | {RUN_FOR: "5"}, m2=said)
        await succeeded(site, "ring-0")
        await asyncio.sleep(30)
        assert nodes_of_job(site) == ("n1", "n3")
        notes = [text for text in site.notes("ring-2") if "Slurm keeps node n1" in text]
        assert len(notes) == 1


async def test_edge_case_20_an_administrator_who_shrinks_the_job_ends_the_members_there_alone(site: Site) -> None:
    async with site.running():
        names = await running_gang(site)
        (job,) = site.live_jobs()
        site.slurm.controller.shrink(job.job_id, ("n1", "n2"))
        await site.gone("ring-2")
        await asyncio.sleep(30)
        assert bound(site, names[:2]) == 2
        assert not any("deletionTimestamp" in site.pod(name)["metadata"] for name in names[:2])
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]
        assert site.drained() == []
        note = next(text for text in site.notes("ring-2") if "Slurm took" in text)
        assert note == f"Slurm took node n3 from job {job.job_id}; members on the other nodes continue."
        gang(site, range(2, 3), 3)
        await asyncio.sleep(60)
        assert bound(site, ["ring-2"]) == 0


async def test_edge_case_20_a_start_finds_that_an_administrator_shrank_the_job_meanwhile(site: Site) -> None:
    async with site.dying():
        names = await running_gang(site)
    (job,) = site.live_jobs()
    site.slurm.controller.shrink(job.job_id, ("n1", "n3"))
    async with site.running():
        await site.gone("ring-1")
        await asyncio.sleep(60)
        assert bound(site, [names[0], names[2]]) == 2
        assert [one.job_id for one in site.live_jobs()] == [job.job_id]
        for name in (names[0], names[2]):
            site.kube.delete_pod(name, grace_s=1)
        await site.until(lambda: not site.live_jobs(), "the end of its job")


async def test_a_node_that_an_administrator_takes_is_drained_until_its_member_is_gone(site: Site) -> None:
    async with site.running():
        await running_gang(site, m2={STOP_FOR: "20"})
        (job,) = site.live_jobs()
        site.slurm.controller.shrink(job.job_id, ("n1", "n2"))
        await site.until(lambda: site.drained() == ["n3"], "the drain")
        await site.gone("ring-2")
        await site.until(lambda: site.drained() == [], "no drain")


def queued_gang(site: Site) -> list[str]:
    for number in range(1, 4):
        site.slurm.controller.drain(f"n{number}", "disk")
    return gang(site, range(3), 3)


async def test_edge_case_6_the_successor_of_a_member_takes_its_place_in_the_job_that_waits(site: Site) -> None:
    async with site.running():
        names = queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        jobs = [job.job_id for job in site.live_jobs()]
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(20)
        gang(site, range(1, 2), 3)
        await asyncio.sleep(100)
        for number in range(1, 4):
            site.slurm.controller.undrain(f"n{number}")
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.job_id for job in site.live_jobs()] == jobs


async def test_edge_case_6_without_a_successor_in_time_the_job_that_waits_is_released(site: Site) -> None:
    async with site.running():
        queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        await asyncio.sleep(50)
        assert len(site.live_jobs()) == 1
        await asyncio.sleep(30)
        assert site.live_jobs() == []


async def test_edge_case_7_a_job_that_is_granted_while_a_member_is_missing_binds_no_other_before_its_successor(
    site: Site,
) -> None:
    async with site.running():
        names = queued_gang(site)
        await site.until(lambda: len(site.live_jobs()) == 1, "its job")
        jobs = [job.job_id for job in site.live_jobs()]
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        for number in range(1, 4):
            site.slurm.controller.undrain(f"n{number}")
        await asyncio.sleep(15)
        assert bound(site, [names[0], names[2]]) == 0
        gang(site, range(1, 2), 3)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert [job.job_id for job in site.live_jobs()] == jobs


@pytest.mark.parametrize("how", ["failed", "succeeded"])
async def test_edge_case_13_a_slot_is_kept_for_a_successor_and_then_given_back(site: Site, how: str) -> None:
    async with site.running():
        if how == "succeeded":  # a Job whose further Pods come when earlier ones have ended
            job = an_owner(site, "Job", "ring", {"parallelism": 3, "completions": 5}, gang="true")
            names = job_pods(site, job, 3)
            site.edit_pod("ring-1", lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
            for name in names:
                await site.bound(name)
            await succeeded(site, "ring-1")
        else:
            await running_gang(site)
            site.kube.delete_pod("ring-1", grace_s=1)
            await site.gone("ring-1")
        await asyncio.sleep(50)
        assert nodes_of_job(site) == ("n1", "n2", "n3")
        await asyncio.sleep(15)
        assert nodes_of_job(site) == ("n1", "n3")


async def test_edge_case_24_a_later_pod_of_a_job_takes_the_slot_of_one_that_succeeded(site: Site) -> None:
    async with site.running():
        job = an_owner(site, "Job", "ring", {"parallelism": 3, "completions": 5}, gang="true")
        names = job_pods(site, job, 3)
        site.edit_pod("ring-1", lambda pod: pod["metadata"].update(annotations={RUN_FOR: "5"}))
        for name in names:
            await site.bound(name)
        await succeeded(site, "ring-1")
        await asyncio.sleep(3)
        job_pods(site, job, 4, first=3)
        assert await site.bound("ring-3") == "n2"
        assert site.pod("ring-3")["metadata"]["annotations"][GANG_RANK] == "1"
        assert len(site.live_jobs()) == 1


async def test_a_later_pod_that_needs_more_than_its_slot_has_is_refused_and_another_one_takes_it(site: Site) -> None:
    async with site.running():
        await running_gang(site)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        site.kube.add_pod("ring-1", annotations={GANG: "ring", GANG_SIZE: "3"}, cpu="7")
        await site.until(lambda: "InvalidSlurmSettings" in site.events("ring-1"), "its refusal")
        assert any("It requests 7 CPUs instead of" in text for text in site.notes("ring-1"))
        gang(site, range(4, 5), 3)
        assert await site.bound("ring-4") == "n2"
        assert bound(site, ["ring-1"]) == 0


async def test_after_a_restart_with_a_missing_member_a_later_pod_gets_its_slot(site: Site) -> None:
    async with site.dying():
        await running_gang(site)
    jobs = [job.job_id for job in site.live_jobs()]
    site.kube.delete_pod("ring-1", grace_s=1)
    await site.gone("ring-1")
    async with site.running():
        await asyncio.sleep(10)
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == "n2"
        assert [job.job_id for job in site.live_jobs()] == jobs
        assert "SlurmSettingWithoutEffect" not in site.events("ring-0")


KEEP = {"slurm-extender.io/on-node-failure": "keep"}


async def test_edge_case_16_the_failure_of_a_node_ends_the_whole_gang(site: Site) -> None:
    async with site.running():
        names = await running_gang(site)
        site.slurm.controller.set_down("n2")
        for name in names:
            await site.gone(name)
        assert all(any("DOWN" in text or "node" in text for text in site.notes(name)) for name in names)


async def test_edge_case_16_a_gang_that_says_so_goes_on_without_the_node_that_failed(site: Site) -> None:
    async with site.running():
        names = await running_gang(site, m0=KEEP, m1=KEEP, m2=KEEP)
        jobs = [job.job_id for job in site.live_jobs()]
        site.slurm.controller.set_down("n2")
        await site.gone("ring-1")
        assert any(text.startswith("Slurm took node n2 from job") for text in site.notes("ring-1"))
        await asyncio.sleep(60)
        assert bound(site, [names[0], names[2]]) == 2
        assert [job.job_id for job in site.live_jobs()] == jobs
        gang(site, range(1, 2), 3)
        site.edit_pod("ring-1", lambda pod: pod["metadata"]["annotations"].update(KEEP))
        await asyncio.sleep(60)
        assert bound(site, ["ring-1"]) == 0


@pytest.mark.parametrize(("release", "goes_on"), [("24.11.5", False), ("26.05.5", True)])
async def test_edge_case_16_a_batch_job_whose_own_node_fails_ends_before_26_05(release: str, goes_on: bool) -> None:
    async with a_site(release=release) as site, site.running():
        said = KEEP | {"slurm-extender.io/mode": "batch"}
        names = await running_gang(site, m0=said, m1=said, m2=said)
        site.slurm.controller.set_down("n1")
        await site.gone("ring-0")
        if not goes_on:
            for name in names[1:]:
                await site.gone(name)
            return
        await asyncio.sleep(60)
        assert bound(site, names[1:]) == 2
