"""The checker reports each violation: a client breaks every invariant once, as no extender may."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from extender.domain.foreign_pods.mark import ForeignPodMark, encode_foreign_pod_mark
from simulator.actors.maintenance import MaintenanceOperators
from simulator.actors.operators import Operators
from simulator.actors.pod_policies import VARIANTS, PolicyEditor
from simulator.cluster import simulated_cluster
from simulator.event_log import EventLog
from simulator.invariants.checker import InvariantChecker
from simulator.invariants.foreign_pods import ForeignPodInvariants
from simulator.invariants.invariant import Invariant
from simulator.invariants.node_sharing import NodeSharingChecks
from simulator.invariants.nodes import NodeInvariants
from simulator.kube import pods
from simulator.kube.pods import pod_key
from simulator.quiescence import QuiescenceTracker
from simulator.virtual_time import run_virtual
from tests.builders.process_site import NAMES, Site


@asynccontextmanager
async def checked_site() -> AsyncIterator[tuple[Site, InvariantChecker]]:
    """A running extender, a Pod `web` on its node, and an invariant checker."""
    async with simulated_cluster(Site) as site:
        event_log, quiescence = EventLog(), QuiescenceTracker()
        checker = InvariantChecker(
            site, event_log, quiescence, Operators(site, random.Random(1), event_log, quiescence, 1.0)
        )
        checker.begin()
        NodeInvariants(site, checker).begin()
        ForeignPodInvariants(site, checker).begin()
        async with site.running():
            site.kube.add_pod("web", annotations={"slurm-extender.io/mode": "batch"})
            await site.bound("web")
            await asyncio.sleep(5)
            checker.check()
            assert not checker.violations
            yield site, checker


def broken_by(act: Callable[[Site, InvariantChecker], Awaitable[None]]) -> set[Invariant]:
    async def main() -> set[Invariant]:
        async with checked_site() as (site, checker):
            await act(site, checker)
            for one in checker.violations:
                assert one.events
            return {one.invariant for one in checker.violations}

    return run_virtual(main())


def test_a_job_of_another_user_that_a_client_cancels() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        number = await site.submit_as_another_user()
        await asyncio.sleep(2)
        await site.slurm_request("DELETE", "jobs", {"jobs": [str(number)]})

    assert broken_by(act) == {Invariant.NATIVE_JOBS}


def test_the_job_of_a_running_pod_that_a_client_cancels() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        await site.slurm_request("DELETE", "jobs", {"jobs": [str(site.live_jobs()[0].job_id)]})

    assert Invariant.TRUTH in broken_by(act)


def test_a_running_pod_that_a_client_deletes_although_its_job_runs() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        async with site.client() as client:
            await client.delete("http://kube:6443/api/v1/namespaces/default/pods/web")

    assert Invariant.TRUTH in broken_by(act)


def test_a_drain_of_an_operator_that_is_lifted() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        site.slurm.controller.drain("n1", "disk")
        checker.operators.drains["n1"] = "disk"
        checker.check()
        await asyncio.sleep(6)
        site.slurm.controller.undrain("n1")
        checker.check()
        await asyncio.sleep(1)
        checker.check()

    assert broken_by(act) == {Invariant.FOREIGN_DRAINS}


@pytest.mark.parametrize("full", [True, False])
def test_a_drain_for_want_of_room_that_stays_when_there_is_room(full: bool) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        node = next(name for name in NAMES if name != site.node_of("web"))
        site.kube.add_pod("other", scheduler="default-scheduler", node=node, cpu="1")
        job = site.slurm.controller.jobs[
            await site.submit_as_another_user(0, {"cpus_per_task": 8, "required_nodes": [node]})
        ]
        await site.until(lambda: job.running, "its start")
        site.slurm.controller.drain(node, "slurm-extender: [01234567] Slurm has no room for default/other on this node")
        if not full:
            site.slurm.controller.end(job.job_id, "COMPLETED")
        await asyncio.sleep(6)
        checker.check()
        await asyncio.sleep(200)
        checker.check()

    assert (Invariant.NO_DRAIN_LEFT in broken_by(act)) is not full


def test_a_word_about_a_failing_node_that_a_client_overwrites() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        upkeep = MaintenanceOperators(site, random.Random(1), checker, 1.0)
        upkeep.begin()
        site.slurm.controller.fail("n1", "fan")
        checker.operators.failing["n1"] = "fan"
        upkeep._failed_at["n1"] = site.slurm.controller.timers.wall()
        checker.check()
        await asyncio.sleep(6)
        site.slurm.controller.drain("n1", "slurm-extender: Node n1 is cordoned")
        checker.check()
        await asyncio.sleep(1)
        checker.check()

    assert Invariant.FOREIGN_DRAINS in broken_by(act)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_policy_that_is_not_followed(tmp_path: Path, allowed: bool) -> None:
    file = tmp_path / "policy.yaml"

    async def act(site: Site, checker: InvariantChecker) -> None:
        policies = PolicyEditor(site, random.Random(1), checker, file, 1.0)
        policies.begin()
        for name in NAMES:
            site.slurm.controller.drain(name, "disk")
        annotations = {"slurm-extender.io/mode": "batch"}
        if allowed:
            annotations["slurm-extender.io/time-limit"] = "soon"  # refused, though not by the policy
        site.kube.add_pod("waits", annotations=annotations)
        await asyncio.sleep(30)
        if not allowed:
            policies._write(VARIANTS[-1])
        checker.check()
        await asyncio.sleep(150)
        checker.check()
        await asyncio.sleep(150)
        checker.check()

    assert Invariant.POLICY in broken_by(act)


def test_a_cordon_of_an_operator_that_a_client_lifts() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        site.cordon("n1")
        await asyncio.sleep(2)
        async with site.client() as client:
            headers = {"Content-Type": "application/merge-patch+json"}
            patch = '{"spec": {"unschedulable": null}}'
            await client.patch("http://kube:6443/api/v1/nodes/n1", content=patch, headers=headers)

    assert broken_by(act) == {Invariant.FOREIGN_CORDONS}


@pytest.mark.parametrize("seconds", [60.0, 300.0])
@pytest.mark.parametrize("side", ["slurm", "kube"])
def test_a_node_whose_state_reaches_one_side_only(side: str, seconds: float) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        checker.cluster.extender.node_controllers.marks._owed = lambda node: (None, None)  # type: ignore[method-assign]
        checker.cluster.extender.node_controllers.health._hold = lambda *_: None  # type: ignore[method-assign]
        if side == "slurm":
            site.slurm.controller.drain("n1", "disk")
        else:
            site.cordon("n1")
        checker.check()
        await asyncio.sleep(seconds)
        checker.check()

    assert broken_by(act) == ({Invariant.SAME_NODE_STATE} if seconds > 120 else set())


def test_a_node_that_does_not_answer_for_a_moment_now_and_then() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        node = site.slurm.controller.nodes["n1"]
        for _ in range(3):
            node.silent = True
            checker.check()
            await asyncio.sleep(0.5)
            node.silent = False
            checker.check()
            await asyncio.sleep(130)

    assert broken_by(act) == set()


@pytest.mark.parametrize("seconds", [60.0, 300.0])
def test_a_second_live_job_of_a_pod_that_stays(seconds: float) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        first = site.live_jobs()[0]
        checker.cluster.extender.engine.handle = lambda *_: None  # type: ignore[method-assign]
        site.slurm.controller.submit(replace(first, state="PENDING", nodes=(), start_time=0.0, flags=set()))
        checker.check()
        await asyncio.sleep(seconds)
        checker.check()

    assert broken_by(act) == ({Invariant.ONE_JOB} if seconds > 180 else set())


def test_a_job_that_starts_beside_a_pod_whose_job_was_given_up_long_ago() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        site.kubelets.take_down(site.node_of("web"))
        site.slurm.controller.end(site.live_jobs()[0].job_id, "TIMEOUT")
        await asyncio.sleep(60)
        assert not checker.violations
        node = site.drained()[0]
        for _ in range(3):
            job = await site.submit_as_another_user()
            site.slurm.controller.jobs[job].cpus_per_node = 8
        site.network.refuse("slurm", 6820)  # or the extender would drain the node again at once
        site.network.cut("slurm", 6820)
        site.slurm.controller.undrain(node)
        await asyncio.sleep(2)

    assert Invariant.FENCE in broken_by(act)


def test_a_pod_that_had_ended_and_that_a_restored_etcd_shows_running_blocks_no_pod() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        saved = site.kube.storage.save()
        job = site.live_jobs()[0]
        site.kube.delete_pod("web", grace_s=1)
        await site.gone("web")
        await asyncio.sleep(5)
        site.kube.storage.restore(saved)
        site.slurm.controller.jobs.pop(job.job_id)
        NodeSharingChecks(checker).check_start(job.nodes[0], "a job", (7, "another"), by_slurm=True)
        assert not checker.windows

    assert broken_by(act) == set()


@pytest.mark.parametrize(("came", "seconds"), [("after", 1.0), ("after", 20.0), ("before", 1.0)])
def test_a_pod_that_was_bound_after_its_job_was_lost_and_before_any_poll_could_see_that(
    came: str, seconds: float
) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        await asyncio.sleep(30)
        (job,), now = site.live_jobs(), asyncio.get_running_loop().time()
        site.slurm.controller.forget(job.job_id)
        (end,) = checker.job_ends.values()
        end.at = now - seconds
        checker.job_starts[7, "another"] = end.at + 0.1
        checker.arrivals[site.uid("web")] = end.at + (0.5 if came == "after" else -0.5)
        NodeSharingChecks(checker).check_start(job.nodes[0], "Pod next", (7, "another"))
        assert len(checker.windows) == (came == "after" and seconds < 10)

    assert (Invariant.FENCE in broken_by(act)) == (came == "before" or seconds > 10)


@pytest.mark.parametrize("before", [True, False])
def test_a_pod_is_no_next_one_where_its_job_began_before_the_other_ended(before: bool) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        job = site.live_jobs()[0]
        site.kubelets.take_down(job.nodes[0])
        if before:
            checker.job_starts[7, "another"] = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        site.slurm.controller.end(job.job_id, "TIMEOUT")
        await asyncio.sleep(0.01)
        if not before:
            checker.job_starts[7, "another"] = asyncio.get_running_loop().time()
        NodeSharingChecks(checker).check_start(job.nodes[0], "Pod other", (7, "another"))

    assert broken_by(act) == (set() if before else {Invariant.FENCE})


@pytest.mark.parametrize("late", [True, False])
def test_a_pod_that_is_bound_where_kubelet_has_no_room(late: bool) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        node = site.node_of("web")
        site.kube.add_pod("daemon", scheduler="other", node=node, cpu="60")
        await asyncio.sleep(5 if late else 0.5)
        site.kube.add_pod("next", cpu="8", gates=["held"])
        key = pod_key("default", "next")
        site.kube.change(key, lambda pod: pod["spec"].pop("schedulingGates"))
        pods.bind(site.kube.storage, key, {"metadata": {"name": "next"}, "target": {"name": node}}, 0.0)
        assert checker.windows.total() == (0 if late else 1)

    assert broken_by(act) == ({Invariant.ROOM} if late else set())


@pytest.mark.parametrize("seconds", [5.0, 30.0])
@pytest.mark.parametrize("how", ["removed", "finished"])
def test_a_pod_that_a_restored_etcd_brings_back_is_known_once_the_pods_were_listed_again(
    how: str, seconds: float
) -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        node = site.node_of("web")
        site.kube.add_pod("daemon", scheduler="other", node=node, cpu="60")
        await asyncio.sleep(30)
        saved = site.kube.storage.save()
        if how == "removed":
            site.kube.delete_pod("daemon", grace_s=0)
        else:
            site.edit_pod("daemon", lambda pod: pod["status"].update(phase="Succeeded", containerStatuses=[]))
        await asyncio.sleep(5)
        site.kube.storage.restore(saved, bump=False)
        await asyncio.sleep(seconds)
        site.kube.add_pod("next", cpu="8", gates=["held"])
        key = pod_key("default", "next")
        site.kube.change(key, lambda pod: pod["spec"].pop("schedulingGates"))
        pods.bind(site.kube.storage, key, {"metadata": {"name": "next"}, "target": {"name": node}}, 0.0)

    assert (Invariant.ROOM in broken_by(act)) == (seconds > 20)


def test_a_pod_of_another_scheduler_that_slurm_holds_nothing_for() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        node = next(name for name in NAMES if name != site.node_of("web"))
        site.kube.add_pod("other", scheduler="default-scheduler", node=node)
        for _ in range(20):
            await asyncio.sleep(5)
            checker.check()

    assert broken_by(act) == {Invariant.HELD}


def test_what_is_held_for_a_pod_of_another_scheduler_and_a_client_cancels() -> None:
    async def act(site: Site, checker: InvariantChecker) -> None:
        pod = site.kube.add_pod("other", scheduler="default-scheduler", node="n3")
        mark = encode_foreign_pod_mark(
            ForeignPodMark("another", "slurm", pod["metadata"]["uid"], "n3", "1/1024", "default/other")
        )
        wishes = {"flags": ["EXTERNAL_JOB"], "required_nodes": ["n3"], "admin_comment": mark}
        number = await site.submit_as_another_user(wishes=wishes)
        await asyncio.sleep(2)
        await site.slurm_request("DELETE", "jobs", {"jobs": [str(number)]})

    assert broken_by(act) == {Invariant.TRUTH}
