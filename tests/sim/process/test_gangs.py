"""The members of a gang start together, or none of them does."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from extender.domain.gangs.labels import JOB_INDEX
from extender.domain.wellknown import ALLOCATED_CONDITION, GANG, GANG_RANK, GANG_SIZE, GATE
from simulator.cluster import simulated_cluster, three_nodes
from simulator.kube.kubelet import FAIL_AFTER, RUN_FOR, STOP_FOR
from simulator.kube.objects import Json
from simulator.kube.pods import pod_key
from simulator.kube.resources import JOBS
from simulator.kube.storage import ObjectKey
from tests.builders.gang_pods import an_owner, bound, gang, job_pods
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime


def allocated(site: Site, name: str) -> tuple[str, str]:
    """Return reason and message of the condition that explains why a Pod waits; "" and "" without it."""
    for one in site.pod(name)["status"].get("conditions", ()):
        if one["type"] == ALLOCATED_CONDITION:
            return one["reason"], one["message"]
    return "", ""


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


async def test_members_of_different_sizes_get_equal_nodes_for_the_largest_and_an_event_says_so(site: Site) -> None:
    async with site.running():
        names = [*gang(site, range(1), 2, cpu="2"), *gang(site, range(1, 2), 2, cpu="5")]
        assert sorted([await site.bound(name) for name in names]) == ["n1", "n2"]
        (job,) = site.live_jobs()
        assert job.cpus_per_node == 5
        assert sum(site.events(name).count("GangMembersDiffer") for name in names) == 1


async def test_edge_case_1_no_job_exists_before_all_pods_do_and_each_says_how_many_are_missing(site: Site) -> None:
    async with site.running():
        names = gang(site, range(2), 3)
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        for name in names:
            assert allocated(site, name) == ("GangIncomplete", "2 of 3 Pods of gang ring exist.")
        names += gang(site, range(2, 3), 3)
        for name in names:
            await site.bound(name)


async def test_edge_case_5_a_gang_that_loses_a_pod_before_its_job_is_incomplete_again(site: Site) -> None:
    async with site.running():
        site.cordon("n1")
        names = gang(site, range(3), 3)
        await site.until(lambda: allocated(site, "ring-0")[0] == "NoSuitableNode", "a complete gang without a job")
        site.kube.delete_pod("ring-1", grace_s=1)
        incomplete = ("GangIncomplete", "2 of 3 Pods of gang ring exist.")
        await site.until(lambda: allocated(site, "ring-0") == allocated(site, "ring-2") == incomplete, "the reason")
        site.cordon("n1", False)
        await asyncio.sleep(30)
        assert site.jobs() == []
        gang(site, range(1, 2), 3)
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.jobs()) == 1


async def test_edge_case_8_a_taint_on_one_node_after_the_grant_binds_no_member_before_it_goes(site: Site) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        site.scheduler.unreached = frozenset({"ring-0", "ring-1", "ring-2"})
        names = gang(site, range(3), 3, gates=(GATE,))
        await site.until(lambda: not any("schedulingGates" in site.pod(name)["spec"] for name in names), "the grant")
        site.edit_node("n3", lambda node: node["spec"].update(taints=[taint]))
        site.scheduler.reach_all()
        await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
        await asyncio.sleep(10)
        assert bound(site, names) == 0
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        assert [await site.bound(name) for name in names] == ["n1", "n2", "n3"]
        assert len(site.jobs()) == 1


async def test_no_member_is_bound_while_the_nodes_are_full(site: Site) -> None:
    async with site.running():
        await site.fill()
        names = gang(site, range(3), 3, cpu="8")
        await asyncio.sleep(10)
        assert bound(site, names) == 0
        site.free_all()
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
        site.edit_pod("ring-1", lambda pod: pod["metadata"]["annotations"].update({FAIL_AFTER: "1"}))
        await site.until(lambda: site.pod("ring-1")["status"]["phase"] == "Failed", "its failure")
        assert site.pod("ring-1")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
        await asyncio.sleep(20)
        assert len(site.live_jobs()[0].nodes) == 3, "the slot was not kept"
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        gang(site, range(1, 2), 3)
        assert await site.bound("ring-1") == node
        assert bound(site, names) == 3
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


@pytest.mark.parametrize("gates", [(), (GATE,)])
async def test_edge_case_4_members_that_differ_in_a_setting_get_no_job_before_it_is_the_same(
    site: Site, gates: tuple[str, ...]
) -> None:
    async with site.running():
        for name, text in (("a", "x"), ("b", "y")):
            said = {GANG: "ring", GANG_SIZE: "2", "slurm-extender.io/comment": text}
            site.kube.add_pod(name, annotations=said, gates=gates)
        await site.until(lambda: "InvalidSlurmSettings" in site.events("b"), "the faults")
        await asyncio.sleep(30)
        assert site.live_jobs() == []
        site.edit_pod("b", lambda pod: pod["metadata"]["annotations"].update({"slurm-extender.io/comment": "x"}))
        assert sorted([await site.bound(name) for name in ("a", "b")]) == ["n1", "n2"]
        assert len(site.jobs()) == 1


async def test_edge_case_4_members_that_differ_in_their_account_are_different_gangs_before_it_is_the_same(
    site: Site,
) -> None:
    account = "slurm-extender.io/account"
    async with site.running():
        for name, text in (("a", "physics"), ("b", "biology")):
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "2", account: text})
        await asyncio.sleep(30)
        assert site.jobs() == []
        assert len({site.placeholder(name).key for name in ("a", "b")}) == 2
        site.edit_pod("b", lambda pod: pod["metadata"]["annotations"].update({account: "physics"}))
        assert sorted([await site.bound(name) for name in ("a", "b")]) == ["n1", "n2"]
        assert [job.account for job in site.live_jobs()] == ["physics"]


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


async def test_edge_case_26_a_gang_larger_than_the_cluster_gets_the_number_of_suitable_nodes(site: Site) -> None:
    async with site.running():
        names = gang(site, range(4), 4)
        await site.until(lambda: "NoSuitableNode" in site.events(names[0]), "the reason")
        assert "3 nodes are suitable, 4 are needed." in site.notes(names[0])
        assert site.live_jobs() == []
        for name in names:
            site.kube.delete_pod(name, grace_s=1)


async def test_edge_case_26_a_gang_reports_why_the_other_nodes_are_not_suitable(site: Site) -> None:
    async with site.running():
        site.gives("n1", {"cpu": "1"})
        site.delete_node("n2")
        names = gang(site, range(2), 2, cpu="4")
        await site.until(lambda: "NoSuitableNode" in site.events(names[0]), "the reason")
        said = "1 node is suitable, 2 are needed. Other nodes: 1 without a Kubernetes Node, 1 too small for a Pod."
        assert said in site.notes(names[0])
        assert site.live_jobs() == []


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


@pytest.mark.parametrize("behind_s", [0.02, 0.03, 0.05, 0.08])
async def test_a_gang_is_bound_at_once_where_kube_scheduler_sees_the_gates_fall_before_the_extender_does(
    site: Site, behind_s: float
) -> None:
    site.network.latency = lambda: 0.005
    async with site.running():
        site.kube.caches.behind_s = behind_s
        names = gang(site, range(3), 3, gates=(GATE,))
        began = asyncio.get_running_loop().time()
        for name in names:
            await site.bound(name)
        assert asyncio.get_running_loop().time() - began < 3, "no member waited for kube-scheduler's next try"


async def test_a_member_whose_node_changes_after_its_vote_votes_again_without_waiting_for_the_others(
    site: Site,
) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    async with site.running():
        names = gang(site, range(3), 3, gates=(GATE,))
        site.edit_node("n3", lambda node: node["spec"].update(taints=[taint]))
        await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
        site.edit_node("n1", lambda node: node["metadata"].setdefault("labels", {}).update(rack="b"))
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        began = asyncio.get_running_loop().time()
        for name in names:
            await site.bound(name)
        assert asyncio.get_running_loop().time() - began < 3


async def test_a_vote_is_void_once_a_rule_of_the_pods_author_selects_another_label(site: Site) -> None:
    label = "slurm-extender.io/rack"
    async with site.running():
        names = gang(site, range(3), 3, gates=(GATE,))
        site.scheduler.judge = lambda pod, _node: "anti-affinity" if label in pod["metadata"].get("labels", {}) else ""
        taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
        site.edit_node("n3", lambda node: node["spec"].update(taints=[taint]))
        await site.until(lambda: site.scheduler.status.binds >= 2, "two votes")
        site.edit_pod(names[0], lambda pod: pod["metadata"].setdefault("labels", {}).update({label: "a"}))
        await asyncio.sleep(1)
        site.edit_node("n3", lambda node: node["spec"].pop("taints"))
        await asyncio.sleep(15)
        assert bound(site, names) == 0
