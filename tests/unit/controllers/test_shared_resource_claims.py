"""The work for Pods that name the same ResourceClaims grows with their number, not with its square."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from extender.controllers.devices.member_devices import MemberDevices
from extender.controllers.devices.pod_devices import PodDevices
from extender.controllers.devices.resource_claim_releases import ResourceClaimController
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.ports import Announcer, DeviceCache
from extender.domain.views import PodResourceClaim, PodView
from extender.engine.placeholder_index import PlaceholderIndex
from extender.kube.store import PodStore
from extender.kube.wire.placing import MOST_RESOURCE_CLAIMS
from extender.runtime.topics import ResourceClaimChanged
from tests.builders.device_views import GPUS, a_resource_claim
from tests.builders.pod_views import a_pod

RESOURCE_CLAIMS = {name: a_resource_claim(name) for name in map("c{}".format, range(MOST_RESOURCE_CLAIMS))}
ENTRIES = tuple(PodResourceClaim(name, name) for name in RESOURCE_CLAIMS)


class CountedUsers:
    """Pods that name the same ResourceClaims, of which each second one has ended, and what was read of them."""

    def __init__(self, pods: int) -> None:
        self.read = 0
        self.store = PodStore({"slurm"})
        for at in range(pods):
            phase = "Succeeded" if at % 2 else "Pending"
            pod = a_pod(namespace="default", resource_claims=ENTRIES)
            self.store.changed(replace(pod, uid=f"u{at}", name=f"p{at}", phase=phase))
        devices = cast("DeviceCache", SimpleNamespace(resource_claim=lambda _, name: RESOURCE_CLAIMS.get(name)))
        placeholders = PlaceholderIndex()
        self.pods = PodDevices(
            GPUS,
            devices,
            self.store,
            placeholders,
            users_of_resource_claim=self.store.users_of_resource_claim,
            live_users_of_resource_claim=self.live,
            node_offers=lambda *_: False,
            scheduler="slurm",
        )
        unused: Any = None
        self.controller = ResourceClaimController(
            placeholders,
            self.pods,
            cast("MemberDevices", unused),
            devices,
            cast("Announcer", unused),
            find=lambda _uid: None,
            every=tuple,
            namespace_of=lambda _uid: "default",
            reconsider=self.reconsider,
            fresh=lambda: True,
            deferred=cast("DeferredPods", ()),
        )

    def live(self, namespace: str, name: str) -> Iterator[PodView]:
        for pod in self.store.live_users_of_resource_claim(namespace, name):
            self.read += 1
            yield pod

    def reconsider(self, pods: Sequence[PodView]) -> None:
        for pod in pods:
            completed = self.pods.completed(pod)
            assert completed is not None
            assert completed.resource_claim_gres is not None
            assert len(completed.resource_claim_gres.delegated) == MOST_RESOURCE_CLAIMS


def read_for_one_change(pods: int) -> int:
    users = CountedUsers(pods)
    old = RESOURCE_CLAIMS["c0"]
    users.controller.resource_claim_changed(ResourceClaimChanged(old, replace(old, constrained=True)))
    return users.read


def test_twice_as_many_pods_of_one_resource_claim_cost_twice_as_much_at_its_change() -> None:
    few, many = read_for_one_change(20), read_for_one_change(40)
    assert few <= 20 * 2 * MOST_RESOURCE_CLAIMS
    assert many <= 2.2 * few


def test_the_live_users_of_a_resource_claim_are_those_that_have_not_ended() -> None:
    store = PodStore({"slurm"})
    pod = replace(a_pod(namespace="default", resource_claims=ENTRIES[:1]), uid="u", resource_version="1")
    store.changed(pod)
    assert list(store.live_users_of_resource_claim("default", "c0")) == [pod]
    ended = replace(pod, phase="Failed", resource_version="2")
    store.changed(ended)
    assert list(store.live_users_of_resource_claim("default", "c0")) == []
    assert store.users_of_resource_claim("default", "c0") == (ended,)
    store.removed("u", None)
    assert store.users_of_resource_claim("default", "c0") == ()
