"""Read the owners of Pods that existed at a start, group the Pods by workload, and defer those that cannot be judged.

A job is named after annotations of the owners, and owners decide who is a member of a gang. Any author can name an
owner whose API does not answer, so a start waits for owners only for a bounded time. A Pod that is deferred keeps its
job: it is adopted like the others, before anything is submitted for it, once its owners can be read.

What follows at a start: `Assembly.adopt`, `controllers.pods`, `Engine.adopt`, and the state UNSURE
(`domain/lifecycle/unsure.py`), which searches for the job. `controllers.orphans` finds jobs without a Pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import structlog

from extender.controllers.gang_intake import GangIntake
from extender.controllers.owner_rounds import Controllers, OwnerRounds
from extender.controllers.translations import Translations
from extender.domain.backoff import Backoff
from extender.domain.gangs.context import root_annotations
from extender.domain.pods.allocation_record import AllocationRecord, AllocationRecords
from extender.domain.pods.deferred_pods import DeferredPods, may_have_older_job
from extender.domain.ports import Announcement, Announcer, Clock, Owners, PodCache
from extender.domain.views import PodView
from extender.domain.wellknown import GANG_KEY, Reason
from extender.engine.engine import Engine
from extender.engine.workload_resolver import WorkloadResolver
from extender.runtime.cooperative_yield import CooperativeYield

_log = structlog.get_logger(__name__)

OWNER_RETRY = 2.0
"""Seconds before the owner of a Pod is read again."""

OWNERS_WITHIN = 20.0
"""Seconds for which a start waits for owners that cannot be read, while the API server answers otherwise."""

DEFERRED = Backoff(OWNER_RETRY, 30.0)
"""Seconds between two reads of the owners of deferred Pods."""

Found = tuple[PodView, Controllers | None]
"""A Pod with its controllers; `None`: they could not be read, and its record names its workload and its job."""

Workloads = dict[str, list[Found]]


class PodAdoption:
    """Group Pods that exist by workload. `pods_of` returns the Pods of a workload that are known already.

    `fresh`: return whether the Pod informer is up to date.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        cache: PodCache,
        owners: Owners,
        announcer: Announcer,
        clock: Clock,
        allocation_records: AllocationRecords,
        gangs: GangIntake,
        translations: Translations,
        deferred: DeferredPods,
        pods_of: Callable[[str], Sequence[PodView]],
        fresh: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._owners = OwnerRounds(owners, clock)
        self._announcer = announcer
        self._clock = clock
        self._allocation_records = allocation_records
        self._gangs = gangs
        self._translations = translations
        self._pods_of = pods_of
        self._fresh = fresh
        self.deferred = deferred
        self.reconsidered = False
        """The policy or the labels of a Namespace changed since Pods were grouped last."""

        self._trouble = ""
        self._failures = 0

    @property
    def trouble(self) -> str:
        """Return which Pod cannot be adopted now, and why; ""."""
        return self._trouble or self.deferred.trouble

    async def at_start(self, pods: Sequence[PodView]) -> Workloads:
        """Return the Pods of a start by workload, and defer those whose owners cannot be read in time."""
        read, failed = await self._read_at_start(pods)
        found: list[Found] = []
        for pod in pods:
            if pod.uid not in failed:
                found.append((pod, read[pod.uid]))
            elif self._is_known_by_record(pod):
                found.append((pod, None))
            else:
                self._defer(pod, f"The owner of the Pod cannot be read: {failed[pod.uid]}")
        return self._without_parts(await self._by_workload(found))

    async def again(self) -> tuple[Workloads, float | None]:
        """Return the deferred Pods whose owners can be read by now, by workload, and the seconds to the next try.

        The caller adopts them before anything else runs. `None`: no Pod is deferred.
        """
        pods = self._present()
        read, failed = await self._owners.read(pods)
        owners = {pod.uid: pod.owner for pod in pods if pod.uid in read}
        found = [(pod, read[pod.uid]) for pod in self._present() if pod.uid in owners and owners[pod.uid] == pod.owner]
        workloads = await self._by_workload(found)
        # A workload of which a Pod changed meanwhile waits for the next round: its author may repeat that without end.
        workloads = {
            key: found for key, found in workloads.items() if all(self._cache.get(pod.uid) == pod for pod, _ in found)
        }
        workloads = self._without_parts(workloads)
        self._failures = self._failures + 1 if failed else 0
        left = len(self.deferred) - sum(map(len, workloads.values()))
        return workloads, DEFERRED.after(self._failures) if left > 0 else None

    def stays_deferred(self, pod: PodView) -> bool:
        """Return whether a Pod is deferred still, as it is seen now."""
        if pod.uid not in self.deferred:
            return False
        if pod.ended or self._is_known_by_record(pod):
            self.deferred.drop(pod.uid)
            return False
        self.deferred.seen(pod)
        return True

    def _is_known_by_record(self, pod: PodView) -> bool:
        """Return whether a Pod is on a node, and its allocation record is enough to find its workload and its job.

        A record without a proof is enough where nothing makes the Pod a member of a gang: only the mark of the job that
        it names can prove that the job is the Pod's.
        """
        record = self._record_of(pod)
        if record.job_on(pod.node_name) is not None:
            return True
        if not pod.node_name or record.hint is None or GANG_KEY in pod.annotations:
            return False
        return self._gangs.key_of(pod, (), self._translations.charged(pod, root_annotations(()))) is None

    async def _read_at_start(self, pods: Collection[PodView]) -> tuple[dict[str, Controllers], dict[str, str]]:
        """Read owners until none is left, or until the rest has failed for `OWNERS_WITHIN`."""
        since = self._clock.now()
        read, failed = await self._owners.read(pods)
        while failed and (not self._fresh() or self._clock.now() - since < OWNERS_WITHIN):
            first = next(pod for pod in pods if pod.uid in failed)
            self._trouble = f"the owner of {first.full_name} cannot be read: {failed[first.uid]}"
            _log.warning(
                "owner_not_read", pod=first.full_name, uid=first.uid, pods=len(failed), error=failed[first.uid]
            )
            await asyncio.sleep(OWNER_RETRY)
            found, failed = await self._owners.read([pod for pod in pods if pod.uid in failed])
            read |= found
            if not self._fresh():
                since = self._clock.now()  # the API server as a whole does not answer
        self._trouble = ""
        return read, failed

    async def _by_workload(self, pods: Sequence[Found]) -> Workloads:
        """Group Pods by the keys of their workloads.

        That is done again where the policy, or the labels of a Namespace, change meanwhile: they decide who is charged
        for a gang, and one whose members were judged by two policies would be split for good.
        """
        found = await self._grouped(pods)
        while self.reconsidered:
            found = await self._grouped(pods)
        return found

    async def _grouped(self, pods: Sequence[Found]) -> Workloads:
        turns, found = CooperativeYield(), Workloads()
        self.reconsidered = False
        for pod, controllers in pods:
            await turns.maybe_yield()
            found.setdefault(self._key_of(pod, controllers or ()), []).append((pod, controllers))
        return found

    def _key_of(self, pod: PodView, controllers: Controllers) -> str:
        charged = self._translations.charged(pod, root_annotations(controllers))
        record = self._record_of(pod)
        key = record.gang_on(pod.node_name)
        if not key and not _is_bound_alone(pod, record):
            key = self._gangs.key_of(pod, controllers, charged) or ""
        return key or WorkloadResolver.key_of_single(pod)

    def _without_parts(self, workloads: Workloads) -> Workloads:
        """Defer gangs that lack members which may be deferred: incomplete, they would lose their job.

        They could not start anyway; a gang that its leader completes lacks none. Gangs of which Pods run, or are
        adopted already, get these as later members.
        """
        adopted = {pod.uid for found in workloads.values() for pod, _ in found}
        away = {pod.namespace for pod in self._present() if pod.uid not in adopted}
        whole = Workloads()
        for key, found in workloads.items():
            pods, known = [pod for pod, _ in found], self._engine.placeholders.get(key)
            in_use = (known is not None and not may_have_older_job(known)) or any(pod.node_name for pod in pods)
            there = [*pods, *(self._pods_of(key) if known is not None else ())]
            if in_use or pods[0].namespace not in away or not self._gangs.lacks(there, found[0][1] or ()):
                whole[key] = found
                continue
            for pod in pods:
                self._defer(pod, "Its gang lacks Pods, and the owners of some Pods in the Namespace cannot be read.")
        return whole

    def _defer(self, pod: PodView, reason: str) -> None:
        if pod.uid in self.deferred:
            return
        self.deferred.put(pod, reason)
        _log.warning("pod_deferred", pod=pod.full_name, uid=pod.uid, why=reason)
        self._announcer.announce(
            Announcement("Pod", pod.namespace, pod.name, pod.uid, Reason.JOB_PENDING, reason, warning=True)
        )

    def _present(self) -> list[PodView]:
        return [pod for uid in self.deferred.uids if (pod := self._cache.get(uid)) is not None]

    def _record_of(self, pod: PodView) -> AllocationRecord:
        return self._allocation_records.read(pod.annotations, pod.uid)


def _is_bound_alone(pod: PodView, record: AllocationRecord) -> bool:
    """Return whether a Pod was bound as a workload of its own, as its record proves, whatever gang it names by now.

    Without a proof that is not known: a member whose annotations a user removed would lose its node to other jobs.
    """
    return record.job_on(pod.node_name) is not None and record.gang is None
