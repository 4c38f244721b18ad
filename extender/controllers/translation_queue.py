"""Read the owners of Pods, and have the Pods translated. Owners that cannot be read keep no other Pods waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from extender.controllers.owner_rounds import Controllers
from extender.controllers.pod_adoption import OWNER_RETRY
from extender.domain.backoff import Backoff
from extender.domain.ports import Owners, PodCache, PortError
from extender.domain.views import PodView
from extender.runtime.controller import Controller

SLOW_READS = 2
"""Owners that are read at a time of those that may not answer."""


class TranslationQueue:
    """Pods that wait for their translation, each once and as it was seen last. Keys are UIDs.

    A Pod whose owner, or an API version of whose owners, did not answer lately waits in a queue of its own: such a
    request may take ten seconds. `is_wanted`: the Pod is there still. `translate` gets the Pod as it is by then.
    """

    def __init__(
        self,
        owners: Owners,
        cache: PodCache,
        *,
        is_wanted: Callable[[str], bool],
        translate: Callable[[PodView, Controllers], None],
    ) -> None:
        self._owners = owners
        self._cache = cache
        self._is_wanted = is_wanted
        self._translate = translate
        self._waiting: dict[str, PodView] = {}
        self._prompt = Controller("translation", self._at_once, flow_of=self._namespace_of, keep_early=True)
        self._slow = Controller(
            "translation of Pods whose owners do not answer",
            partial(self._read, patient=True),
            workers=SLOW_READS,
            flow_of=self._namespace_of,
            backoff=Backoff(OWNER_RETRY, OWNER_RETRY),
            keep_early=True,
        )

    def put(self, pod: PodView) -> None:
        """Have a Pod translated."""
        self._waiting[pod.uid] = pod
        self._prompt.add(pod.uid)

    async def run(self) -> None:
        """Translate Pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prompt.run(), name="translation")
            group.create_task(self._slow.run(), name="translation of Pods whose owners do not answer")

    def _namespace_of(self, uid: str) -> str:
        pod = self._waiting.get(uid)
        return "" if pod is None else pod.namespace

    async def _at_once(self, uid: str) -> None:
        try:
            await self._read(uid, patient=False)
        except PortError:
            self._slow.add(uid)

    async def _read(self, uid: str, *, patient: bool) -> None:
        """Translate a Pod as it was seen last, with what its owners say. Raises `PortError` where they are not read."""
        pod = self._waiting.get(uid)
        if pod is None or not self._is_wanted(uid):
            self._waiting.pop(uid, None)
            return  # it was removed meanwhile
        controllers: Controllers = ()
        if pod.owner is not None:
            controllers = await self._owners.controllers(pod.namespace, pod.owner, patient=patient)
        self._waiting.pop(uid, None)
        if self._is_wanted(uid):
            self._translate(self._cache.get(uid) or pod, controllers)
