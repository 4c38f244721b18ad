"""The stores tell every change once, and find Pods by node."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from extender.domain.views import Container, NodeView, OwnerReference, PodView
from extender.kube.store import NodeStore, PodStore
from extender.kube.wire.meta import Identity
from extender.kube.wire.stream import UnreadableItem


def a_pod(name: str, version: int = 1, *, uid: str = "", node: str = "", phase: str = "Running") -> PodView:
    return PodView(
        uid=uid or f"uid-{name}",
        namespace="ns",
        name=name,
        resource_version=str(version),
        scheduler_name="slurm",
        node_name=node,
        phase=phase,
    )


class Told:
    """Writes down what callbacks are told."""

    def __init__(self, store: PodStore) -> None:
        self.changes: list[tuple[str, str]] = []
        store.on_change(self.take)

    def take(self, old: PodView | None, new: PodView | None) -> None:
        def say(pod: PodView | None) -> str:
            return f"{pod.name}@{pod.resource_version}" if pod else "-"

        self.changes.append((say(old), say(new)))


@pytest.fixture
def store() -> PodStore:
    return PodStore({"slurm"})


def test_it_is_synced_by_the_first_list_and_not_before(store: PodStore) -> None:
    store.changed(a_pod("a"))
    assert not store.synced
    store.replaced([], [])
    assert store.synced


def test_what_could_not_be_read_may_exist_until_it_is_gone(store: PodStore) -> None:
    store.replaced([a_pod("a")], [UnreadableItem(Identity("uid-b", "ns", "b"), "odd")])
    assert [store.may_exist(f"uid-{name}") for name in "abc"] == [True, True, False]
    store.removed("uid-b", None)
    assert not store.may_exist("uid-b")
    store.replaced([], [UnreadableItem(Identity(), "odd")])
    assert store.may_exist("uid-c")
    store.replaced([], [])
    assert not store.may_exist("uid-c")


async def test_a_waiter_for_the_sync_is_notified(store: PodStore) -> None:
    waiter = asyncio.create_task(store.wait_synced())
    await asyncio.sleep(0)
    assert not waiter.done()
    store.replaced([], [])
    await waiter


def test_a_list_reports_what_is_new_what_changed_and_what_is_gone(store: PodStore) -> None:
    store.replaced([a_pod("same"), a_pod("changed"), a_pod("gone")], [])
    told = Told(store)
    store.replaced([a_pod("same"), a_pod("changed", 2), a_pod("new")], [])
    assert told.changes == [("gone@1", "-"), ("changed@1", "changed@2"), ("-", "new@1")]


def test_callbacks_see_the_store_as_it_is_after_the_change(store: PodStore) -> None:
    seen: list[int] = []
    store.on_change(lambda old, new: seen.append(len(store)))
    store.changed(a_pod("a"))
    store.removed("uid-a", None)
    assert seen == [1, 0]


def test_a_removal_reports_the_last_state_first(store: PodStore) -> None:
    store.changed(a_pod("a", 1))
    told = Told(store)
    store.removed("uid-a", a_pod("a", 3, phase="Failed"))
    assert told.changes == [("a@1", "a@3"), ("a@3", "-")]


def test_a_removal_of_what_is_not_there_is_silent(store: PodStore) -> None:
    told = Told(store)
    store.removed("uid-a", a_pod("a"))
    assert told.changes == []
    assert store.get("uid-a") is None


def test_a_pod_made_again_under_its_name_is_another(store: PodStore) -> None:
    store.replaced([a_pod("a", uid="first")], [])
    told = Told(store)
    store.replaced([a_pod("a", 2, uid="second")], [])
    assert told.changes == [("a@1", "-"), ("-", "a@2")]


def test_a_pod_that_cannot_be_read_any_more_keeps_its_last_state(store: PodStore) -> None:
    store.replaced([a_pod("a"), a_pod("b")], [])
    store.replaced([], [UnreadableItem(Identity(uid="uid-a"), "odd")])
    assert store.get("uid-a") == a_pod("a")
    assert store.get("uid-b") is None


def test_an_object_without_any_identity_stops_all_removals(store: PodStore) -> None:
    store.replaced([a_pod("a"), a_pod("b")], [])
    store.replaced([a_pod("c")], [UnreadableItem(Identity(), "odd")])
    assert {pod.name for pod in store.all()} == {"a", "b", "c"}


def test_pods_are_found_by_node_while_they_are_bound_and_not_finished(store: PodStore) -> None:
    store.changed(a_pod("a"))
    assert store.on_node("n1") == ()
    store.changed(a_pod("a", 2, node="n1"))
    store.changed(a_pod("b", 1, node="n1"))
    assert {pod.name for pod in store.on_node("n1")} == {"a", "b"}
    store.changed(a_pod("a", 3, node="n1", phase="Succeeded"))
    store.removed("uid-b", None)
    assert store.on_node("n1") == ()
    assert store.get("uid-a") is not None


def test_pods_of_other_schedulers_keep_only_what_sums_and_mapping_need(store: PodStore) -> None:
    pod = PodView(
        uid="u",
        namespace="ns",
        name="p",
        scheduler_name="default-scheduler",
        labels={"app": "slurmd"},
        annotations={"big": "x" * 1000},
        owner=OwnerReference("apps/v1", "DaemonSet", "d", "o"),
        node_name="n1",
        containers=(Container("c", requests={"cpu": "1"}, limits={"cpu": "2"}),),
        overhead={"cpu": "100m"},
        of_its_node=True,
    )
    kept = store.keep(pod)
    assert (kept.annotations, kept.owner) == ({}, OwnerReference("", "DaemonSet", "", ""))
    assert store.keep(replace(pod, owner=OwnerReference("apps/v1", "ReplicaSet", "r", "o"))).owner is None
    assert kept.containers == (Container("c", requests={"cpu": "1"}),)
    assert kept.of_its_node
    assert (kept.labels, kept.node_name, kept.overhead) == ({"app": "slurmd"}, "n1", {"cpu": "100m"})
    ours = a_pod("a")
    assert store.keep(ours) is ours


def test_nodes_are_found_by_name_whatever_the_order_of_their_replacement() -> None:
    nodes = NodeStore()
    nodes.changed(NodeView("n1", uid="first", resource_version="1"))
    nodes.changed(NodeView("n1", uid="second", resource_version="2"))
    nodes.removed("first", None)
    found = nodes.named("n1")
    assert found is not None
    assert found.uid == "second"
    assert nodes.names() == {"n1"}
    nodes.removed("second", None)
    assert nodes.named("n1") is None
