"""A rule of the policy bounds the gangs of a tenant; what runs is not ended by it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GANG, GANG_SIZE, GATE
from simulator.kube.faults import KubeFault
from simulator.slurm.faults import SlurmFault
from tests.builders.gang_pods import a_leader, an_owner, job_pods, workers_of
from tests.builders.gang_pods import gang as gang_of
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime
HEAD = "apiVersion: slurm-extender.io/v1alpha1\nkind: PodPolicy\n"
SMALL = HEAD + "rules: [{name: interns, match: {namespaces: [default]}, allow: {largestGang: 2}}]\n"
FREE = HEAD + "rules: []\n"
NO_MODE = HEAD + "rules: [{name: none, allow: {mode: []}}]\n"
MODE = "slurm-extender.io/mode"
NO_BATCH = HEAD + "rules: [{name: none, allow: {mode: [auto, allocation]}}]\n"
FAULT = 'gang ring with 3 Pods is not allowed by rule "interns" of the policy; it allows at most 2'


class Policy:
    """The policy file of the site."""

    def __init__(self, file: Path) -> None:
        self.says = file.write_text
        self.given = f"jobs: {{policyFile: {file}}}\n"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    found = Policy(tmp_path / "policy.yaml")
    found.says(SMALL)
    return found


def gang(site: Site, size: int, name: str = "ring", cpu: str = "1") -> list[str]:
    names = [f"{name}-{number}" for number in range(size)]
    for one in names:
        site.kube.add_pod(one, cpu=cpu, annotations={GANG: name, GANG_SIZE: str(size)}, gates=(GATE,))
    return names


async def refused(site: Site, name: str) -> None:
    await site.until(lambda: any(FAULT in note for note in site.notes(name)), "its refusal")


async def test_a_gang_beyond_the_rule_gets_no_job_and_each_pod_gets_the_rule(site: Site, policy: Policy) -> None:
    async with site.running(changed=policy.given):
        names = gang(site, 3)
        for name in names:
            await refused(site, name)
        assert site.live_jobs() == []
        for name in gang(site, 2, "pair"):
            await site.bound(name)
        policy.says(FREE)
        for name in names:
            await site.bound(name)
        assert len(site.live_jobs()) == 2


async def test_a_gang_that_waits_loses_its_job_when_the_rule_gets_stricter(site: Site, policy: Policy) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        await site.fill()
        running = site.live_jobs()
        names = gang(site, 3, cpu="8")
        await site.until(lambda: len(site.live_jobs()) == len(running) + 1, "its job")
        policy.says(SMALL)
        await site.until(lambda: site.live_jobs() == running, "the end of its job")
        await refused(site, names[0])
        policy.says(FREE)
        await site.until(lambda: len(site.live_jobs()) == len(running) + 1, "another job")


async def test_an_incomplete_gang_that_is_no_more_allowed_is_refused_once_it_is_complete(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        names = [f"ring-{number}" for number in range(2)]
        for name in names:
            site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "3"}, gates=(GATE,))
        await asyncio.sleep(5)
        policy.says(SMALL)
        await asyncio.sleep(10)
        site.kube.add_pod("ring-2", annotations={GANG: "ring", GANG_SIZE: "3"}, gates=(GATE,))
        await refused(site, "ring-2")
        assert site.live_jobs() == []
        policy.says(FREE)
        for name in (*names, "ring-2"):
            await site.bound(name)


async def test_a_gang_that_runs_is_not_ended_by_a_stricter_rule(site: Site, policy: Policy) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        names = gang(site, 3)
        for name in names:
            await site.bound(name)
        running = site.live_jobs()
        policy.says(SMALL)
        await asyncio.sleep(60)
        assert site.live_jobs() == running
        assert all("deletionTimestamp" not in site.pod(name)["metadata"] for name in names)


async def test_a_gang_one_of_whose_pods_was_forbidden_for_a_time_is_placed_once_its_pods_agree(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        named = {GANG: "ring", GANG_SIZE: "2"}
        site.kube.add_pod("ring-0", annotations=named | {MODE: "batch"}, gates=(GATE,))
        site.kube.add_pod("ring-1", annotations=named, gates=(GATE,))
        await site.until(lambda: "must agree" in " ".join(site.notes("ring-0")), "the disagreement")
        policy.says(NO_BATCH)
        await site.until(lambda: 'rule "none"' in " ".join(site.notes("ring-0")), "its refusal")
        policy.says(FREE)
        await asyncio.sleep(10)
        assert site.placeholder("ring-0").key == site.placeholder("ring-1").key
        site.edit_pod("ring-1", lambda pod: pod["metadata"]["annotations"].update({MODE: "batch"}))
        await site.bound("ring-0")
        await site.bound("ring-1")
        assert len(site.live_jobs()) == 1


async def workers_are_refused_and_then_placed(site: Site, policy: Policy, leader: str) -> None:
    names = workers_of(site, leader, mode="batch")
    await site.until(lambda: all(any('rule "none"' in note for note in site.notes(one)) for one in names), "refusals")
    policy.says(FREE)
    for name in names:
        await site.bound(name)
    assert len(site.live_jobs()) == 1


async def test_workers_of_a_group_whose_leader_runs_are_placed_once_the_rule_allows_them(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        await site.bound(leader := a_leader(site, mode="batch"))
        policy.says(NO_MODE)
        await asyncio.sleep(10)
        await workers_are_refused_and_then_placed(site, policy, leader)


async def test_workers_are_placed_once_the_rule_allows_them_after_a_start_that_found_their_leader_forbidden(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        await site.bound(leader := a_leader(site, mode="batch"))
    policy.says(NO_MODE)
    async with site.running(changed=policy.given):
        await workers_are_refused_and_then_placed(site, policy, leader)


async def test_a_policy_that_changes_while_a_start_reads_an_owner_leaves_a_gang_its_running_job(
    site: Site, policy: Policy
) -> None:
    taint = {"key": "x", "value": "y", "effect": "NoSchedule"}
    policy.says(FREE)
    async with site.running(changed=policy.given):
        names = gang(site, 2)
        site.edit_node("n1", lambda node: node["spec"].update(taints=[taint]))
        job_pods(site, an_owner(site, "Job", "slow", {}), 1)
        await site.bound("slow-0")
        await asyncio.sleep(5)
        assert not any(site.pod(name)["spec"].get("nodeName") for name in names)
        running = site.live_jobs()
    site.kube.faults.add(KubeFault("GET", "/jobs/slow$", code=None, delay_s=30))
    asyncio.get_running_loop().call_later(15, policy.says, SMALL)
    async with site.running(changed=policy.given):
        assert site.live_jobs() == running
        site.edit_node("n1", lambda node: node["spec"].pop("taints"))
        for name in names:
            await site.bound(name)
        assert site.live_jobs() == running


async def test_pods_that_a_start_found_forbidden_beside_members_that_may_run_are_allowed_with_the_policy(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    batch = {MODE: "batch"}
    async with site.running(changed=policy.given):
        await asyncio.sleep(5)
        before = site.kube.storage.save()
        for name in gang_of(site, range(2), 2, settings=batch):
            await site.bound(name)
        (running,) = site.live_jobs()
        await site.restore_kube(before)
        gang_of(site, range(2), 2, settings=batch)
    policy.says(NO_MODE)
    async with site.running(changed=policy.given):
        found = site.extender.engine.placeholders.by_job
        await site.until(lambda: (p := found(running.job_id)) is not None and p.state is State.GRANTED, "its job")
        assert 'rule "none"' in " ".join(site.placeholder("ring-0").faults)
        policy.says(FREE)
        await site.until(lambda: "until a slot" in " ".join(site.notes("ring-0")), "the wait for a slot", within=30)
        p = found(running.job_id)
        assert p is not None
        assert p.faults == ()
        assert site.live_jobs() == [running]


LAB, DEPARTMENT = (f"{HEAD}owners: [{{account: {name}}}]\n" for name in ("lab", "dept"))


def first_and_last(site: Site) -> list[str]:
    """Create a gang whose two Pods a start reads first and last."""
    names = ["aa-0", "zz-1"]
    for name in names:
        site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "2"}, gates=(GATE,))
    return names


@pytest.mark.parametrize("waits", [False, True])
async def test_a_gang_whose_tenant_changes_while_a_start_reads_its_members_stays_one_gang(
    site: Site, policy: Policy, waits: bool
) -> None:
    policy.says(LAB)
    if waits:
        async with site.running(changed=policy.given):
            await site.fill()
            names = first_and_last(site)
            await site.until(lambda: len(site.live_jobs()) == 4, "its job")
    else:
        names = first_and_last(site)
    job_pods(site, an_owner(site, "Job", "slow", {}), 1)
    fault = site.kube.faults.add(KubeFault("GET", "/jobs/slow$", code=503, times=None))
    asyncio.get_running_loop().call_later(20, site.kube.faults.remove, fault)
    asyncio.get_running_loop().call_later(8, policy.says, DEPARTMENT)
    async with site.running(changed=policy.given):
        await asyncio.sleep(30)
        if waits:
            site.free_all()
        for name in names:
            await site.bound(name)


async def waits_in_queue(site: Site) -> list[str]:
    """Create the gang while nodes are full, and wait for its job."""
    await site.fill()
    names = first_and_last(site)
    await site.until(lambda: len(site.live_jobs()) == 4, "its job")
    return names


async def replaced(site: Site, name: str) -> None:
    """Delete the Pod and create it again."""
    site.kube.delete_pod(name, grace_s=1)
    await site.gone(name)
    site.kube.add_pod(name, annotations={GANG: "ring", GANG_SIZE: "2"}, gates=(GATE,))


async def test_a_gang_whose_tenant_changed_before_its_job_was_cancelled_gets_a_job_once_a_pod_is_replaced(
    site: Site, policy: Policy
) -> None:
    policy.says(LAB)
    async with site.running(changed=policy.given):
        names = await waits_in_queue(site)
        before = site.placeholder(names[0]).key
        policy.says(DEPARTMENT)
        await asyncio.sleep(20)
        site.slurm.controller.cancel(site.live_jobs()[-1].job_id)
        await site.until(lambda: site.placeholder(names[0]).state is State.REFUSED, "its refusal")
        await replaced(site, names[1])
        site.free_all()
        for name in names:
            await site.bound(name)
        assert [job.account for job in site.live_jobs()] == ["dept"]
        await asyncio.sleep(30)
        assert before not in site.extender.engine.placeholders.all


async def test_a_gang_whose_tenant_changes_after_it_was_withdrawn_gets_a_job_once_it_is_complete(
    site: Site, policy: Policy
) -> None:
    policy.says(LAB)
    async with site.running(changed=policy.given):
        names = await waits_in_queue(site)
        site.kube.delete_pod(names[1], grace_s=1)
        await site.until(lambda: len(site.live_jobs()) == 3, "the end of its job")
        policy.says(DEPARTMENT)
        await asyncio.sleep(20)
        site.kube.add_pod(names[1], annotations={GANG: "ring", GANG_SIZE: "2"}, gates=(GATE,))
        site.free_all()
        for name in names:
            await site.bound(name)


@pytest.mark.parametrize("fault", [SlurmFault.LOSE_ANSWER, SlurmFault.LOSE_REQUEST])
async def test_a_gang_whose_tenant_changes_after_a_request_without_an_answer_gets_one_job(
    site: Site, policy: Policy, fault: SlurmFault
) -> None:
    policy.says(LAB)
    async with site.running(changed=policy.given):
        await site.fill()
        placeholders = site.extender.engine.placeholders
        site.slurm.restd.faults.add(fault, "POST", "/job/", times=1)
        names = first_and_last(site)
        await site.until(lambda: bool(placeholders.in_state(State.UNSURE)), "the lost answer")
        policy.says(DEPARTMENT)
        await asyncio.sleep(20)
        await replaced(site, names[1])
        site.free_all()
        for name in names:
            await site.bound(name, within=400)
        assert [job.account for job in site.live_jobs()] == ["dept"]


async def test_a_member_whose_gang_lost_the_other_while_the_extender_was_away_is_not_bound_alone(
    site: Site, policy: Policy
) -> None:
    policy.says(FREE)
    async with site.running(changed=policy.given):
        await site.fill()
        first, last = first_and_last(site)
        await site.until(lambda: len(site.live_jobs()) == 4, "its job")
    site.kube.delete_pod(last, grace_s=0)
    await asyncio.sleep(2)
    async with site.running(changed=policy.given):
        site.free_all()
        await asyncio.sleep(200)
        assert not site.node_of(first)
