"""Pods of some namespaces are mirrored by a list and a watch of each, which Roles there allow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from extender.domain.views import PodView
from extender.kube.namespaced_pods import NamespacedPods
from extender.kube.store import PodStore
from extender.kube.wire.meta import Identity
from extender.kube.wire.stream import UnreadableItem
from tests.builders.fake_api import FakeApi, a_rng, fake_api, running
from tests.builders.rights import namespaced_rights

pytestmark = pytest.mark.looptime
NAMESPACES = ("ml", "web")


@asynccontextmanager
async def mirrored(*namespaces: str) -> AsyncIterator[tuple[FakeApi, NamespacedPods, PodStore]]:
    async with fake_api() as api:
        for name in ("ml", "web", "others"):
            api.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            api.server.add_pod(f"of-{name}", name)
        pods = PodStore({"slurm"})
        reflectors = NamespacedPods(api.connection, namespaces, pods, rng=a_rng())
        async with running(reflectors.run()):
            yield api, reflectors, pods


def names(pods: PodStore) -> list[str]:
    return sorted(pod.name for pod in pods.all())


async def test_only_pods_of_these_namespaces_are_read_and_their_changes_seen() -> None:
    async with mirrored(*NAMESPACES) as (api, _, pods):
        await pods.wait_synced()
        assert names(pods) == ["of-ml", "of-web"]
        api.server.add_pod("new", "web")
        api.server.add_pod("new-elsewhere", "others")
        api.server.delete_pod("of-ml", "ml", grace_s=0)
        await asyncio.sleep(5)
        assert names(pods) == ["new", "of-web"]
        assert not [one.path for one in api.server.requests if one.path == "/api/v1/pods" or "others" in one.path]


async def test_a_list_of_one_namespace_removes_no_pod_of_another() -> None:
    async with mirrored(*NAMESPACES) as (api, reflectors, pods):
        await pods.wait_synced()
        absent: list[str] = []
        pods.on_absent(lambda gone: absent.extend(pod.name for pod in gone))
        api.refuse()
        api.cut()
        await asyncio.sleep(1)
        api.server.delete_pod("of-ml", "ml", grace_s=0)
        api.refuse(False)
        await reflectors.relist()
        assert (names(pods), absent) == (["of-web"], ["of-ml"])


async def test_the_roles_of_the_components_allow_each_of_these_requests_and_no_list_of_all_pods() -> None:
    rights = namespaced_rights("namespaced-rights", "namespaced-reads")
    async with mirrored("default") as (api, reflectors, pods):
        api.server.rbac = rights
        await reflectors.relist()
        api.server.add_pod("new")
        await asyncio.sleep(5)
        assert names(pods) == ["new"]
        assert reflectors.status.trouble == ""


async def test_a_namespace_that_may_not_be_read_is_named_and_keeps_the_pods_from_being_known() -> None:
    rights = namespaced_rights("namespaced-rights", "namespaced-reads")
    async with fake_api() as api:
        api.server.rbac = rights
        pods = PodStore({"slurm"})
        reflectors = NamespacedPods(api.connection, ("default", "closed"), pods, rng=a_rng())
        async with running(reflectors.run()):
            await asyncio.sleep(60)
            assert not pods.synced
            assert "/api/v1/namespaces/closed/pods" in reflectors.status.trouble
            assert reflectors.status.last_heard is None


async def test_the_status_adds_up_and_names_few_troubles() -> None:
    async with fake_api() as api:
        api.refuse()
        pods = PodStore({"slurm"})
        reflectors = NamespacedPods(api.connection, [f"n{number}" for number in range(9)], pods, rng=a_rng())
        async with running(reflectors.run()):
            await asyncio.sleep(5)
            assert reflectors.status.trouble.endswith(" and 6 more")
            api.refuse(False)
            await pods.wait_synced()
            await asyncio.sleep(1)
            assert (reflectors.status.lists, reflectors.status.trouble) == (9, "")


def a_pod(name: str, namespace: str) -> PodView:
    return PodView(uid=f"uid-{name}", namespace=namespace, name=name, resource_version="1", scheduler_name="slurm")


def unreadable(*uids: str) -> Sequence[UnreadableItem]:
    return [UnreadableItem(Identity(uid, "ns", uid), "odd") for uid in uids]


def test_what_could_not_be_read_is_kept_by_namespace() -> None:
    store = PodStore({"slurm"})
    store.replaced_in("ml", [a_pod("a", "ml")], unreadable("uid-b"), complete=False)
    store.replaced_in("web", [a_pod("c", "web")], unreadable(""), complete=True)
    assert store.may_exist("uid-b")
    assert store.may_exist("uid-unknown")
    store.replaced_in("ml", [], [], complete=True)
    assert store.get("uid-a") is None
    assert store.may_exist("uid-b"), "the other namespace has a Pod that could be any"
    store.replaced_in("web", [a_pod("c", "web")], [], complete=True)
    assert not store.may_exist("uid-b")


def test_a_pod_that_is_gone_before_all_were_listed_is_no_absent_one() -> None:
    store = PodStore({"slurm"})
    absent: list[PodView] = []
    store.on_absent(absent.extend)
    store.replaced_in("ml", [a_pod("a", "ml")], [], complete=False)
    store.replaced_in("ml", [], [], complete=False)
    assert (store.all(), absent, store.synced) == ((), [], False)
