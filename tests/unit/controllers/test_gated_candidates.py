"""Gated Pods of which each has a demand of its own cost bounded memory, and a look at each Node in a queue."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from extender.controllers.gated_candidates import IDLE_KEPT, GatedCandidates
from extender.controllers.scheduling import LISTS_KEPT
from extender.domain.placing.candidates import Demands, NeedsKubeScheduler, demands
from extender.domain.views import NodeTerm, NodeView, PodView, Requirement, Toleration
from extender.runtime import cooperative_yield
from tests.builders.pod_views import a_node, a_pod

pytestmark = pytest.mark.looptime

PODS = 2_000
NODES = 1_000


class GatedPods:
    """Keep the list that each Pod was notified of last, as workloads do; `held`: not at all."""

    def __init__(self, nodes: int, *, held: bool = True) -> None:
        self.nodes = {name: a_node(name, labels={"zone": "a"}) for name in (f"n{number}" for number in range(nodes))}
        self.lists: dict[str, frozenset[str]] = {}
        self.reports: list[str] = []
        self._held = held
        self.gated = GatedCandidates(self.nodes.values, lambda uid: uid, self._reported)

    def _reported(self, uids: Collection[str], nodes: frozenset[str]) -> None:
        self.reports += uids
        if self._held:
            self.lists |= dict.fromkeys(uids, nodes)

    def add(self, pods: Iterable[PodView]) -> None:
        for pod in pods:
            wanted = demands(pod)
            assert not isinstance(wanted, NeedsKubeScheduler)
            self.gated.join(pod, wanted)

    def change(self, name: str, **labels: str) -> None:
        old = self.nodes[name]
        self.nodes[name] = replace(old, labels=labels)
        self.gated.node_changed(old, self.nodes[name])

    def remove(self, name: str) -> None:
        self.gated.node_changed(self.nodes.pop(name), None)


@contextlib.asynccontextmanager
async def running(site: GatedPods) -> AsyncIterator[None]:
    task = asyncio.create_task(site.gated.run())
    await asyncio.sleep(1)
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each Node was compared with some demand."""
    found: Counter[str] = Counter()
    met_by = Demands.met_by

    def counted(wanted: Demands, node: NodeView) -> bool:
        found[node.name] += 1
        return met_by(wanted, node)

    monkeypatch.setattr(Demands, "met_by", counted)
    return found


def pod(number: int, namespace: str = "team", **fields: Any) -> PodView:
    return a_pod(uid=f"uid-{number}", name=f"web-{number}", namespace=namespace, **fields)


def tolerating(number: int) -> PodView:
    return pod(number, tolerations=(Toleration(f"nothing-has-{number}", "Exists"),))


def avoiding(number: int, *values: str) -> PodView:
    return pod(
        number, required_terms=(NodeTerm((), tuple(Requirement("metadata.name", "NotIn", (v,)) for v in values)),)
    )


def zoned(number: int, namespace: str = "team") -> PodView:
    return pod(number, namespace, node_selector={"zone": "a"})


def lists_kept() -> int:
    """Long lists of the names of Nodes that exist in the process."""
    gc.collect()
    return sum(1 for one in gc.get_objects() if isinstance(one, frozenset | set) and len(one) > 40 and "n1" in one)


async def test_pods_with_tolerations_of_their_own_share_one_list() -> None:
    site, before = GatedPods(NODES), lists_kept()
    async with running(site):
        site.add(tolerating(number) for number in range(PODS))
        await asyncio.sleep(1)
        assert len(site.lists) == PODS
        assert len({id(nodes) for nodes in site.lists.values()}) == 1
        assert lists_kept() == before + 1


async def test_pods_with_affinity_of_their_own_and_equal_lists_share_one_list() -> None:
    site = GatedPods(60)
    async with running(site):
        site.add(avoiding(number, f"no-node-{number}") for number in range(PODS))
        await asyncio.sleep(1)
        assert len(site.lists) == PODS
        assert len({id(nodes) for nodes in site.lists.values()}) == 1


