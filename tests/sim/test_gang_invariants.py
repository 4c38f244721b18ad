"""The checks of gangs report each violation: a client breaks every invariant once, as no extender may."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from extender.domain.nodes.removals import removal
from extender.domain.wellknown import DRAIN_PREFIX, GANG, GANG_NODES, GANG_RANK, GANG_RESTART, JOB_ID
from simulator.actors.gang_controllers import ATTEMPT, KUEUE_GATE, RING, GangControllers
from simulator.actors.gang_shapes import Gang, GangKind
from simulator.actors.operators import Operators
from simulator.cluster import simulated_cluster
from simulator.event_log import EventLog
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.gangs import MOST_GRANTS, GangInvariants
from simulator.invariants.invariant import Invariant
from simulator.invariants.records import workload_of
from simulator.kube.objects import Json
from simulator.kube.pods import pod_key
from simulator.quiescence import QuiescenceTracker
from simulator.slurm.records import SimJob
from simulator.virtual_time import run_virtual
from tests.builders.process_site import Site

Act = Callable[[Site, GangInvariants], Awaitable[None]]
NAMES = ("ring-0", "ring-1")


def broken_by(act: Act) -> set[Invariant]:
    """Return what is violated on a site whose gang of two is bound, and whose extender then does nothing any more."""

    async def main() -> set[Invariant]:
        async with simulated_cluster(Site) as site:
            event_log, quiescence = EventLog(), QuiescenceTracker()
            operators = Operators(site, random.Random(1), event_log, quiescence, 1.0)
            checker = InvariantChecker(site, event_log, quiescence, operators)
            controllers = GangControllers(site, random.Random(3), event_log, 1, 100.0, ("auto",), 3)
            invariants = GangInvariants(site, checker, controllers)
            checker.begin()
            controllers.begin()
            invariants.begin()
            async with site.running():
                fields = {"annotations": {}, "cpu": "1"}
                gang = controllers.gangs["ring"] = Gang("ring", GangKind.ANNOTATED, 2, fields, fits=True)
                while gang.made < gang.size:
                    controllers._reconcile(gang)
                for name in NAMES:
                    await site.bound(name)
                await asyncio.sleep(5)
                invariants.check()
                assert not {one.invariant for one in checker.violations} & OF_GANGS
                site.extender.engine.handle = lambda *_: None  # type: ignore[method-assign]
                await act(site, invariants)
            return {one.invariant for one in checker.violations if one.invariant in OF_GANGS}

    return run_virtual(main())


OF_GANGS = {
    Invariant.WHOLE_GANGS,
    Invariant.GANG_NODES,
    Invariant.RANKS,
    Invariant.SLOTS,
    Invariant.GANG_LOOP,
    Invariant.PROGRESS,
}


def job_of(site: Site) -> SimJob:
    return site.live_jobs()[0]


async def bind_another(site: Site, invariants: GangInvariants, node: str, rank: str, nodes: str) -> None:
    """Let a client bind a third Pod to a node of the gang's job."""
    site.kube.add_pod("ring-2", annotations={GANG: "ring"}, labels={RING: "ring"}, gates=["example.org/hold"])
    pod = site.pod("ring-2")
    invariants.controllers.keys[pod["metadata"]["uid"]] = next(iter(invariants.controllers.keys.values()))
    said = {JOB_ID: str(job_of(site).job_id), GANG_RANK: rank, GANG_NODES: nodes}
    body = {"metadata": {"name": "ring-2", "annotations": said}, "target": {"name": node}}
    ungate = {"spec": {"schedulingGates": None}}
    url = "http://kube:6443/api/v1/namespaces/default/pods/ring-2"
    async with site.client() as client:
        await client.patch(url, json=ungate, headers={"Content-Type": "application/merge-patch+json"})
        answer = await client.post(f"{url}/binding", json=body)
        assert answer.status_code in {200, 201}, answer.text


def test_a_member_that_is_bound_in_another_order_than_that_of_its_rank() -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        await bind_another(site, invariants, "n3", "0", "n1,n2")

    assert broken_by(act) == {Invariant.RANKS}


