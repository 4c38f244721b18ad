"""Work on many Pods is done in slices, others having their turn between them: here each Pod is a slice of its own."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from extender.domain.wellknown import GATE
from extender.engine import turns
from tests.builders.process_site import Site

pytestmark = pytest.mark.looptime

COUNT = 6
NAMES = [f"waits-{number}" for number in range(COUNT)]


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE_S", -1.0)


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
        another = {"slurm-extender.io/slurm-node": "n1"}
        site.edit_node("n2", lambda node: node["metadata"].update(labels=another))
        await site.until(lambda: avoids(site) == [{"n2"}] * COUNT, "the node that is no Node's is avoided", within=10)


async def test_every_pod_of_the_process_before_is_taken_up(site: Site) -> None:
    async with site.running():
        await all_wait(site)
    async with site.running():
        await site.until(lambda: all(site.placeholder(name).state == "WAITING" for name in NAMES), "every job", 30)
        assert len(site.live_jobs()) == 3 + COUNT
        site.kube.delete_pod("first-0", grace_s=1)
        await site.until(lambda: any(site.node_of(name) for name in NAMES), "room for one")


async def test_a_pod_that_leaves_while_the_others_are_taken_up_is_forgotten(site: Site) -> None:
    async with site.running():
        await all_wait(site)
    async with site.running():
        site.kube.delete_pod(NAMES[-1], grace_s=0)
        await site.until(lambda: not site.jobs_of(NAMES[-1]), "the end of its job")
        assert len(site.live_jobs()) == 3 + COUNT - 1
