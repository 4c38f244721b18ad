"""A namespace with a great many Pods delays no Pod of another namespace."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.domain.wellknown import GATE
from extender.engine.wake_pacing import MOST_UNTRIED_S, UNTRIED, Wakes, Woken
from simulator.cluster import simulated_cluster
from simulator.kube.objects import owner_reference
from simulator.slurm.records import SimNode, SimPartition
from tests.builders.gang_pods import gang
from tests.builders.process_site import UNHURRIED, Site

pytestmark = pytest.mark.looptime

FLOOD = "kube-public"
MANY = 240
NEXT_FEW = 20
"""Two for each of the workers that submit jobs, and a few that were under way."""


def submitted(site: Site) -> list[str]:
    """Namespaces of the jobs, in the order of their submission."""
    return [job.name.partition("/")[0] for job in sorted(site.live_jobs(), key=lambda job: job.job_id)]


def owned(site: Site, namespace: str, name: str) -> dict[str, Any]:
    """An owner of its own, which has to be read before the Pod's job is known."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
        "status": {},
    }
    return {"owner": owner_reference(site.kube.create(owner))}


@pytest.mark.parametrize("with_owners", [False, True])
async def test_the_job_of_a_pod_is_among_the_next_few_however_many_pods_another_namespace_has(
    site: Site, with_owners: bool
) -> None:
    async with site.running():
        await site.fill()
        for number in range(MANY):
            more = owned(site, FLOOD, f"flood-{number}") if with_owners else {}
            site.kube.add_pod(f"flood-{number}", FLOOD, gates=(GATE,), cpu="8", **more)
        more = owned(site, "default", "innocent") if with_owners else {}
        site.kube.add_pod("innocent", gates=(GATE,), cpu="8", **more)
        await site.until(lambda: len(submitted(site)) >= MANY + 4, "all jobs", 300)
        order = submitted(site)[3:]
        assert order.index("default") <= NEXT_FEW


async def test_the_condition_of_a_pod_is_among_the_next_few_however_many_pods_another_namespace_has(
    site: Site,
) -> None:
    async with site.running():
        await site.fill()
        for number in range(MANY):
            site.kube.add_pod(f"flood-{number}", FLOOD, gates=(GATE,), cpu="8")
        site.kube.add_pod("innocent", gates=(GATE,), cpu="8")
        site.kube.requests.clear()
        await asyncio.sleep(120)
        written = [
            one.path for one in site.kube.requests if one.method == "PATCH" and one.path.endswith(("/status", "/pods"))
        ]
        of = [number for number, path in enumerate(written) if path.endswith("/innocent/status")]
        assert of
        assert of[0] <= NEXT_FEW


async def test_a_pod_of_another_scheduler_is_held_among_the_next_few_however_many_another_namespace_has() -> None:
    partitions = [SimPartition("batch", default=True), SimPartition("foreign", preempt_mode="")]
    nodes = [SimNode(name, cpus=200) for name in ("n1", "n2")]
    room = {node.name: {"cpu": "200", "memory": "400Gi", "pods": "250"} for node in nodes}
    async with simulated_cluster(Site, nodes=nodes, partitions=partitions, allocatable=room) as site:
        site.config = UNHURRIED + "foreignPods: {mode: jobs, partition: foreign}\n"
        await foreign_pods_take_turns(site)


async def foreign_pods_take_turns(site: Site) -> None:
    async with site.running():
        for number in range(100):
            site.kube.add_pod(f"flood-{number}", FLOOD, scheduler="default-scheduler", node="n1", cpu="10m")
        site.kube.add_pod("innocent", scheduler="default-scheduler", node="n2", cpu="1")
        await site.until(lambda: len(submitted(site)) >= 101, "all jobs", 300)
        assert submitted(site).index("default") <= NEXT_FEW


