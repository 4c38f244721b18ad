"""Owners that cannot be read keep no other Pods from their translation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from extender.controllers.owner_rounds import Controllers
from extender.controllers.translation_queue import TranslationQueue
from extender.domain.ports import PortError
from extender.domain.views import OwnerReference, PodView
from extender.kube.store import PodStore
from tests.builders.pod_views import a_pod

pytestmark = pytest.mark.looptime
HANGS_S = 10.0


class ApiServer:
    """Answers for good owners. Bad ones cost the whole time once; then only patient callers wait for them."""

    def __init__(self) -> None:
        self.away = True
        self._doubted = False

    async def controllers(self, _namespace: str, owner: OwnerReference, *, patient: bool = True) -> Controllers:
        if self.away and owner.name.startswith("bad"):
            if patient or not self._doubted:
                await asyncio.sleep(HANGS_S)
            self._doubted = True
            raise PortError("no answer")
        return ()


def owned(name: str, namespace: str) -> PodView:
    return a_pod(uid=name, name=name, namespace=namespace, owner=OwnerReference("x.io/v1", "Kind", name, f"uid-{name}"))


@contextlib.asynccontextmanager
async def a_queue(api: ApiServer, translated: list[str]) -> AsyncIterator[TranslationQueue]:
    queue = TranslationQueue(
        api,
        PodStore({"slurm"}),
        is_wanted=lambda _uid: True,
        translate=lambda pod, _controllers: translated.append(pod.name),
    )
    task = asyncio.create_task(queue.run())
    yield queue
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_many_pods_whose_owners_hang_delay_others_by_one_request() -> None:
    translated: list[str] = []
    async with a_queue(ApiServer(), translated) as queue:
        for number in range(50):
            queue.put(owned(f"bad-{number}", "a"))
        for number in range(500):
            queue.put(owned(f"good-{number}", "b"))
        await asyncio.sleep(HANGS_S + 1)
        assert len(translated) == 500


async def test_a_pod_is_translated_once_its_owner_can_be_read() -> None:
    api, translated = ApiServer(), list[str]()
    async with a_queue(api, translated) as queue:
        queue.put(owned("bad", "a"))
        await asyncio.sleep(60)
        assert translated == []
        api.away = False
        await asyncio.sleep(2 * HANGS_S)
        assert translated == ["bad"]