async def test_different_lists_that_no_workload_holds_are_bounded() -> None:
    site, before = GatedPods(60, held=False), lists_kept()
    async with running(site):
        site.add(avoiding(number, f"n{number % 60}", f"n{number // 60 + 2}") for number in range(PODS))
        await asyncio.sleep(1)
        assert len(site.reports) == PODS
        assert lists_kept() - before <= LISTS_KEPT
        site.reports.clear()
        site.remove("n59")
        await asyncio.sleep(1)
        assert set(site.reports) == {f"uid-{number}" for number in range(PODS)} - without("n59")
        assert lists_kept() - before <= LISTS_KEPT


def without(name: str) -> set[str]:
    """The Pods of the test before that avoid this node: their lists do not change."""
    return {f"uid-{number}" for number in range(PODS) if name in (f"n{number % 60}", f"n{number // 60 + 2}")}


async def test_equal_pods_are_compared_once_with_each_node(compared: Counter[str]) -> None:
    site = GatedPods(20)
    async with running(site):
        site.add(zoned(number) for number in range(PODS))
        await asyncio.sleep(1)
        site.add([zoned(PODS)])
        assert set(site.lists[f"uid-{PODS}"]) == set(site.nodes), "known demands need no turn"
        assert set(compared.values()) == {1}


async def test_a_changed_node_is_compared_once_with_each_demand_and_no_other_node_is(compared: Counter[str]) -> None:
    site = GatedPods(20)
    async with running(site):
        site.add(tolerating(number) for number in range(100))
        site.add(zoned(number) for number in range(100, 200))
        await asyncio.sleep(1)
        compared.clear()
        site.change("n1", zone="b")
        site.change("n1", zone="c")
        await asyncio.sleep(1)
        assert compared == {"n1": 101}
        assert site.lists["uid-150"] == site.nodes.keys() - {"n1"}
        assert site.lists["uid-50"] == site.nodes.keys()


async def test_pods_and_nodes_are_compared_outside_of_the_callbacks(compared: Counter[str]) -> None:
    site = GatedPods(20)
    async with running(site):
        site.add(tolerating(number) for number in range(100))
        assert not compared
        await asyncio.sleep(1)
        compared.clear()
        site.change("n1", zone="b")
        assert not compared


async def test_namespaces_take_turns() -> None:
    site = GatedPods(20)
    async with running(site):
        site.add(tolerating(number) for number in range(500))
        site.add([zoned(500, "another")])
        await asyncio.sleep(1)
        assert site.reports.index("uid-500") <= 1


async def test_other_tasks_run_between_two_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)
    site, seen = GatedPods(20), []
    async with running(site):
        site.add([zoned(1)])
        for _ in range(5):
            await asyncio.sleep(0)
            seen.append(len(site.reports))
        await asyncio.sleep(1)
    assert seen == [0] * 5
    assert site.reports == ["uid-1"]


async def test_a_change_while_a_list_is_computed_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative_yield, "SLICE_S", -1.0)
    site = GatedPods(20)
    async with running(site):
        site.add([zoned(1)])
        for number in range(20):
            await asyncio.sleep(0)
            site.change(f"n{number}", zone="b" if number % 2 else "a")
        site.add([zoned(2)])
        await asyncio.sleep(1)
        expected = {name for name, node in site.nodes.items() if node.labels["zone"] == "a"}
        assert site.lists == {"uid-1": expected, "uid-2": expected}


async def test_demands_without_pods_follow_changes_and_the_last_few_are_kept() -> None:
    site = GatedPods(20)
    async with running(site):
        site.add([zoned(1)])
        await asyncio.sleep(1)
        site.gated.leave("uid-1")
        site.change("n1", zone="b")
        await asyncio.sleep(1)
        site.add([zoned(2)])
        await asyncio.sleep(1)
        assert site.lists["uid-2"] == site.nodes.keys() - {"n1"}
        for number in range(10, 300):
            site.add([tolerating(number)])
            site.gated.leave(f"uid-{number}")
        assert len(site.gated._waiting) == IDLE_KEPT + 1
        await asyncio.sleep(1)