async def test_the_job_of_a_deleted_pod_is_cancelled_among_the_next_however_many_another_namespace_deletes(
    site: Site,
) -> None:
    async with site.running():
        await site.fill()
        for number in range(MANY):
            site.kube.add_pod(f"flood-{number}", FLOOD, gates=(GATE,), cpu="8")
        site.kube.add_pod("innocent", gates=(GATE,), cpu="8")
        await site.until(lambda: len(submitted(site)) >= MANY + 4, "all jobs", 300)
        own = {job.job_id for job in site.live_jobs() if job.name.startswith(("default/innocent", FLOOD))}
        for number in range(MANY):
            site.kube.delete_pod(f"flood-{number}", FLOOD)
        site.kube.delete_pod("innocent")
        await site.until(lambda: not own & {job.job_id for job in site.live_jobs()}, "all cancelled", 300)
        ended = {job.job_id: job.end_time for job in site.jobs() if job.job_id in own}
        (innocent,) = (job.job_id for job in site.jobs() if job.job_id in own and job.name.startswith("default/"))
        assert sum(at < ended[innocent] for at in ended.values()) <= 2 * NEXT_FEW


def gated(site: Site, names: list[str]) -> int:
    """Return how many of these Pods have not been woken."""
    pods = [site.kube.pod(name, FLOOD) for name in names]
    return sum(bool(pod and pod["spec"].get("schedulingGates")) for pod in pods)


@pytest.mark.parametrize("kept", [False, True], ids=["", "kept"])
async def test_pods_with_nodes_wake_a_few_at_a_time_and_not_where_their_node_is_kept_meanwhile(kept: bool) -> None:
    room = {"n1": {"cpu": "200", "memory": "400Gi", "pods": "250"}}
    async with simulated_cluster(Site, nodes=[SimNode("n1", cpus=200)], allocatable=room) as site, site.running():
        site.kube.add_pod("web")
        await site.bound("web")
        await asyncio.sleep(5)
        names = [f"flood-{number}" for number in range(3 * UNTRIED)]
        site.network.refuse("extender", 8080)  # so that kube-scheduler cannot try them
        site.network.cut("extender", 8080)
        for name in names:
            site.kube.add_pod(name, FLOOD, gates=(GATE,), cpu="1")
        await site.until(lambda: gated(site, names) <= len(names) - UNTRIED, "the first ones", every=0.001)
        await asyncio.sleep(0.2)
        assert gated(site, names) == len(names) - UNTRIED
        if kept:
            site.kube.delete_pod("web", grace_s=0)
        await asyncio.sleep(3 * MOST_UNTRIED_S)
        assert gated(site, names) == (len(names) - UNTRIED if kept else 0)
        site.network.refuse("extender", 8080, refused=False)
        await site.until(lambda: all(placed(site, name) for name in names), "their Bindings", 600)


def placed(site: Site, name: str) -> bool:
    pod = site.kube.pod(name, FLOOD)
    return pod is not None and bool(pod["spec"].get("nodeName"))


async def test_a_successor_whose_wake_up_is_held_while_its_node_is_full_is_placed_when_there_is_room(
    site: Site,
) -> None:
    async with site.running():
        for name in gang(site, range(3), 3):
            await site.bound(name)
        await asyncio.sleep(1)
        site.kube.delete_pod("ring-1", grace_s=1)
        await site.gone("ring-1")
        engine = site.extender.engine
        now = engine._clock.now()
        untried = {f"other-{number}": Woken(now, gated=False) for number in range(UNTRIED)}
        engine._dispatcher._wakes._of["default"] = Wakes(untried=untried, at=now)  # as if these were woken just now
        gang(site, range(1, 2), 3, gates=(GATE,))
        await site.until(lambda: site.placeholder("ring-0").cleared, "its grant", every=0.002)
        site.kube.add_pod("foreign", scheduler="another", node="n2", cpu="64")
        await asyncio.sleep(4)
        assert not site.node_of("ring-1")
        site.kube.delete_pod("foreign", grace_s=1)
        await site.bound("ring-1", within=200)
