"""Log what would be requested from Slurm for each Pod and each gang: `serve --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import structlog

from extender.controllers.dry_run_workloads import DryOutcome, DryRead, DryResult, dry_read, outcome_of
from extender.controllers.translations import Translations
from extender.domain.events import MemberRef
from extender.domain.gangs.context import GangContext
from extender.domain.gangs.membership import Membership
from extender.domain.gangs.recognition import recognise
from extender.domain.jobs.job import JobRequest
from extender.domain.ports import Owners, PodCache, PortError
from extender.domain.verdict import FilterVerdict, Pass, Wait
from extender.domain.views import PodView
from extender.runtime.controller import Controller, Requeue, Resync

_log = structlog.get_logger(__name__)

CHECK_EVERY = 1.0
"""Seconds between two looks at what changed."""

MOST_FAULTS = 50
"""Faults of a gang that are logged."""

DRY_TEXT = "dry run: the extender submits nothing to Slurm and writes nothing to Kubernetes"


class DryRun:
    """Translate every Pod of this scheduler, and log the job that each workload would get whenever it changes.

    `site` has the site's choices about gangs, and the PodGroups; `own_gates` are the scheduling gates of the extender.
    """

    def __init__(
        self,
        pods: Callable[[], Sequence[PodView]],
        cache: PodCache,
        owners: Owners,
        translations: Translations,
        scheduler: str,
        *,
        site: GangContext,
        own_gates: Collection[str],
    ) -> None:
        self._pods = pods
        self._cache = cache
        self._owners = owners
        self._translations = translations
        self._scheduler = scheduler
        self._site = site
        self._own_gates = frozenset(own_gates)
        self._read: dict[str, DryRead] = {}
        """By Pod."""

        self._logged: dict[str, DryOutcome] = {}
        """By workload: what was logged last."""

        self._seen: dict[str, PodView] = {}
        self._controller = Controller("dry run", self._reconcile, resync=Resync(lambda: ("all",)))
        self.done: Counter[str] = Counter()
        """Workloads by what would have been done: see `DryResult`."""

    async def run(self) -> None:
        """Translate until cancelled."""
        await self._controller.run()

    async def _reconcile(self, _all: str) -> Requeue:
        if self._cache.synced:
            await self.check()
        return Requeue(CHECK_EVERY)

    async def check(self) -> None:
        """Translate what is new or was changed, and log what follows for its workloads."""
        waiting = {pod.uid: pod for pod in self._pods() if self._is_waiting(pod)}
        changed = set[str]()
        for uid in self._seen.keys() - waiting.keys():
            del self._seen[uid]
        for uid in self._read.keys() - waiting.keys():
            changed.add(self._read.pop(uid).key)
        for pod in waiting.values():
            changed |= await self._dry_run(pod)
        workloads: dict[str, list[DryRead]] = {}
        for one in self._read.values() if changed else ():
            if one.key in changed:
                workloads.setdefault(one.key, []).append(one)
        for key in changed - workloads.keys():
            self._logged.pop(key, None)
        for key, reads in workloads.items():
            self._report(key, reads)

    def reconsider(self, _namespace: str | None = None) -> None:
        """Translate the Pods again, since the policy changed."""
        self._seen.clear()

    def waiting(self) -> Mapping[str, int]:
        """Return Pods without a node, by what would be done for their workloads."""
        found = Counter(self._logged[one.key].result for one in self._read.values() if one.key in self._logged)
        return {result: found[result] for result in DryResult}

    def _is_waiting(self, pod: PodView) -> bool:
        own = pod.scheduler_name == self._scheduler
        return own and not pod.node_name and pod.deleted_at is None and not pod.finished

    async def _dry_run(self, pod: PodView) -> frozenset[str]:
        """Translate a Pod, if something may have changed for it. Return the keys of the workloads that change."""
        known = self._read.get(pod.uid)
        reread = known is not None and bool(known.gang and known.gang.unknown)
        if self._seen.get(pod.uid) is pod and not reread:
            return frozenset()
        try:
            controllers = () if pod.owner is None else await self._owners.controllers(pod.namespace, pod.owner)
        except PortError as error:
            _log.info("owner_not_read", pod=pod.full_name, uid=pod.uid, error=str(error))
            return frozenset()
        translation = self._translations.of(pod, controllers)
        if translation is None:
            return frozenset()
        self._seen[pod.uid] = pod
        gang = recognise(pod, replace(self._site, controllers=controllers))
        beyond = self._translations.beyond_rule(pod, gang) if isinstance(gang, Membership) else ""
        found = self._read[pod.uid] = dry_read(pod, gang, translation, beyond)
        if known is not None and known == found:
            return frozenset()
        return frozenset({found.key} if known is None else {known.key, found.key})

    def _report(self, key: str, reads: Sequence[DryRead]) -> None:
        outcome = outcome_of(reads, self._own_gates)
        if self._logged.get(key) == outcome:
            return
        self._logged[key] = outcome
        self.done[outcome.result] += 1
        pod = min((one.pod for one in reads), key=lambda one: (one.namespace, one.name))
        who: dict[str, Any] = {"pod": pod.full_name, "uid": pod.uid, "cause": "dry run"}
        if outcome.gang:
            who |= {"gang": outcome.gang, "pods": len(reads)}
        match outcome.result:
            case DryResult.REFUSED:
                _log.info("would_be_refused", **who, faults=list(outcome.faults[:MOST_FAULTS]))
            case DryResult.INCOMPLETE:
                _log.info("would_wait_for_its_gang", **who, missing=outcome.missing)
            case DryResult.SUBMITTED if outcome.request is not None:
                _log.info(
                    "would_be_submitted", **who, job=requested_fields(outcome.request), notices=list(outcome.notices)
                )


class NoopScheduling:
    """Answer kube-scheduler during a dry run: every Pod of this scheduler waits."""

    def __init__(self, scheduler: str, ready: Callable[[], bool]) -> None:
        self._scheduler = scheduler
        self._ready = ready

    @property
    def ready(self) -> bool:
        """Answer as `SchedulingService`."""
        return self._ready()

    def offer(self, pod: PodView, nodes: Sequence[str], full: bool) -> FilterVerdict:
        """Answer as `SchedulingService`."""
        return Wait(DRY_TEXT) if pod.scheduler_name == self._scheduler else Pass(nodes)

    async def bind(self, pod: MemberRef, node: str) -> str:
        """Answer as `SchedulingService`."""
        return DRY_TEXT


def requested_fields(request: JobRequest) -> dict[str, Any]:
    """Return the fields of the request that would be sent, without those that are left to Slurm."""
    return {
        field.name: value
        for field in fields(request)
        if (value := getattr(request, field.name)) not in (None, False, "", (), {})
    }
