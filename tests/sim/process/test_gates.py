"""Pods that wait behind our scheduling gate cost nothing while they wait, and are placed as all others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.domain.placeholder import State
from extender.domain.wellknown import GATE
from extender.runtime.topics import PlaceholderChanged
from simulator.kube.faults import KubeFault
from simulator.kube.objects import Json, a_pod
from simulator.kube.resources import NODES
from simulator.kube.storage import ObjectKey
from tests.builders.gang_pods import gang
from tests.builders.process_site import NAMES, Site

pytestmark = pytest.mark.looptime


def gated(site: Site, name: str = "web", *more: str, **fields: Any) -> None:
    site.kube.add_pod(name, gates=(GATE, *more), **fields)


def gates(site: Site, name: str = "web") -> list[str]:
    return [gate["name"] for gate in site.pod(name)["spec"].get("schedulingGates") or ()]


def label(site: Site, node: str, **labels: str) -> None:
    site.kube.change(ObjectKey(NODES, "", node), lambda one: one["metadata"].update(labels=labels))


def taint(site: Site, node: str, *taints: dict[str, str]) -> None:
    site.kube.change(ObjectKey(NODES, "", node), lambda one: one["spec"].update(taints=list(taints)))


def excluded(site: Site, name: str = "web") -> set[str]:
    (job,) = site.jobs_of(name)
    return set(job.excluded)


SAID_S = 40
"""After so long the condition says why the Pod waits, and is written again only when that changes."""

NO = {"key": "team", "value": "blue", "effect": "NoSchedule"}


async def test_a_gated_pod_is_placed_by_one_call_each_and_two_writes(site: Site) -> None:
    async with site.running():
        gated(site)
        site.kube.requests.clear()
        assert await site.bound("web") in NAMES
        await asyncio.sleep(5)
        assert (site.scheduler.status.filters, site.scheduler.status.binds) == (1, 1)
        writes = [(one.method, one.path) for one in site.kube.requests if one.method != "GET" and "/pods/" in one.path]
        path = "/api/v1/namespaces/default/pods/web"
        assert writes == [("PATCH", path), ("POST", f"{path}/binding")]


@pytest.mark.usefixtures("unhurried")
async def test_while_it_waits_no_server_is_called_for_it(site: Site) -> None:
    async with site.running():
        await site.fill()
        filters = site.scheduler.status.filters
        gated(site, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        await asyncio.sleep(SAID_S)
        site.kube.requests.clear()
        await asyncio.sleep(60)
        assert site.scheduler.status.filters == filters
        assert [one.path for one in site.kube.requests if "/pods/" in one.path] == []
        site.kube.delete_pod("first-1", grace_s=1)
        assert await site.bound("web") == "n2"


async def test_a_gate_of_another_controller_goes_first(site: Site) -> None:
    async with site.running():
        gated(site, "web", "kueue.x-k8s.io/admission")
        await asyncio.sleep(30)
        assert site.jobs_of("web") == []
        site.edit_pod("web", lambda pod: pod["spec"].update(schedulingGates=[{"name": GATE}]))
        await site.bound("web")


async def test_the_nodes_of_a_gated_member_follow_changes_after_kube_scheduler_has_seen_another_of_its_gang(
    site: Site,
) -> None:
    async with site.running():
        for node in NAMES[1:]:
            taint(site, node, NO)
        gang(site, range(1), 2, gates=(GATE,))
        await asyncio.sleep(1)
        gang(site, range(1, 2), 2)
        await site.until(lambda: "NoSuitableNode" in site.events("ring-0"), "the reason")
        for node in NAMES[1:]:
            taint(site, node)
        for name in ("ring-0", "ring-1"):
            await site.bound(name)


async def test_a_pod_that_only_kube_scheduler_can_judge_waits_there(site: Site) -> None:
    async with site.running():
        await site.fill()
        volume_claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        site.kube.create(pod_with(volumes=[volume_claim]))
        await site.until(lambda: not gates(site), "the gate is gone", within=2)
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        site.kube.delete_pod("first-1", grace_s=1)
        assert await site.bound("web") == "n2"


def pod_with(**spec: Any) -> Json:
    pod = a_pod("web", cpu="8", gates=(GATE,))
    pod["spec"].update(spec)
    return pod


async def test_the_waiting_job_follows_the_nodes_that_the_pod_may_use(site: Site) -> None:
    async with site.running():
        label(site, "n1", zone="a")
        label(site, "n2", zone="a")
        await site.fill()
        gated(site, cpu="8", node_selector={"zone": "a"})
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        job = site.jobs_of("web")[0].job_id
        assert excluded(site) == {"n3"}
        taint(site, "n1", NO)
        await site.until(lambda: excluded(site) == {"n1", "n3"}, "the taint keeps it off", within=3)
        label(site, "n3", zone="a")
        await site.until(lambda: excluded(site) == {"n1"}, "a label lets it in", within=3)
        assert [one.job_id for one in site.jobs_of("web")] == [job]
        site.kube.delete_pod("first-2", grace_s=1)
        assert await site.bound("web") == "n3"


@pytest.mark.usefixtures("unhurried")
async def test_a_waiting_job_whose_last_node_goes_is_not_started_anywhere(site: Site) -> None:
    async with site.running():
        label(site, "n1", zone="a")
        await site.fill()
        gated(site, cpu="8", node_selector={"zone": "a"})
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        label(site, "n1", zone="b")
        await site.until(lambda: excluded(site) == {"n1", "n2", "n3"}, "no node is left", within=3)
        site.kube.delete_pod("first-0", grace_s=1)
        await asyncio.sleep(120)
        assert all(job.start_time == 0 for job in site.jobs_of("web"))
        label(site, "n1", zone="a")
        assert await site.bound("web", within=70) == "n1"


@pytest.mark.usefixtures("unhurried")
async def test_no_job_is_made_before_some_node_may_be_used_and_that_is_said(site: Site) -> None:
    async with site.running():
        gated(site, node_selector={"zone": "a"})
        await site.until(lambda: "SlurmJobPending" in site.events("web"), "a word about it")
        assert any("No Node meets" in note for note in site.notes("web"))
        await asyncio.sleep(120)
        assert site.jobs_of("web") == []
        label(site, "n2", zone="a")
        assert await site.bound("web", within=3) == "n2"


async def test_a_node_that_kube_scheduler_refuses_after_the_grant_is_released(site: Site) -> None:
    async with site.running() as extender:
        spoilt: list[str] = []

        def spoil(event: PlaceholderChanged) -> None:
            after = event.after
            if after.state is State.GRANTED and not spoilt:
                spoilt.append(after.allocation[0][1])
                taint(site, spoilt[0], NO)

        extender.events.subscribe(PlaceholderChanged, spoil)
        gated(site)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=20)
        assert any("kube-scheduler reports: 0" in note for note in site.notes("web"))
        assert await site.bound("web", within=20) != spoilt[0]
        assert len(site.jobs_of("web")) == 1


async def test_when_every_node_is_refused_after_the_grant_the_pod_waits_and_is_placed_when_one_is_free(
    site: Site,
) -> None:
    async with site.running() as extender:
        spoilt: list[str] = []

        def spoil(event: PlaceholderChanged) -> None:
            after = event.after
            if after.state is State.GRANTED and not spoilt:
                spoilt.append(after.allocation[0][1])
                for node in NAMES:
                    taint(site, node, NO)

        extender.events.subscribe(PlaceholderChanged, spoil)
        gated(site)
        await site.until(lambda: "SlurmAllocationReleased" in site.events("web"), "the job is released", within=20)
        await site.until(lambda: not site.jobs_of("web"), "no job waits for no node", within=20)
        await asyncio.sleep(60)
        assert site.jobs_of("web") == []
        taint(site, "n3")
        assert await site.bound("web", within=20) == "n3"


async def test_a_grant_that_is_preempted_before_the_binding_is_requested_again_behind_the_gate(site: Site) -> None:
    async with site.running():
        site.kubelets.stop_s = 600.0
        for node in NAMES:  # kubelet's sums find no room, although Slurm does
            site.kube.add_pod(f"ends-{node}", node=node, scheduler="other", cpu="60", grace_s=600)
        await asyncio.sleep(2)
        for node in NAMES:
            site.kube.delete_pod(f"ends-{node}")
        gated(site, cpu="8")
        await site.until(lambda: any(job.state == "RUNNING" for job in site.jobs_of("web")), "the grant")
        (first,) = site.jobs_of("web")
        await asyncio.sleep(5)
        site.slurm.controller.preempt(first.job_id)
        await site.until(lambda: [job.job_id for job in site.jobs_of("web")] not in ([], [first.job_id]), "another job")
        assert gates(site) == [GATE]
        for node in NAMES:
            site.kube.delete_pod(f"ends-{node}", grace_s=0)
        await site.bound("web")
        assert len(site.jobs_of("web")) == 1


async def test_a_gate_taken_away_by_hand_lets_kube_scheduler_call_filter(site: Site) -> None:
    async with site.running():
        await site.fill()
        gated(site, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        job = site.jobs_of("web")[0].job_id
        site.edit_pod("web", lambda pod: pod["spec"].pop("schedulingGates"))
        await asyncio.sleep(30)
        assert [one.job_id for one in site.jobs_of("web")] == [job]
        site.kube.delete_pod("first-1", grace_s=1)
        assert await site.bound("web") == "n2"


async def test_a_pod_of_the_default_scheduler_is_not_kept_behind_the_gate(site: Site) -> None:
    async with site.running():
        gated(site, scheduler="default-scheduler")
        gated(site, "theirs", scheduler="another-slurm")
        await site.until(lambda: not gates(site), "the gate is gone", within=2)
        await asyncio.sleep(30)
        assert gates(site, "theirs") == [GATE]


async def test_a_pod_that_is_refused_stays_behind_the_gate_until_it_is_changed(site: Site) -> None:
    async with site.running(changed="jobs: {allow: []}\n"):
        gated(site, annotations={"slurm-extender.io/priority": "9"})
        await site.until(lambda: "InvalidSlurmSettings" in site.events("web"), "the refusal")
        assert gates(site) == [GATE]
        site.edit_pod("web", lambda pod: pod["metadata"].update(annotations={}))
        await site.bound("web", within=5)


async def test_a_restart_finds_the_job_of_a_gated_pod(site: Site) -> None:
    async with site.running():
        await site.fill()
        gated(site, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        job = site.jobs_of("web")[0].job_id
    taint(site, "n1", NO)
    async with site.running():
        await site.until(lambda: excluded(site) == {"n1"}, "what changed meanwhile is followed", within=60)
        await asyncio.sleep(60)
        assert [one.job_id for one in site.jobs_of("web")] == [job]
        assert gates(site) == [GATE]
        site.kube.delete_pod("first-2", grace_s=1)
        assert await site.bound("web") == "n3"


async def test_pods_that_wait_when_the_extender_starts_are_submitted_without_being_woken(site: Site) -> None:
    gated(site)
    gated(site, "other", "kueue.x-k8s.io/admission")
    async with site.running():
        await site.bound("web")
        await asyncio.sleep(30)
        assert "status.slurm-extender.io/requeued-at" not in (site.pod("other")["metadata"].get("annotations") or {})


async def test_a_pod_whose_gate_may_not_be_taken_away_gives_its_node_back_and_says_why(site: Site) -> None:
    closed = KubeFault("PATCH", "/pods/web$", code=403, reason="Forbidden", message="a webhook says no", times=None)
    async with site.running():
        site.kube.faults.add(closed)
        gated(site)
        await site.until(lambda: "PodPatchForbidden" in site.events("web"), "the Event", within=20)
        (job,) = site.jobs_of("web")
        site.kube.requests.clear()
        await site.until(lambda: job not in site.jobs_of("web"), "the end of its job", within=200)
        tried = [one for one in site.kube.requests if one.method == "PATCH" and one.path.endswith("/pods/web")]
        assert len(tried) < 20
        site.kube.faults.remove(closed)
        await site.bound("web", within=200)


async def test_a_pod_that_is_gone_before_its_gate_is_taken_away_is_not_written_to_indefinitely(site: Site) -> None:
    def written() -> list[object]:
        return [one for one in site.kube.requests if one.method == "PATCH" and one.path.endswith("/pods/web")]

    async with site.running():
        site.kube.faults.add(KubeFault("PATCH", "/pods/web$", code=None, delay_s=2))
        site.kube.create(pod_with(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
        await site.until(lambda: bool(written()), "the gate is to go", within=5)
        site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(20)
        site.kube.requests.clear()
        await asyncio.sleep(60)
        assert not written()


async def test_a_pod_that_a_list_lacks_gets_no_more_news_of_nodes(site: Site) -> None:
    async with site.running() as extender:
        await site.fill()
        gated(site, cpu="8")
        await site.until(lambda: bool(site.jobs_of("web")), "its job")
        uid = site.uid("web")
        expired = KubeFault("GET", "/api/v1/pods$", watch=True, code=410, reason="Expired", message="too old")
        site.kube.faults.add(expired)
        site.network.cut("kube", 6443)
        site.kube.delete_pod("web", grace_s=0)
        await site.until(lambda: extender.engine.placeholders.get(uid) is None, "nothing is known of it", within=200)
        assert expired.times == 0
        taint(site, "n1", NO)
        await asyncio.sleep(2)
        assert extender.engine.placeholders.get(uid) is None
