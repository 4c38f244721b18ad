"""Resolve the workload of a Pod, and the Pods of a workload. No other module knows how keys are made.

A workload is what gets one placeholder job: one Pod, whose key is its UID, or a gang. The key stands in the job's name
and mark, so that a start finds the job of a Pod and the Pods of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from extender.domain.events import MemberRef
from extender.domain.jobs.job import JobView, Mark
from extender.domain.jobs.ownership import pod_of
from extender.domain.placeholders import Placeholders
from extender.domain.pods.deferred_pods import DeferredPods, may_have_older_job
from extender.domain.ports import PodCache
from extender.domain.views import PodView


class GangKeys(Protocol):
    """Read which Pods say that they belong to which gang. `GangMembers` of the controllers implements it."""

    def key_of(self, uid: str) -> str | None:
        """Return the workload of a Pod that is a member of a gang."""
        ...

    def uids(self, key: str) -> Sequence[str]:
        """Return the UIDs of the Pods that say that they belong to this gang."""
        ...


class WorkloadResolver:
    """Resolve in both directions, for workloads that the engine knows and for those of jobs that it does not."""

    def __init__(self, placeholders: Placeholders, cache: PodCache, gangs: GangKeys, deferred: DeferredPods) -> None:
        self._placeholders = placeholders
        self._cache = cache
        self._gangs = gangs
        self._deferred = deferred

    @staticmethod
    def key_of_single(pod: PodView) -> str:
        """Return the key of the workload that this Pod is, or would be, where it is a member of no gang."""
        return pod.uid

    def key_of(self, pod: PodView) -> str:
        """Return the key of the workload of which a Pod is a member, or would be."""
        return self.key_of_uid(pod.uid)

    def key_of_uid(self, uid: str) -> str:
        """Return the key of the workload of which the Pod with this UID is a member, or would be."""
        return self._gangs.key_of(uid) or self._placeholders.workload_of_pod(uid) or uid

    def uids(self, key: str) -> tuple[str, ...]:
        """Return the UIDs of the Pods of a workload, whether they exist or not."""
        p = self._placeholders.get(key)
        members = tuple(ref.uid for ref in p.refs) if p is not None else ()
        joined = self._gangs.uids(key)
        return tuple(dict.fromkeys((*members, *joined))) or (key,)

    def pods(self, key: str) -> list[PodView]:
        """Return the Pods of a workload that exist."""
        return [pod for uid in self.uids(key) if (pod := self._cache.get(uid)) is not None]

    def shown(self, uid: str) -> PodView | None:
        """Return the Pod with this UID as the watch shows it; `None`: it shows none."""
        return self._cache.get(uid)

    def may_have_pods(self, key: str) -> bool:
        """Return whether a Pod of this workload may exist although it could not be read."""
        return any(self._cache.may_exist(uid) for uid in self.uids(key))

    def may_be_deferred(self, key: str, namespace: str) -> bool:
        """Return whether Pods of this workload may exist that are not adopted yet. `namespace` "": it is not known."""
        p = self._placeholders.get(key)
        return (p is None or may_have_older_job(p)) and self._deferred.may_have(key, namespace)

    def members_of_job(self, job: JobView, mark: Mark) -> Sequence[MemberRef]:
        """Return the Pods for which a job with this mark was made, so far as the job says which."""
        ref = pod_of(job, mark)
        return () if ref is None else (ref,)