def test_two_members_in_one_slot() -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        await bind_another(site, invariants, "n1", "0", "n1,n2")

    assert broken_by(act) == {Invariant.SLOTS}


def test_workers_whose_leader_is_gone_are_not_expected_to_start() -> None:
    async def main() -> None:
        async with simulated_cluster(Site) as site:
            controllers = GangControllers(site, random.Random(3), EventLog(), 1, 100.0, ("auto",), 3)
            controllers.begin()
            gang = Gang("ring", GangKind.LEADER_READY, 3, {"annotations": {}, "cpu": "1"}, fits=True)
            controllers.gangs["ring"] = gang
            async with site.running():
                while gang.made < gang.size:
                    await asyncio.sleep(1)
                    controllers._reconcile(gang)
                assert controllers.is_complete(site.pod("ring-0-2"))
                site.kube.delete_pod("ring-0", grace_s=1)
                await site.gone("ring-0")
                assert not controllers.is_complete(site.pod("ring-0-2"))

    run_virtual(main())


async def bound_as_one(site: Site, controllers: GangControllers, gang: Gang) -> list[Json]:
    """Act as the controller of a gang until all members of its present generation are bound; return them."""
    while True:
        await asyncio.sleep(1)
        controllers._reconcile(gang)
        pods = [pod for pod in controllers._pods(gang) if pod["metadata"]["labels"][ATTEMPT] == str(gang.attempt)]
        if len(pods) == gang.size and all(pod["spec"].get("nodeName") for pod in pods):
            return pods


@pytest.mark.parametrize("kind", list(GangKind))
def test_a_gang_of_each_kind_has_one_job_and_its_members_the_key_of_that(kind: GangKind) -> None:
    async def main() -> None:
        async with simulated_cluster(Site) as site:
            controllers = GangControllers(site, random.Random(3), EventLog(), 1, 100.0, ("auto",), 3)
            controllers.begin()
            gang = controllers.gangs["ring"] = Gang("ring", kind, 3, {"annotations": {}, "cpu": "1"}, fits=True)
            async with site.running():
                pods = await asyncio.wait_for(bound_as_one(site, controllers, gang), 300)
                (job,) = site.live_jobs()
                assert {controllers.workload_of(pod["metadata"]["uid"]) for pod in pods} == {workload_of(job)}
                assert len(job.nodes) == 3

    run_virtual(main())


def test_a_packed_gang_is_no_larger_than_the_smallest_node_can_hold_where_slurm_may_put_all_of_it() -> None:
    async def main() -> list[int]:
        async with simulated_cluster(Site, allocatable={"n2": {"cpu": "6", "pods": "4"}}) as site:
            controllers = GangControllers(site, random.Random(3), EventLog(), 1, 100.0, ("auto",), 3)
            fields: list[Json] = [{"annotations": {}, "cpu": cpu, "memory": "1Gi"} for cpu in ("1", "2", "4")]
            return [controllers._most_packed(Gang("ring", GangKind.JOB, 6, one, fits=True)) for one in fields]

    assert run_virtual(main()) == [4, 3, 1]


def test_a_generation_that_adopts_a_job_and_of_which_one_member_stays_without_a_node() -> None:
    async def main() -> set[Invariant]:
        async with simulated_cluster(Site) as site:
            event_log, quiescence = EventLog(), QuiescenceTracker()
            operators = Operators(site, random.Random(1), event_log, quiescence, 1.0)
            checker = InvariantChecker(site, event_log, quiescence, operators)
            controllers = GangControllers(site, random.Random(3), event_log, 1, 100.0, ("auto",), 3)
            invariants = GangInvariants(site, checker, controllers)
            checker.begin()
            controllers.begin()
            invariants.begin()
            said = {GANG_RESTART: "keep-allocation"}
            gang = Gang("ring", GangKind.JOB_SET, 2, {"annotations": said, "cpu": "1"}, fits=True)
            controllers.gangs["ring"] = gang
            async with site.running():
                before = await asyncio.wait_for(bound_as_one(site, controllers, gang), 300)
                jobs = [job.job_id for job in site.live_jobs()]
                site.kube.delete_pod(before[0]["metadata"]["name"], grace_s=1)
                controllers._reconcile(gang)
                after = await asyncio.wait_for(bound_as_one(site, controllers, gang), 300)
                assert gang.attempt == 1
                assert [job.job_id for job in site.live_jobs()] == jobs
                (key,) = controllers.kept
                assert checker.kept_s(key) == site.configured().gangs.replace_within > checker.kept_s("another") == 0
                invariants.check()
                assert not {one.invariant for one in checker.violations} & OF_GANGS
                for _ in range(2):
                    uid = after[1]["metadata"]["uid"]
                    checker.pods[uid] = {**after[1], "spec": {**after[1]["spec"], "nodeName": ""}}
                    invariants.check()
                    await asyncio.sleep(30)
            return {one.invariant for one in checker.violations} & OF_GANGS

    assert run_virtual(main()) == {Invariant.WHOLE_GANGS}


