"""The adoption of Pods whose owners could not be read at the start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from extender.controllers.owner_rounds import Controllers
from extender.controllers.pod_adoption import PodAdoption
from extender.domain.pods.allocation_record import AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods
from extender.domain.renewal import replace
from extender.domain.views import OwnerReference, PodView
from tests.builders.fake_api import LoopClock

pytestmark = pytest.mark.looptime


class PatchedCache:
    """A cache in which the Pod `busy` is another one at each look."""

    def __init__(self, pods: list[PodView]) -> None:
        self._pods = {pod.uid: pod for pod in pods}
        self._looks = 0

    def get(self, uid: str) -> PodView:
        self._looks += 1
        assert self._looks < 1000
        pod = self._pods[uid]
        return replace(pod, labels={"seen": str(self._looks)}) if uid == "busy" else pod


class ReadableOwners:
    async def controllers(self, _namespace: str, _owner: OwnerReference, *, patient: bool = True) -> Controllers:
        return ()


def an_adoption(pods: list[PodView]) -> PodAdoption:
    deferred = DeferredPods()
    for pod in pods:
        deferred.put(pod, "why")
    parts: dict[str, Any] = {
        "engine": SimpleNamespace(placeholders={}),
        "announcer": None,
        "gangs": SimpleNamespace(key_of=lambda *_: None, lacks=lambda *_: False),
        "translations": SimpleNamespace(charged=lambda *_: None),
        "cache": PatchedCache(pods),
    }
    return PodAdoption(
        **parts,
        owners=ReadableOwners(),
        clock=LoopClock(),
        allocation_records=AllocationRecords([b"key"], "cluster"),
        deferred=deferred,
        pods_of=lambda _key: (),
        fresh=lambda: True,
    )


async def test_a_pod_that_is_patched_without_end_keeps_no_other_deferred_pod_waiting() -> None:
    owner = OwnerReference("v1", "Kind", "owner", "owner")
    pods = [PodView(uid, "default", uid, owner=owner) for uid in ("busy", "quiet")]
    workloads, again_after = await an_adoption(pods).again()
    assert {key: [pod.uid for pod, _ in found] for key, found in workloads.items()} == {"quiet": ["quiet"]}
    assert again_after is not None
