"""Log what would be requested from Slurm for each Pod: `serve --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import structlog

from extender.controllers.translations import Translations
from extender.domain.events import MemberRef
from extender.domain.jobs.job import JobRequest
from extender.domain.ports import Owners, PodCache, PortError
from extender.domain.translation.translate import Translation, TranslationRefused
from extender.domain.verdict import FilterVerdict, Pass, Wait
from extender.domain.views import PodView
from extender.runtime.controller import Controller, Requeue, Resync

_log = structlog.get_logger(__name__)

CHECK_EVERY = 1.0
"""Seconds between two looks at what changed."""

DRY_TEXT = "the extender runs dry: it looks, and asks Slurm for nothing"


class DryRun:
    """Translate every Pod of this scheduler without a Node, and logs the outcome whenever it changes."""

    def __init__(
        self,
        pods: Callable[[], Sequence[PodView]],
        cache: PodCache,
        owners: Owners,
        translations: Translations,
        scheduler: str,
    ) -> None:
        self._pods = pods
        self._cache = cache
        self._owners = owners
        self._translations = translations
        self._scheduler = scheduler
        self._said: dict[str, Translation] = {}
        self._seen: dict[str, PodView] = {}
        self._controller = Controller("dry run", self._reconcile, resync=Resync(lambda: ("all",)))
        self.done: Counter[str] = Counter()
        """Translations by what would have come of them: `submitted`, `refused`."""

    async def run(self) -> None:
        """Translate until cancelled."""
        await self._controller.run()

    async def _reconcile(self, _all: str) -> Requeue:
        if self._cache.synced:
            await self.check()
        return Requeue(CHECK_EVERY)

    async def check(self) -> None:
        """Translate what is new or was changed."""
        waiting = {pod.uid: pod for pod in self._pods() if self._ours(pod)}
        for uid in self._seen.keys() - waiting.keys():
            del self._seen[uid]
        for uid in self._said.keys() - waiting.keys():
            del self._said[uid]
        for pod in waiting.values():
            await self._dry_run(pod)

    def reconsider(self, _namespace: str | None = None) -> None:
        """The policy is another one."""
        self._seen.clear()

    def waiting(self) -> Mapping[str, int]:
        """Pods without a node, by what would have come of them."""
        refused = sum(isinstance(one, TranslationRefused) for one in self._said.values())
        return {"submitted": len(self._said) - refused, "refused": refused}

    def _ours(self, pod: PodView) -> bool:
        mine = pod.scheduler_name == self._scheduler
        return mine and not pod.node_name and pod.deleted_at is None and not pod.finished

    async def _dry_run(self, pod: PodView) -> None:
        if self._seen.get(pod.uid) is pod:
            return
        try:
            controllers = () if pod.owner is None else await self._owners.controllers(pod.namespace, pod.owner)
        except PortError as error:
            _log.info("owner_not_read", pod=pod.full_name, uid=pod.uid, error=str(error))
            return
        outcome = self._translations.of(pod, controllers)
        if outcome is None:
            return
        self._seen[pod.uid] = pod
        if self._said.get(pod.uid) == outcome:
            return
        self._said[pod.uid] = outcome
        who = {"pod": pod.full_name, "uid": pod.uid, "cause": "dry run"}
        if isinstance(outcome, TranslationRefused):
            self.done["refused"] += 1
            _log.info("would_be_refused", **who, faults=list(outcome.faults))
        else:
            self.done["submitted"] += 1
            notices = [notice.text for notice in outcome.notices]
            _log.info("would_be_submitted", **who, job=said(outcome.request), notices=notices)


class NoopScheduling:
    """Answer kube-scheduler during a dry run: every Pod of this scheduler waits."""

    def __init__(self, scheduler: str, ready: Callable[[], bool]) -> None:
        self._scheduler = scheduler
        self._ready = ready

    @property
    def ready(self) -> bool:
        """As `SchedulingService`."""
        return self._ready()

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        """As `SchedulingService`."""
        return Wait(DRY_TEXT) if pod.scheduler_name == self._scheduler else Pass(nodes)

    async def bind(self, pod: MemberRef, node: str) -> str:
        """As `SchedulingService`."""
        return DRY_TEXT


def said(request: JobRequest) -> dict[str, Any]:
    """Return the fields of the request that would be sent, without those that are left to Slurm."""
    return {
        field.name: value
        for field in fields(request)
        if (value := getattr(request, field.name)) not in (None, False, "", (), {})
    }