@pytest.mark.parametrize("gated", [False, True])
def test_a_gang_of_which_one_member_stays_without_a_node_though_nothing_else_holds_it(gated: bool) -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        uid = site.pod("ring-1")["metadata"]["uid"]
        unbound = {"nodeName": "", "schedulingGates": [{"name": KUEUE_GATE}] if gated else []}
        for _ in range(2):
            pod = site.pod("ring-1")
            invariants.checker.pods[uid] = {**pod, "spec": pod["spec"] | unbound}
            invariants.check()
            await asyncio.sleep(30)

    assert broken_by(act) == (set() if gated else {Invariant.WHOLE_GANGS})


@pytest.mark.parametrize("kept", [False, True], ids=["", "for a removed Pod"])
def test_a_gang_of_which_a_restored_etcd_shows_one_member_unbound(kept: bool) -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        uid = site.pod("ring-1")["metadata"]["uid"]
        for _ in range(2):
            if kept:
                drain_for_removed(site)
            pod = site.pod("ring-1")
            invariants.checker.pods[uid] = {**pod, "spec": pod["spec"] | {"nodeName": ""}}
            invariants.check()
            await asyncio.sleep(30)

    assert broken_by(act) == (set() if kept else {Invariant.WHOLE_GANGS})


def drain_for_removed(site: Site) -> None:
    """Drain a node of the gang for a Pod that was removed without a report of its kubelet."""
    node = site.slurm.controller.nodes[job_of(site).nodes[0]]
    known = removal("uid-1", "default/web", node.name, 60, None)
    node.drained, node.reason = True, f"{DRAIN_PREFIX} [1] {known.text}"


@pytest.mark.parametrize("kept", [False, True], ids=["", "for a removed Pod"])
def test_nodes_that_a_gang_keeps_although_no_member_is_bound(kept: bool) -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        def unbind(pod: Json) -> None:
            del pod["spec"]["nodeName"]
            pod["spec"]["schedulingGates"] = [{"name": "example.org/hold"}]

        for name in NAMES:
            site.kube.change(pod_key("default", name), unbind)
        if kept:
            drain_for_removed(site)
        invariants.check()
        await asyncio.sleep(200)
        invariants.check()

    assert broken_by(act) == (set() if kept else {Invariant.GANG_NODES})


@pytest.mark.parametrize(("restores", "seconds", "late"), [(0, 700, True), (1, 700, False), (1, 1300, True)])
def test_a_gang_that_waits_although_nothing_prevents_it(restores: int, seconds: float, late: bool) -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        waiting = [site.pod(name) for name in NAMES]
        for pod in waiting:
            del pod["spec"]["nodeName"]
        site.kube.storage.restores, invariants.checker.can_start = restores, lambda _pod: True
        for after in (0, seconds):
            await asyncio.sleep(after)
            invariants.checker.pods |= {pod["metadata"]["uid"]: pod for pod in waiting}
            invariants.checker.check()

    assert broken_by(act) - {Invariant.GANG_NODES} == ({Invariant.PROGRESS} if late else set())


def test_a_gang_that_is_granted_again_and_again() -> None:
    async def act(site: Site, invariants: GangInvariants) -> None:
        await asyncio.sleep(400)
        job = replace(job_of(site))
        for _ in range(MOST_GRANTS + 1):
            invariants._on_job_event("started", job)

    assert broken_by(act) == {Invariant.GANG_LOOP}
