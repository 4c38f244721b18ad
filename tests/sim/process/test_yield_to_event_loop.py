"""A change of many Pods is handled in slices, and the event loop runs other tasks between. Here a slice is one Pod."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from extender.controllers.pods import PodController
from extender.domain.views import PodView
from extender.domain.wellknown import GATE
from extender.runtime import cooperative_yield
from simulator.kube.faults import KubeFault
from simulator.kube.objects import owner_reference
from tests.builders.process_site import NAMES as NODES
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

COUNT = 6
NAMES = [f"waits-{number}" for number in range(COUNT)]


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)


async def all_wait(site: Site, names: Iterable[str] = NAMES) -> None:
    """Pods that no node has room for, behind the gate."""
    await site.fill()
    for name in names:
        site.kube.add_pod(name, cpu="8", gates=(GATE,))
    await site.until(lambda: all(site.jobs_of(name) for name in names), "every job")


def avoids(site: Site) -> list[set[str]]:
    return [set(site.jobs_of(name)[0].excluded) for name in NAMES]


async def test_every_waiting_job_follows_a_change_of_nodes(site: Site) -> None:
    async with site.running():
        await all_wait(site)
        site.edit_node("n1", lambda node: node["spec"].update(unschedulable=True))
        await site.until(lambda: avoids(site) == [{"n1"}] * COUNT, "the cordoned node is avoided", within=10)


async def test_every_waiting_job_follows_a_change_of_the_mapping(site: Site) -> None:
    async with site.running():
        await all_wait(site)
        another = {"slurm-extender.io/slurm-node": "n9"}
        site.edit_node("n2", lambda node: node["metadata"].update(labels=another))
        await site.until(lambda: avoids(site) == [{"n2"}] * COUNT, "the node that is no Node's is avoided", within=10)


async def test_every_node_that_was_cordoned_meanwhile_is_drained_after_a_start(site: Site) -> None:
    for name in NODES:
        site.cordon(site.names.kube(name), True)
    async with site.running():
        await site.until(lambda: site.drained() == list(NODES), "every drain", within=10)


async def test_every_pod_of_the_process_before_is_adopted(site: Site) -> None:
    async with site.running():
        await all_wait(site)
    async with site.running():
        await site.until(lambda: all(site.placeholder(name).state == "WAITING" for name in NAMES), "every job", 30)
        assert len(site.live_jobs()) == 3 + COUNT
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: any(site.node_of(name) for name in NAMES), "room for one")


async def test_a_pod_that_leaves_while_the_others_are_adopted_is_forgotten(site: Site) -> None:
    async with site.running():
        await all_wait(site)
    async with site.running():
        site.kube.delete_pod(NAMES[-1], grace_s=0)
        await site.until(lambda: not site.jobs_of(NAMES[-1]), "the end of its job")
        assert len(site.live_jobs()) == 3 + COUNT - 1


async def test_every_job_that_is_cancelled_is_seen_while_all_states_are_gone_through(site: Site) -> None:
    async with site.running():
        for name in NAMES:
            site.kube.add_pod(name, gates=(GATE,), grace_s=1)
        for name in NAMES:
            await site.bound(name)
        for job in site.live_jobs():
            site.slurm.controller.cancel(job.job_id)
        for name in NAMES:
            await site.gone(name)


class Told:
    """Which Pods the watch's words of were passed on, and where the others had their turn in between."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.course: list[str] = []
        told = PodController._notified

        def noted(controller: PodController, old: PodView | None, new: PodView) -> None:
            self.course.append(new.name)
            asyncio.get_running_loop().call_soon(self.course.append, "")
            told(controller, old, new)

        patch.setattr(PodController, "_notified", noted)

    @property
    def longest(self) -> int:
        """The most Pods without a turn of the others."""
        longest = now = 0
        for name in self.course:
            now = now + 1 if name else 0
            longest = max(longest, now)
        return longest


async def test_the_others_have_their_turn_between_pods_that_changed_while_all_were_adopted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    async with site.running():
        await all_wait(site)
        site.kube.add_pod("owned", gates=(GATE,), cpu="8", owner=owner_reference(site.kube.create(owner)))
        await site.until(lambda: bool(site.jobs_of("owned")), "its job")
    site.kube.faults.add(KubeFault("GET", "replicasets", code=503, times=None))
    told = Told(monkeypatch)

    async def meanwhile() -> None:
        await asyncio.sleep(10)
        for name in NAMES[1:]:
            site.edit_pod(name, lambda pod: pod["metadata"].update(annotations={"slurm-extender.io/comment": "x"}))
        site.kube.delete_pod(NAMES[0], grace_s=0)
        site.kube.add_pod("new", cpu="8", gates=(GATE,))
        await asyncio.sleep(5)
        assert not told.course
        site.kube.faults.clear()

    changes = asyncio.create_task(meanwhile())
    async with site.running():
        await changes
        assert {*NAMES[1:], "new"} <= set(told.course)
        assert told.longest == 1
        await site.until(lambda: not site.jobs_of(NAMES[0]) and bool(site.jobs_of("new")), "the changes")
